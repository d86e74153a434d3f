"""`seller-platform verify`: compares the answers of source and replica to the same queries."""

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime

import click

from seller_platform.cli.connect import open_stored_api
from seller_platform.cli.installation import Installation, open_served_installation
from seller_platform.cli.output import Document, Outcome, Output, json_option
from seller_platform.cli.processes import free_port
from seller_platform.cli.sandbox.serving import await_service, starting
from seller_platform.cli.sync import SliceOptions, account_option, datasets_named, keys_of, months_of
from seller_platform.cli.terminal.colours import Colour
from seller_platform.cli.terminal.layout import TableColumn
from seller_platform.cli.terminal.months import Month
from seller_platform.client.http.api import SellerApi
from seller_platform.client.oauth.tokens import TokenAuth
from seller_platform.contract import REFRESHED
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.inventory import INVENTORY
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import CheckFailedError, NotConnectedError
from seller_platform.files import make_folders
from seller_platform.ingest.verification.comparison import Comparison, ComparisonResult, verify_accounts, verify_each
from seller_platform.ingest.verification.queries import NOT_ASKED, AccountQuery, StoredDays, queries_for
from seller_platform.service.oauth.temporary_access import temporary_access
from seller_platform.warehouse.connections.accounts import KnownAccount, account_titles, accounts, connections
from seller_platform.warehouse.loads.history_start import history_start_in
from seller_platform.warehouse.loads.products import accounts_with_offers, skus_of_account
from seller_platform.warehouse.loads.receipts import stored_windows

STATISTICS, VELOCITY = "statistics", "velocity"
_COLUMNS: tuple[str | TableColumn, ...] = (
    TableColumn("queries", rank=3),
    TableColumn("rows", rank=2),
    *(verdict.name.lower() for verdict in ComparisonResult),
    TableColumn("seconds", rank=1),
)
# The differences of each verdict: the word before each line, and the words of the error.
_KINDS = {
    ComparisonResult.DIFFERENT: ("different", "source and replica differ"),
    ComparisonResult.COMPUTED: ("computed differently", "the replica computes other values"),
    ComparisonResult.ABSENT: ("absent", "rows were never synced"),
}

# The lists that a replica computes an answer from.
_SOURCES = {
    STATISTICS: (DAILY_PRODUCT_SALES.name, TRANSACTIONS.name, COST_PERIODS.name),
    VELOCITY: (INVENTORY.name, DAILY_PRODUCT_SALES.name),
}


class ComparedAnswers(Document, frozen=True):
    """How many of the queries about a dataset and an account have which result.

    Attributes:
        rows: The rows that the source sent.
        computed: The replica computed another answer than the source.
        absent: The rows were never synced.
        not_known: The replica cannot know the answer.
    """

    dataset: str
    account: str
    queries: int
    rows: int
    equal: int
    different: int
    computed: int
    absent: int
    not_known: int
    failed: int
    seconds: float


class AnswerDifference(Document, frozen=True):
    """A difference between the two answers to a query."""

    dataset: str
    account: str
    query: str
    message: str


class NotKnown(Document, frozen=True):
    """What was not compared, because a replica does not have it."""

    dataset: str
    message: str
    accounts: list[str]
    queries: int


class VerifyDocument(Outcome, frozen=True):
    """How the answers of source and replica compare.

    Attributes:
        differences: Rows that differ.
        computed_differences: Answers that the replica computed, and that differ.
        absent: Rows that were never synced.
        not_compared: The parts of the API that are not compared, with the reason.
    """

    verified: list[ComparedAnswers]
    differences: list[AnswerDifference]
    computed_differences: list[AnswerDifference]
    absent: list[AnswerDifference]
    not_known: list[NotKnown]
    not_compared: dict[str, str]


@click.command()
@account_option
@click.option(
    "--dataset", "names", multiple=True, metavar="NAME", help="Only this dataset, or `statistics`, or `velocity`."
)
@click.option("--from", "first_month", type=Month(), help="First month to compare.")
@click.option("--to", "last_month", type=Month(), help="Last month to compare.")
@json_option(VerifyDocument)
def verify(
    *,
    chosen_accounts: tuple[str, ...],
    names: tuple[str, ...],
    first_month: date | None,
    last_month: date | None,
    output: Output,
) -> None:
    """Send the same queries to source and replica, and compare the answers.

    The source is the connected API; the replica is this platform's service over the warehouse, started for the
    comparison. All stored slices are compared: every list, account and month, the cost periods of every product, the
    inventory by the velocity of the newest days, and the statistics in every view. The output names what is left out.

    Differences of rows, differences of answers that the replica computed, and rows that were never synced are listed
    separately. With any of them the exit code is 5.
    """
    selection = SliceOptions(chosen_accounts or None, names or None, first_month, last_month)
    with open_served_installation() as installation:
        comparisons = run_verification(installation, selection, output)
        titles = account_titles(installation.database)
    report(output, comparisons, titles)


def run_verification(installation: Installation, selection: SliceOptions, output: Output) -> list[Comparison]:
    """Send the selected queries to both, and return the comparisons.

    Raises:
        NotConnectedError: No connection is authorised yet.
        RequestError: The selection names something that does not exist, or months in the wrong order.
        SellerPlatformError: The replica does not start.
    """
    chosen = keys_of(installation, selection.accounts)
    queries_of = _queries_by_account(installation, selection)
    connected = connections(installation.database)
    if not connected:
        raise NotConnectedError
    comparisons: list[Comparison] = []
    with open_replica(installation) as base_url:
        for connection in connected:
            accounts_read = [each for each in accounts(installation.database) if each.connection == connection.name]
            queries = [query for each in accounts_read if each.key in chosen for query in queries_of(each)]
            with (
                open_stored_api(installation, connection.name) as source,
                temporary_access(installation.database, [each.key for each in accounts_read]) as token,
                SellerApi(base_url, auth=TokenAuth(token)) as replica,
                output.progress(f"Comparing {connection.name}", len(queries)) as show,
            ):
                if selection.accounts is None and selection.datasets is None:
                    comparisons.append(verify_accounts(connection.name, source, replica))
                for done, comparison in enumerate(verify_each(queries, source, replica), start=1):
                    comparisons.append(comparison)
                    show(done)
    return comparisons


@contextmanager
def open_replica(installation: Installation) -> Iterator[str]:
    """Run `service run` over the warehouse until the block ends, and yield the base URL.

    Raises:
        SellerPlatformError: The service does not answer.
    """
    base_url, log = f"http://127.0.0.1:{free_port()}", installation.settings.home / "replica.log"
    make_folders(log.parent)
    with starting(installation.database.url, base_url, log, "--no-worker") as replica:
        await_service(base_url, replica)
        yield base_url


def report(output: Output, comparisons: Sequence[Comparison], titles: Mapping[str, str]) -> None:
    """Print the comparisons by account and dataset.

    The command ends with an error if any of them differs, is absent or failed.
    """
    rows, not_known = _rows(comparisons), _not_known(comparisons)
    differences = {verdict: _differences(comparisons, verdict) for verdict in _KINDS}
    document = VerifyDocument(
        verified=rows,
        differences=differences[ComparisonResult.DIFFERENT],
        computed_differences=differences[ComparisonResult.COMPUTED],
        absent=differences[ComparisonResult.ABSENT],
        not_known=not_known,
        not_compared=dict(NOT_ASKED),
    )
    output.table_by_account("Source and replica", _COLUMNS, rows, titles)
    for fact in not_known:
        whose = fact.accounts[0] if len(fact.accounts) == 1 else count_of(len(fact.accounts), "account")
        output.line(f"not in the replica: {fact.dataset} of {whose}: {fact.message}")
    for what, reason in NOT_ASKED.items():
        output.line(f"not compared: {what}: {reason}")
    problems = []
    for verdict, (word, problem) in _KINDS.items():
        for difference in differences[verdict]:
            subject = f"{difference.dataset} of {difference.account} ({difference.query})"
            output.line(f"{word}: {subject}: {difference.message}", Colour.BAD)
        named = dict.fromkeys(f"{difference.dataset} of {difference.account}" for difference in differences[verdict])
        if named:
            problems.append(f"{problem}: {'; '.join(named)}")
    error = next((comparison.error for comparison in comparisons if comparison.error is not None), None)
    if problems:
        error = CheckFailedError(". ".join([*problems, *_next_steps(comparisons)]))
    output.outcome(document, error)
    output.say("Source and replica give equal answers to all compared queries.")


def _next_steps(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what to do about the differences, in commands that can be run as they are printed."""
    of_rows = [each for each in comparisons if each.verdict in (ComparisonResult.DIFFERENT, ComparisonResult.ABSENT)]
    if of_rows:
        yield (
            f"Read them again with `seller-platform sync{_options(of_rows)}`, because the source may have changed "
            "since; then run `seller-platform verify` again"
        )
    computed = [each for each in comparisons if each.verdict is ComparisonResult.COMPUTED]
    sources = dict.fromkeys(name for each in computed for name in _SOURCES.get(each.subject, (each.subject,)))
    if not computed or {each.subject for each in of_rows}.intersection(sources):
        return  # they may follow from the rows that differ
    command = (
        f"seller-platform verify{_options([replace(each, subject=name) for each in computed for name in sources])}"
    )
    yield (
        f"The replica computes these answers from {', '.join(sources)}, and the source may from rows that are in no "
        f"list: where `{command}` finds no difference, no sync makes them equal, and only the views that are stored "
        "as the source computed them are the source's (products by month, the date view by day, and inventory)"
    )


def _options(comparisons: Sequence[Comparison]) -> str:
    """Return the options that select the accounts, datasets and months of comparisons; none where all are."""
    accounts_named = dict.fromkeys(each.account for each in comparisons)
    names = dict.fromkeys(each.subject for each in comparisons)
    words = [word for name in accounts_named for word in ("--account", shlex.quote(name))]
    if not {dataset.name for dataset in REFRESHED}.issuperset(names):
        names = {}  # what is computed follows from several datasets, and accounts are read by every sync
        words = [] if ACCOUNTS.name in {each.subject for each in comparisons} else words
    words += [word for name in names for word in ("--dataset", name)]
    if windows := [each.window for each in comparisons if each.window is not None]:
        first, last = min(window.start for window in windows), max(window.last_day for window in windows)
        words += ["--from", f"{first:%Y-%m}", "--to", f"{last:%Y-%m}"]
    return "".join(f" {word}" for word in words)


def _queries_by_account(
    installation: Installation, selection: SliceOptions
) -> Callable[[KnownAccount], Iterator[AccountQuery]]:
    """Return the function that yields the queries for an account."""
    datasets = datasets_named(selection.datasets, words=(STATISTICS, VELOCITY))
    months = months_of(selection, history_start_in(installation.database, installation.settings))
    stored_days = StoredDays(stored_windows(installation.database))
    with_offers = accounts_with_offers(installation.database)
    has_statistics = selection.datasets is None or STATISTICS in selection.datasets
    needs_costs = has_statistics or COST_PERIODS in datasets

    def queries_of(account: KnownAccount) -> Iterator[AccountQuery]:
        return queries_for(
            account,
            datasets,
            months,
            stored_days,
            today=datetime.now(account.zone_or_utc).date(),
            skus=skus_of_account(installation.database, account.key) if needs_costs else (),
            has_offers=account.key in with_offers,
            has_velocity=selection.datasets is None or VELOCITY in selection.datasets,
            has_statistics=has_statistics,
        )

    return queries_of


def _differences(comparisons: Sequence[Comparison], verdict: ComparisonResult) -> list[AnswerDifference]:
    """Return the differences of one verdict, an entry for each line."""
    return [
        AnswerDifference(dataset=comparison.subject, account=comparison.account, query=comparison.asked, message=line)
        for comparison in comparisons
        if comparison.verdict is verdict
        for line in comparison.differences
    ]


def _rows(comparisons: Sequence[Comparison]) -> list[ComparedAnswers]:
    groups: dict[tuple[str, str], list[Comparison]] = defaultdict(list)
    for comparison in comparisons:
        groups[(comparison.subject, comparison.account)].append(comparison)
    return [
        ComparedAnswers(
            dataset=dataset,
            account=account,
            queries=len(group),
            rows=sum(comparison.rows for comparison in group),
            seconds=round(sum(comparison.seconds for comparison in group), 2),
            **{
                verdict.name.lower(): sum(comparison.verdict is verdict for comparison in group)
                for verdict in ComparisonResult
            },
        )
        for (dataset, account), group in groups.items()
    ]


def _not_known(comparisons: Sequence[Comparison]) -> list[NotKnown]:
    """Return what was not compared, each entry once with its accounts."""
    concerned: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for comparison in comparisons:
        for what in comparison.not_known:
            counts = concerned[(comparison.subject, what)]
            counts[comparison.account] = counts.get(comparison.account, 0) + 1
    return [
        NotKnown(dataset=dataset, message=what, accounts=list(counts), queries=sum(counts.values()))
        for (dataset, what), counts in concerned.items()
    ]
