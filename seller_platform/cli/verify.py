"""`seller-platform verify`: compares stored slices with the upstream by value, and repairs what differs."""

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

import click

from seller_platform.cli.installation import Installation, open_served_installation, report_loads
from seller_platform.cli.output import Document, Outcome, Output, json_option, with_title
from seller_platform.cli.sync import (
    SliceOptions,
    SyncScope,
    account_option,
    dataset_option,
    datasets_named,
    months_of,
    planner_for,
)
from seller_platform.cli.terminal.colours import Colour
from seller_platform.cli.terminal.months import Month
from seller_platform.contract import Window
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import CheckFailedError, NotConnectedError, NotOfferedError, first_few
from seller_platform.warehouse.connections.accounts import account_titles, accounts_named, connections
from seller_platform.warehouse.loads.history_start import history_start_in
from seller_platform.warehouse.monitoring.comparable_slices import comparable_slices

if TYPE_CHECKING:
    from seller_platform.ingest.loads.comparing import Comparison

_RESULTS = ("equal", "different", "repaired", "held", "failed")
_COLUMNS = ("dataset", "slices", *_RESULTS)
_NOT_COMPARED = {
    "report_rows": "a report is written once",
    "days that had not ended when they were read": "their rows are not expected to be equal",
}


class ComparedSlices(Document, frozen=True):
    """How the slices of a dataset and an account compare.

    Attributes:
        rows: The rows that the upstream lists.
        different: How many slices have other rows than the upstream lists.
        repaired: Of how many is stored now what the upstream lists.
        held: Of how many the list contradicts the stored rows, and waits for `seller-platform accept`.
        failed: How many could not be read, or need more requests than today has left.
    """

    dataset: str
    account: str
    slices: int
    rows: int
    equal: int
    different: int
    repaired: int
    held: int
    failed: int


class DifferentSlice(Document, frozen=True):
    """A slice that had other rows than the upstream lists.

    Attributes:
        first_day: Null for a list without days.
        not_stored: How many rows are listed, and were not stored.
        not_listed: How many rows were stored, and are not listed.
        may_have_changed: The list was expected to change after it was read.
        examples: The first of the rows, a sentence each.
    """

    dataset: str
    account: str
    first_day: date | None
    last_day: date | None
    not_stored: int
    not_listed: int
    may_have_changed: bool
    result: str
    examples: list[str]


class VerifyDocument(Outcome, frozen=True):
    """How the stored slices compare with the upstream.

    Attributes:
        failures: Why slices could not be compared or repaired.
        not_compared: What is left out, with the reason.
    """

    verified: list[ComparedSlices]
    differences: list[DifferentSlice]
    failures: dict[str, str]
    not_compared: dict[str, str]


@click.command()
@account_option
@dataset_option
@click.option("--from", "first_month", type=Month(), help="First month to compare.")
@click.option("--to", "last_month", type=Month(), help="Last month to compare.")
@click.option("--repair", "repairs", is_flag=True, help="Store what the upstream lists where it differs.")
@json_option(VerifyDocument)
def verify(
    *,
    chosen_accounts: tuple[str, ...],
    chosen_datasets: tuple[str, ...],
    first_month: date | None,
    last_month: date | None,
    repairs: bool,
    output: Output,
) -> None:
    """Read every stored slice again, and compare it with the stored rows by value.

    Nothing that earlier loads kept is believed, so that it finds what another program changed in the tables. Without
    --repair nothing is stored. If anything differs, the exit code is 5.

    With --repair, what differs is loaded. A list that says what it said before is stored, whatever was changed in the
    table. Another one is judged as in every load: what contradicts the stored rows is held.

    Days that may still change are compared, too, if they had ended when they were read: run `seller-platform sync`
    before. Where SELLER_API_REQUESTS_PER_DAY limits the requests, it compares what they suffice for, newest days first.
    """
    selection = SliceOptions(chosen_accounts or None, chosen_datasets or None, first_month, last_month)
    with open_served_installation() as installation:
        comparisons, changing, left_out = run_verification(installation, selection, output, repairs=repairs)
        titles = account_titles(installation.database)
        if repairs:
            report_loads(installation)
    report(output, comparisons, titles, changing=changing, left_out=left_out)


def run_verification(
    installation: Installation, selection: SliceOptions, output: Output, *, repairs: bool
) -> "tuple[list[Comparison], frozenset[str], Mapping[str, str]]":
    """Compare the selected slices.

    Returns:
        The comparisons, the names of slices that may have changed since they were read, and what was left out.

    Raises:
        NotConnectedError: No connection is authorised yet.
        RequestError: The selection names something that does not exist, or months in the wrong order.
    """
    # Imported here because `--help` needs no HTTP.
    from seller_platform.cli.connect import open_stored_apis
    from seller_platform.ingest.loads.comparing import Comparison, SliceComparer, compare_accounts, compare_each
    from seller_platform.ingest.loads.planner import DueSlice

    database, datasets = installation.database, datasets_named(selection.datasets)
    connected = connections(database)
    if not connected:
        raise NotConnectedError
    chosen = accounts_named(database, selection.accounts or ())
    since = history_start_in(database, installation.settings, selection.first_month)
    planner = planner_for(installation, chosen, SyncScope(datasets, since, None, lookups_too=True))
    today = {day.account: day.today for day in planner.days}
    stored, former = comparable_slices(database, datasets, list(today), months_of(selection, since), planner.now)
    due = {}
    for each in stored:
        window = each.month or Window.day(today[each.account])
        behind = (today[each.account] - window.last_day).days
        due[DueSlice(each.dataset, each.account, each.month, window, whole=True, days_behind=behind)] = each.is_settled
    division = planner.divide(list(due))
    left_out = {
        f"{name} of {count_of(len(keys), 'account')}": "the newest snapshot is of another day, and the upstream has no "
        "former ones; run `seller-platform sync` first"
        for name, keys in former.items()
    }
    comparisons = [Comparison(each.request, error=error) for each, error in division.later.items()]
    requests = [each.request for each in division.in_order()]
    with open_stored_apis(installation) as api:
        if selection.accounts is None and selection.datasets is None:
            comparisons += [compare_accounts(api, database, each, repairs=repairs) for each in connected]
        comparer = SliceComparer(database, api, planner.now, adaptive=planner.adaptive, repairs=repairs)
        with output.progress(f"Comparing {count_of(len(chosen), 'account')}", len(requests)) as show:
            for done, comparison in enumerate(compare_each(requests, comparer), start=1):
                show(done)
                if isinstance(comparison.error, NotOfferedError):
                    left_out[_named(comparison)] = "the upstream does not offer it any more"
                else:
                    comparisons.append(comparison)
    changing = frozenset(_named(Comparison(each.request)) for each, is_settled in due.items() if not is_settled)
    return comparisons, changing, left_out


def report(
    output: Output,
    comparisons: "Sequence[Comparison]",
    titles: Mapping[str, str],
    *,
    changing: frozenset[str],
    left_out: Mapping[str, str],
) -> None:
    """Print the comparisons by account and dataset, and what differs; then the command ends with an error.

    Args:
        changing: The names of slices that may have changed since they were read.
        left_out: What was not compared, with the reason.
    """
    rows = _by_dataset(comparisons)
    differences = {
        _named(each): DifferentSlice(
            dataset=each.request.dataset.name,
            account=each.request.account,
            first_day=each.request.month.start if each.request.month else None,
            last_day=each.request.month.last_day if each.request.month else None,
            not_stored=each.rows.not_stored,
            not_listed=each.rows.not_listed,
            may_have_changed=_named(each) in changing,
            result=each.result.value,
            examples=list(each.rows.examples),
        )
        for each in comparisons
        if each.rows is not None and not each.rows.are_equal
    }
    failures = {_named(each): str(each.error) for each in comparisons if each.error is not None}
    not_compared = {**_NOT_COMPARED, **left_out}
    if rows:
        output.table("Stored rows and upstream", rows, _COLUMNS, lambda each: with_title(each.account, titles))
    for name, difference in differences.items():
        since_then = "; the upstream may have changed it since it was read" if difference.may_have_changed else ""
        output.line(
            f"{difference.result}: {name}: {count_of(difference.not_stored, 'row', 'is')} listed and not stored, "
            f"{difference.not_listed:,} stored and not listed{since_then}",
            None if difference.result == "repaired" else Colour.BAD,
        )
        for example in difference.examples:
            output.line(f"  {example}")
    for name, reason in failures.items():
        output.line(f"failed: {name}: {reason}", Colour.BAD)
    for what, reason in not_compared.items():
        output.line(f"not compared: {what}: {reason}")
    error = next((each.error for each in comparisons if each.result.value == "failed"), None)
    different = [each for each in comparisons if each.result.value in ("different", "held")]
    if different:
        names = [_named(each) for each in different]
        message = f"{count_of(len(names), 'slice', 'has')} other rows than the upstream lists: "
        step = f"Store what is listed with `seller-platform verify --repair{_options(different)}`"
        if any(each.result.value == "held" for each in different):
            step = "Compare what is held with the upstream; then publish it with `seller-platform accept LOAD`"
        error = CheckFailedError(f"{message}{first_few(names)}. {step}")
    output.outcome(
        VerifyDocument(
            verified=rows, differences=list(differences.values()), failures=failures, not_compared=not_compared
        ),
        error,
    )
    output.say(f"What is stored is what the upstream lists, in {count_of(len(comparisons), 'slice')}.")


def _by_dataset(comparisons: "Sequence[Comparison]") -> list[ComparedSlices]:
    groups: dict[tuple[str, str], list[Comparison]] = defaultdict(list)
    for each in comparisons:
        groups[each.request.account, each.request.dataset.name].append(each)
    return [
        ComparedSlices(
            dataset=dataset,
            account=account,
            slices=len(group),
            rows=sum(each.rows.listed for each in group if each.rows is not None),
            **{result: sum(each.result.value == result for each in group) for result in _RESULTS},
        )
        for (account, dataset), group in sorted(groups.items())
    ]


def _named(comparison: "Comparison") -> str:
    """Return the name of a slice, with its days."""
    request = comparison.request
    return f"{request.dataset.name} of {request.account}" + (f", {request.month}" if request.month else "")


def _options(comparisons: "Sequence[Comparison]") -> str:
    """Return the options that select the accounts, datasets and months of comparisons."""
    requests = [each.request for each in comparisons]
    names = dict.fromkeys(each.dataset.name for each in requests)
    if ACCOUNTS.name in names:
        return ""  # no option selects the list of accounts
    words = [word for key in dict.fromkeys(each.account for each in requests) for word in ("--account", key)]
    words += [word for name in names for word in ("--dataset", name)]
    months = [each.month for each in requests if each.month is not None]
    if months:
        first, last = min(each.start for each in months), max(each.last_day for each in months)
        words += ["--from", f"{first:%Y-%m}", "--to", f"{last:%Y-%m}"]
    return "".join(f" {shlex.quote(word)}" for word in words)
