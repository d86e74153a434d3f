"""`seller-platform sync`: loads the API's lists and costs into PostgreSQL."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from seller_platform.capabilities import capabilities, referred
from seller_platform.cli.installation import (
    Installation,
    open_served_installation,
    open_stored_installation,
    report_loads,
)
from seller_platform.cli.load_plan import PlanDocument, show_plan
from seller_platform.cli.output import Document, Outcome, Output, fail_on_option, json_option, with_title
from seller_platform.cli.terminal.months import Month
from seller_platform.commands import runnable
from seller_platform.contract import DATASETS, REFRESHED, Dataset, Source, Window, dataset_named
from seller_platform.contract.datasets.stock import INVENTORY
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.contract.loads import CountVerdict
from seller_platform.counts import count_of
from seller_platform.errors import (
    CheckFailedError,
    NotConnectedError,
    NotOfferedError,
    PartsFailedError,
    SellerPlatformError,
    UnknownAccountError,
    unknown_dataset,
)
from seller_platform.ingest.loads.planner import DueSlice, Planner, postpone
from seller_platform.warehouse.connections.accounts import KnownAccount, account_titles, accounts, connections
from seller_platform.warehouse.loads.expectations import skus_of_account
from seller_platform.warehouse.loads.history_start import (
    extend_history,
    history_start_in,
    keep_history_start,
    months_of_history,
)
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.monitoring.problems import Problem, end_acknowledgements, exit_code_of, failing, problems

if TYPE_CHECKING:
    from seller_platform.client.http.api import SellerApi
    from seller_platform.ingest.loads.loading import SliceResult

_BELIEVED = "A row that is sent again is believed to be stored: what another program changed is found by `verify`."
Command = Callable[..., None]
MODES = {option: mode for each in capabilities() for option, mode in each.modes.items()}
_COLUMNS = ("dataset", "slices", "rows", "announced", "verdict", "changed")


class LoadedSlices(Document, frozen=True):
    """What was loaded of a dataset and an account.

    Attributes:
        rows: The rows of all slices.
        announced: The sum of the announced totals; null if any list announced none.
        verdict: The worst of the slices.
        changed: How many slices changed.
    """

    dataset: str
    account: str
    slices: int
    rows: int
    announced: int | None
    verdict: CountVerdict
    changed: int
    seconds: float


class SyncDocument(Outcome, frozen=True):
    """What was loaded.

    Attributes:
        not_offered: Messages about endpoints that the upstream does not have.
        not_loaded: Why slices were not loaded, or are left for another day, by their names.
    """

    loads: list[LoadedSlices]
    not_offered: list[str]
    not_loaded: dict[str, str]


@dataclass(frozen=True)
class SliceOptions:
    """The options that choose slices; without any, everything, or what may have changed."""

    accounts: Sequence[str] = ()
    datasets: Sequence[str] = ()
    first_month: date | None = None
    last_month: date | None = None
    full: bool = False

    @property
    def whole(self) -> bool:
        """Whether months are read as a whole."""
        return self.full or self.first_month is not None or self.last_month is not None


@dataclass(frozen=True)
class Synced:
    """The result of a sync.

    Attributes:
        failures: Why slices were not loaded, by their names.
        not_offered: Messages about endpoints that the upstream does not have.
    """

    receipts: list[Receipt]
    failures: dict[str, str]
    not_offered: frozenset[str] = frozenset()
    titles: Mapping[str, str] = field(default_factory=dict)

    def and_loaded(self, results: "Sequence[SliceResult]", later: Mapping[DueSlice, SellerPlatformError]) -> "Synced":
        """Return the result with that of slices.

        Args:
            later: Slices that the requests of today do not suffice for, with the reason of each.
        """
        receipts = self.receipts + [each.receipt for each in results if each.receipt is not None]
        refused = [(each.request.name, each.error) for each in results if each.error is not None]
        not_offered = {str(error) for _, error in refused if isinstance(error, NotOfferedError)}
        failures = {name: str(error) for name, error in refused if not isinstance(error, NotOfferedError)}
        failures |= {str(each): str(error) for each, error in later.items()}
        return Synced(receipts, self.failures | failures, self.not_offered | not_offered, self.titles)


account_option = click.option(
    "--account",
    "chosen_accounts",
    multiple=True,
    metavar="NAME",
    help="Only the account of this key, title, or seller and marketplace; may be repeated.",
)
dataset_option = click.option(
    "--dataset", "chosen_datasets", multiple=True, metavar="NAME", help="Only this dataset; may be repeated."
)

of_slices = (account_option, dataset_option)


def selecting(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Add options that choose slices, and pass them to the command as its `selection`; `--month` is both ends."""

    def with_options(command: Command) -> Command:
        @wraps(command)
        def with_selection(*, chosen_accounts: tuple[str, ...], month: date | None = None, **given: Any) -> None:
            first, last = given.pop("first_month"), given.pop("last_month")
            if month is not None and (first is not None or last is not None):
                raise click.UsageError("--month is a single month, --from and --to are several; give one of them")
            chosen = (given.pop("chosen_datasets", ()), month or first, month or last, given.pop("full", False))
            command(selection=SliceOptions(chosen_accounts, *chosen), **given)

        decorated: Command = with_selection
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return with_options


@click.command()
@selecting(
    *of_slices,
    click.option(
        "--from",
        "first_month",
        type=Month(),
        help="First month to read as a whole. History begins with it unless it began before.",
    ),
    click.option("--to", "last_month", type=Month(), help="Last month to read as a whole."),
    click.option("--full", is_flag=True, help=f"Read every month of history as a whole. {_BELIEVED}"),
    click.option("--plan", "only_plan", is_flag=True, help="Only say what it would take; nothing is loaded."),
    *(click.option(option, "mode", flag_value=option, help=sentence) for option, (_, sentence) in MODES.items()),
)
@fail_on_option
@json_option(SyncDocument, PlanDocument)
def sync(
    *, selection: SliceOptions, only_plan: bool, fail_on: str | None, output: Output, mode: str | None = None
) -> None:
    """Load the API's lists and costs into PostgreSQL.

    Without --from, --to and --full it reads only days that are not stored yet or may have changed since. Costs take a
    request for each product. They are read once a day, unless --full or --dataset cost_periods asks for them.

    Where SELLER_API_REQUESTS_PER_DAY limits the requests of a connection, it reads what they suffice for: the newest
    days first, and last what it only reads again. --plan says before what each dataset takes, and what would be left.
    It sends no request, but for the inventory of an account of which none is stored: costs take a request a product.

    It ends with the same exit code as `status`, also for what other runs left: see `seller-platform status --help`.
    """
    if mode and (only_plan or selection != SliceOptions()):
        raise click.UsageError(f"{mode} chooses what is loaded; leave out the other options")
    if only_plan:
        with open_stored_installation() as installation:
            datasets, since, months, lookups_too = plan_scope(installation, selection)
            chosen = installation.accounts(selection.accounts)
            planner = Planner.of(installation.settings, installation.database, chosen, since, datetime.now(UTC))
            with output.progress("Reading the receipts"):
                slices = planner.requested(datasets, months, lookups_too=lookups_too)
                lookups = {each.account for each in slices if each.dataset.source is Source.PRODUCT_LOOKUP}
                products = _products(installation, [each for each in chosen if each.key in lookups], output)
            show_plan(replace(planner, products=products), slices, output)
        return
    with open_served_installation() as installation:
        if mode:
            synced, said = referred(MODES[mode][0])(installation, output)
        else:
            synced, said = run_sync(installation, selection, output), [_BELIEVED] * selection.full
        report_loads(installation)
        found = current_problems(installation)
    error = problem_of(synced, found, fail_on or installation.settings.fail_on)
    if not isinstance(error, PartsFailedError):
        said = [*said, *(f"{name}: {reason}" for name, reason in synced.failures.items())]
    report(output, synced, error, said=said)


def _products(installation: Installation, chosen: Sequence[KnownAccount], output: Output) -> Mapping[str, int]:
    """Return how many products the upstream lists of those accounts of which no product is stored, by key."""
    unlisted = [each for each in chosen if not skus_of_account(installation.database, each.key)]
    if not unlisted:
        return {}
    # Without such an account a plan needs neither HTTP nor the key of the secrets.
    from seller_platform.cli.connect import open_stored_apis
    from seller_platform.client.lists.row_sink import KeptRows
    from seller_platform.client.lists.slice_reader import read_slice

    counts, today = {}, datetime.now(UTC).date()
    with open_stored_apis(installation) as api:
        for each in unlisted:
            try:
                read_slice(api(each.connection), INVENTORY, each.account, None, today, listed := KeptRows())
                counts[each.key] = listed.count
            except SellerPlatformError as error:
                output.say(f"The costs of {each.key} count as one request: its inventory cannot be read: {error}")
    return counts


def run_sync(
    installation: Installation, selection: SliceOptions, output: Output, *, not_before: date = date.min
) -> Synced:
    """Discover the accounts, load the selected slices, and return the result.

    Args:
        not_before: The first day that is loaded, where history began earlier.

    Raises:
        NotConnectedError: No connection is authorised yet.
        RequestError: The selection names something that does not exist, or months in the wrong order.
    """
    # Imported here because `--help` needs no HTTP.
    from seller_platform.cli.connect import open_stored_apis
    from seller_platform.ingest.loads.loading import SliceLoader, load_each
    from seller_platform.ingest.loads.processes import processes_for

    settings, database = installation.settings, installation.database
    datasets, _, months, lookups_too = plan_scope(installation, selection)
    # Definitions have the partitions that history has when they load, so it is extended first.
    since = keep_history_start(database, history_start_in(database, settings, selection.first_month))
    if months and months[0].start < since.replace(day=1):
        since = months[0].start
        extend_history(database, since)
        output.say(
            f"History begins with {since:%Y-%m} now, for every account: refreshes load these months too. "
            "A Dagster UI that runs shows them after *Reload* of the code location."
        )
    with open_stored_apis(installation) as api:
        with output.progress("Discovering the accounts", None):
            synced = _discovered(installation, api)
        if not synced.receipts:
            try:
                if accounts(database):
                    installation.accounts(selection.accounts)
            except UnknownAccountError:  # it may be one of the accounts that were not discovered
                for problem in sorted(set(synced.failures.values())):
                    output.say(f"New accounts were not discovered: {problem}")
                raise
            return synced
        read = {receipt.account for receipt in synced.receipts}
        chosen = [each for each in installation.accounts(selection.accounts) if each.connection in read]
        planner = Planner.of(settings, database, chosen, max(since, not_before), datetime.now(UTC))
        loader = SliceLoader(database, api, planner.now, adaptive=planner.adaptive)
        division = planner.divide(planner.requested(datasets, months, lookups_too=lookups_too))
        postpone(database, division)
        requests = [each.request for each in division.in_order()]
        results = []
        with (
            output.progress(f"Loading {count_of(len(chosen), 'account')}", len(requests)) as show,
            processes_for(division.rows, settings, database.url) as processes,
        ):
            pause = settings.second_reading_seconds
            elsewhere = processes.load if processes else None
            for result in load_each(requests, loader, elsewhere=elsewhere, second_reading_seconds=pause):
                results.append(result)
                show(len(results))
    return synced.and_loaded(results, division.later)


def _discovered(installation: Installation, api: "Callable[[str], SellerApi]") -> Synced:
    """Discover the accounts of every connection."""
    from seller_platform.ingest.loads.accounts import discover  # as above

    database, receipts, failures = installation.database, list[Receipt](), dict[str, SellerPlatformError]()
    pause = installation.settings.second_reading_seconds
    for each in connections(database):
        try:
            _, receipt = discover(api, database, each, run_id=None, second_reading_seconds=pause)
            receipts.append(receipt)
        except SellerPlatformError as error:
            failures[f"{ACCOUNTS.table} {each.name}"] = error
    return Synced(receipts, {name: str(error) for name, error in failures.items()}, titles=account_titles(database))


def plan_scope(
    installation: Installation, selection: SliceOptions
) -> tuple[Sequence[Dataset], date, Sequence[Window] | None, bool]:
    """Return the datasets that a sync would read, the first day of history, and the months to read as a whole, if any.

    The last value says whether datasets that take a request for each product are read, even if they were read today.

    Raises:
        NotConnectedError: No connection is authorised yet.
        RequestError: The selection names something that does not exist, or months in the wrong order.
    """
    datasets = datasets_named(selection.datasets) if selection.datasets else installation.datasets
    if not connections(installation.database):
        raise NotConnectedError
    since = history_start_in(installation.database, installation.settings, selection.first_month)
    is_dated = any(dataset.is_dated for dataset in datasets)
    months = []
    if selection.whole and is_dated:
        months = months_of_history(selection.first_month, selection.last_month, since)
    lookups_too = selection.full or bool(selection.datasets)
    first_day = min(since, months[0].start) if months else since
    return datasets, first_day, months if selection.whole else None, lookups_too


def report(
    output: Output,
    synced: Synced,
    error: SellerPlatformError | None,
    document_type: type[SyncDocument] = SyncDocument,
    *,
    said: Sequence[str] = (),
    **more: object,
) -> None:
    """Print the loads by account and dataset, and end with the error, if any.

    Args:
        said: Sentences to print below the loads.
        more: What it has beside the loads.
    """
    groups: dict[tuple[str, str], list[Receipt]] = defaultdict(list)
    for receipt in synced.receipts:
        groups[(receipt.dataset, receipt.account)].append(receipt)
    loads = []
    for (dataset, account), group in groups.items():
        totals = [receipt.announced for receipt in group if receipt.announced is not None]
        loaded = LoadedSlices(
            dataset=dataset,
            account=account,
            slices=len(group),
            rows=sum(receipt.rows for receipt in group),
            announced=sum(totals) if len(totals) == len(group) else None,
            verdict=CountVerdict.worst({receipt.verdict for receipt in group}),
            changed=sum(receipt.changed for receipt in group),
            seconds=round(sum(receipt.seconds for receipt in group), 2),
        )
        loads.append(loaded)
    order = [dataset.name for dataset in DATASETS]
    ordered = sorted(loads, key=lambda each: (each.dataset != ACCOUNTS.name, each.account, order.index(each.dataset)))
    if ordered:
        output.table("Loaded", ordered, _COLUMNS, lambda each: with_title(each.account, synced.titles))
    for message in (*sorted(synced.not_offered), *said):
        output.say(message)
    not_offered, not_loaded = sorted(synced.not_offered), synced.failures
    document = document_type(loads=loads, not_offered=not_offered, not_loaded=not_loaded, **more)
    output.outcome(document, error)


def problem_of(synced: Synced, found: Sequence[Problem], fail_on: str = "error") -> SellerPlatformError | None:
    """Return an error with the exit code of `status` if anything is wrong; else None.

    Args:
        found: The problems of the warehouse; why slices failed is among them.
        fail_on: Which of them let the command fail, as `failing` takes it.
    """
    remaining = failing(found, fail_on)
    if not remaining:
        return None
    code, known = exit_code_of(remaining), {each.message for each in found if each.acknowledged_by is not None}
    failures = {name: reason for name, reason in synced.failures.items() if reason not in known}
    if failures:
        return PartsFailedError(failures, "slice", "loaded", exit_code=code, any_done=bool(synced.receipts))
    sentences = [runnable(f"{each.dataset}: {each.message} {each.next_step or ''}".strip()) for each in remaining]
    more = f" And {count_of(len(sentences) - 3, 'other problem')}." if len(sentences) > 3 else ""
    error = CheckFailedError(f"{' '.join(sentences[:3])}{more}", step="`seller-platform status` lists all problems.")
    error.exit_code = code
    return error


def current_problems(installation: Installation) -> Sequence[Problem]:
    """Return the problems of the warehouse, and forget acknowledgements of those that have ended."""
    database = installation.database
    end_acknowledgements(database)
    return problems(database)


def datasets_named(names: Sequence[str]) -> tuple[Dataset, ...]:
    """Return the datasets of these names; without names, all lists and the costs.

    Raises:
        RequestError: A name is none of these.
    """
    allowed = [dataset.name for dataset in REFRESHED]
    for name in names:
        if name not in allowed:
            raise unknown_dataset(name, allowed)
    return tuple(map(dataset_named, names)) if names else REFRESHED
