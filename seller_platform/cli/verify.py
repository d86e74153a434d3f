"""`seller-platform verify`: compares stored slices with the upstream by value, and repairs what differs."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import click

from seller_platform.cli.connect import open_stored_apis
from seller_platform.cli.installation import Installation, open_served_installation, report_loads, user_name
from seller_platform.cli.output import Outcome, Output, json_option, with_title
from seller_platform.cli.sync import SliceOptions, datasets_named, of_slices, selecting
from seller_platform.cli.terminal.months import Month
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import CheckFailedError, NotConnectedError, PartsFailedError, SellerPlatformError, first_few
from seller_platform.ingest.loads.comparing import Comparison, ComparisonResult, SliceComparer, comparison_of
from seller_platform.ingest.loads.loading import SliceResult
from seller_platform.ingest.loads.planner import DueSlice, Planner
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.connections.accounts import account_titles, accounts_named, connections
from seller_platform.warehouse.loads.history_start import history_start_in, months_of_history
from seller_platform.warehouse.loads.recounts import recount
from seller_platform.warehouse.monitoring.comparable_slices import comparable_slices

_COLUMNS = ("dataset", "first_day", "not_stored", "not_listed", "result")
_LEFT_OUT = (
    "Not compared: days that had not ended when they were read, snapshots of former days (`seller-platform sync` reads "
    "that of today), and rows of reports."
)


class VerifyDocument(Outcome, frozen=True):
    """How the stored slices compare with the upstream.

    Attributes:
        results: How many slices compare so.
        listed: How many rows the upstream lists in all of them.
        differences: The slices that are not equal.
    """

    results: dict[ComparisonResult, int]
    listed: int
    differences: list[Comparison]


@click.command()
@selecting(
    *of_slices,
    click.option("--from", "first_month", type=Month(), help="First month to compare."),
    click.option("--to", "last_month", type=Month(), help="Last month to compare."),
)
@click.option("--repair", "repairs", is_flag=True, help="Store what the upstream lists where it differs.")
@json_option(VerifyDocument)
def verify(*, selection: SliceOptions, repairs: bool, output: Output) -> None:
    """Read every stored slice again, and compare it with the stored rows by value.

    Nothing that earlier loads kept is believed, so that it finds what another program changed in the tables. Without
    --repair nothing is stored. If anything differs, the exit code is 5.

    With --repair, what differs is loaded. A list that says what it said before is stored, whatever was changed in the
    table. Another one is judged as in every load: what contradicts the stored rows is held.

    Days that may still change are compared, too, if they had ended when they were read: run `seller-platform sync`
    before. Where SELLER_API_REQUESTS_PER_DAY limits the requests, it compares what they suffice for, newest days first.
    """
    with open_served_installation() as installation:
        comparisons = compare(installation, selection, output, repairs=repairs)
        titles = account_titles(installation.database)
        if repairs:
            report_loads(installation)
    report(output, comparisons, titles, selection)


def compare(installation: Installation, selection: SliceOptions, output: Output, *, repairs: bool) -> list[Comparison]:
    """Compare the selected slices, newest days first.

    Raises:
        NotConnectedError: No connection is authorised yet.
        RequestError: The selection names something that does not exist, or months in the wrong order.
    """
    database, datasets = installation.database, datasets_named(selection.datasets)
    connected = connections(database)
    if not connected:
        raise NotConnectedError
    chosen = accounts_named(database, selection.accounts)
    since = history_start_in(database, installation.settings, selection.first_month)
    for dataset in datasets:  # rows of months that were never loaded are compared with nothing
        recount(database, dataset)
    planner = Planner.of(installation.settings, database, chosen, since, datetime.now(UTC))
    today = {day.account: day.today for day in planner.days}
    months = months_of_history(selection.first_month, selection.last_month, since)
    due = {}
    for each, is_settled in comparable_slices(database, datasets, list(today), months, planner.now):
        month, behind = each.window if each.dataset.is_dated else None, today[each.account] - each.window.last_day
        slice_ = DueSlice(each.dataset, each.account, month, each.window, whole=True, days_behind=behind.days)
        due[slice_] = is_settled
    division = planner.divide(list(due))
    comparisons = [comparison_of(SliceResult(each.request, error=error)) for each, error in division.later.items()]
    requests = [each.request for each in division.in_order()]
    changing = {each.request for each, is_settled in due.items() if not is_settled}
    with open_stored_apis(installation) as api:
        comparer = SliceComparer(
            database, api, planner.now, adaptive=planner.adaptive, repairs=user_name() if repairs else None
        )
        if not selection.accounts and not selection.datasets:
            comparisons += comparer.compare_each([SliceRequest(ACCOUNTS, each.name, None) for each in connected])
        with output.progress(f"Comparing {count_of(len(chosen), 'account')}", len(requests)) as show:
            for done, comparison in enumerate(comparer.compare_each(requests, changing), start=1):
                comparisons.append(comparison)
                show(done)
    return comparisons


def report(
    output: Output, comparisons: Sequence[Comparison], titles: Mapping[str, str], selection: SliceOptions
) -> None:
    """Print what differs, by account; then the command ends with an error, if any."""
    results = Counter(each.result for each in comparisons)
    differences = [each for each in comparisons if each.result is not ComparisonResult.EQUAL]
    listed = sum(each.listed for each in comparisons)
    if differences:
        output.table("Slices that differ", differences, _COLUMNS, lambda each: with_title(each.account, titles))
    for each in differences:
        sentences = [*each.examples, *filter(None, [each.problem])]
        if each.may_have_changed and each.examples:
            sentences.append("the upstream may have changed it since it was read")
        for sentence in sentences:
            output.line(f"{each.name}: {sentence}")
    counts = ", ".join(f"{count} {result}" for result, count in results.items())
    output.say(
        f"{count_of(len(comparisons), 'slice')} with {count_of(listed, 'listed row')}: {counts or 'none'}. {_LEFT_OUT}"
    )
    document = VerifyDocument(results=dict(results), listed=listed, differences=differences)
    output.outcome(document, _problem(comparisons, selection))


def _problem(comparisons: Sequence[Comparison], selection: SliceOptions) -> SellerPlatformError | None:
    names = [each.name for each in comparisons if each.result in (ComparisonResult.DIFFERENT, ComparisonResult.HELD)]
    failed = [each for each in comparisons if each.result is ComparisonResult.FAILED]
    if not names:
        failures, codes = {each.name: each.problem or "" for each in failed}, [each.exit_code for each in failed]
        some = len(failed) < len(comparisons)
        return PartsFailedError(failures, "slice", "compared", any_done=some, exit_code=max(codes)) if failed else None
    step = "Compare what is held with the upstream; then publish it with `seller-platform accept LOAD`"
    if all(each.result is not ComparisonResult.HELD for each in comparisons):
        words = [word for name in selection.accounts for word in ("--account", name)]
        words += [word for name in selection.datasets for word in ("--dataset", name)]
        months = (("--from", selection.first_month), ("--to", selection.last_month))
        words += [word for name, month in months if month is not None for word in (name, f"{month:%Y-%m}")]
        step = f"Store what is listed with `{shlex.join(['seller-platform', 'verify', '--repair', *words])}`"
    message = f"{count_of(len(names), 'slice', 'has')} other rows than the upstream lists"
    return CheckFailedError(f"{message}: {first_few(names)}. {step}")
