"""`seller-platform marts`: builds the tables of schema `marts`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import groupby
from operator import attrgetter
from typing import Literal

import click
import msgspec

from seller_platform.cli.completion import mart_names
from seller_platform.cli.installation import Installation, open_stored_installation, report_loads
from seller_platform.cli.output import Document, MonthText, Outcome, Output, json_option
from seller_platform.cli.sync import SliceOptions, account_option, selecting
from seller_platform.cli.terminal.groups import CommandGroup
from seller_platform.cli.terminal.months import Month
from seller_platform.contract import Window
from seller_platform.errors import (
    CheckFailedError,
    NotConnectedError,
    PartsFailedError,
    RequestError,
    SellerPlatformError,
    WarehouseUnavailableError,
    did_you_mean,
)
from seller_platform.warehouse.connections.accounts import accounts_named, connections
from seller_platform.warehouse.derived.builds import Build, build_partition
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.due import Derived, PartitionState, partition_states
from seller_platform.warehouse.derived.registry import marts_with
from seller_platform.warehouse.loads.history_start import history_start_in, months_of_history


class PartitionOutcome(Document, frozen=True):
    """What became of a partition of a table.

    Attributes:
        account: Null where the table is of all accounts.
        month: Null where a partition is all of an account.
        rows: Null where it was not written.
        reason: Why it was not written; null where it was.
    """

    table: str
    account: str | None
    month: MonthText | None
    result: Literal["built", "exported", "failed", "skipped"]
    rows: int | None
    reason: str | None


class BuildDocument(Outcome, frozen=True):
    """What was built.

    Attributes:
        failed_checks: The checks that failed, each with its message.
    """

    partitions: list[PartitionOutcome]
    failed_checks: list[str]


class _AlikePartitions(msgspec.Struct, frozen=True):
    """The partitions of an account that have the same result, as a record of a table."""

    table: str
    account: str
    months: str
    rows: int | None
    result: str


@click.group(cls=CommandGroup)
def marts() -> None:
    """Build the tables of schema marts, which are computed from the lists."""


partition_options = selecting(
    account_option,
    click.option("--month", type=Month(), help="Only this month."),
    click.option("--from", "first_month", type=Month(), help="First month; by default the first of history."),
    click.option("--to", "last_month", type=Month(), help="Last month; by default the current one."),
)


@marts.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=mart_names)
@partition_options
@click.option("--full", is_flag=True, help="Build also what has not changed since it was built.")
@json_option(BuildDocument)
def build(*, names: tuple[str, ...], selection: SliceOptions, output: Output) -> None:
    """Build marts whose inputs were loaded, and have changed since the last build.

    NAME is the name of a mart, such as account_profit_daily; without one, all marts are built. The Dagster UI shows the
    materialization and the checks of each partition. Marts of a whole account have no months.
    """
    with open_stored_installation() as installation:
        settings = installation.settings
        chosen = marts_named(names, marts_with(settings))
        keys, months = chosen_partitions(installation, selection)
        states = states_of(installation, chosen, keys, months)
        due = [state for state in states if not state.missing and (selection.full or not state.is_current)]
        builds, failures = build_due(installation, chosen, due, output) if due else ([], {})
    _report(chosen, states, builds, failures, output)


def states_of(
    installation: Installation, chosen: Sequence[Mart], keys: Sequence[str], months: Sequence[Window]
) -> list[PartitionState]:
    """Return the partitions of marts, and whether each is current."""
    with installation.database.begin() as connection:
        return [state for mart in chosen for state in partition_states(connection, Derived.of(mart), keys, months)]


def chosen_partitions(installation: Installation, selection: SliceOptions) -> tuple[list[str], list[Window]]:
    """Return the keys of the accounts that the options choose, and the months of history.

    Raises:
        NotConnectedError: No connection is authorised yet.
        RequestError: There are no such accounts or months, or some are earlier than history may begin.
    """
    database = installation.database
    if not connections(database):
        raise NotConnectedError
    keys = [each.key for each in accounts_named(database, selection.accounts)]
    since = history_start_in(database, installation.settings)
    months = months_of_history(selection.first_month, selection.last_month, since)
    return keys, [each for each in months if each.end > since]


def marts_named(names: Sequence[str], declared: Sequence[Mart]) -> Sequence[Mart]:
    """Return the marts of these names, also written as their tables; without names, all.

    Raises:
        RequestError: There is none of a name.
    """
    by_name = {mart.name: mart for mart in declared}
    bare = [name.removeprefix("marts.").removeprefix("marts/") for name in names]
    for name in bare:
        if name not in by_name:
            question = did_you_mean(name, by_name)
            raise RequestError(
                f"there is no mart {name!r}{question}; choose one of {', '.join(by_name)}", code="UnknownMartError"
            )
    return [by_name[name] for name in dict.fromkeys(bare)] if names else declared


def build_due(
    installation: Installation, chosen: Sequence[Mart], due: Sequence[PartitionState], output: Output
) -> tuple[list[Build], dict[str, SellerPlatformError]]:
    """Build partitions and report them. Return the builds, and the error of each that failed, by its name."""
    database, marts_of = installation.database, {mart.name: mart for mart in chosen}
    builds, failures = list[Build](), dict[str, SellerPlatformError]()
    with output.progress("Building marts", len(due)) as show:
        for name, states in groupby(due, key=attrgetter("name")):
            mart = marts_of[name]
            for state in states:
                try:
                    builds.append(build_partition(database, mart, state.account, state.window))
                except WarehouseUnavailableError:
                    raise
                except SellerPlatformError as error:
                    failures[partition_name(mart.table, state.account, state.window)] = error
                show(len(builds) + len(failures))
    report_loads(installation, builds)
    return builds, failures


def partition_name(table: str, account: str | None, month: Window | None) -> str:
    """Return a partition as sentences name it."""
    return " of ".join(filter(None, (table, account))) + (f", {month.start:%Y-%m}" if month else "")


def _report(
    chosen: Sequence[Mart],
    states: Sequence[PartitionState],
    builds: Sequence[Build],
    failures: Mapping[str, SellerPlatformError],
    output: Output,
) -> None:
    """Print what was built, what was not and why; and end with the failures, if any."""
    tables = {mart.name: mart.table for mart in chosen}
    built = {partition_name(each.mart.table, each.account, each.window): each.rows for each in builds}
    outcomes = []
    for state in states:
        name = partition_name(tables[state.name], state.account, state.window)
        outcome = PartitionOutcome(
            table=tables[state.name],
            account=state.account,
            month=f"{state.month:%Y-%m}" if state.month else None,
            result="built" if name in built else "failed" if name in failures else "skipped",
            rows=built.get(name),
            reason=str(failures[name]) if name in failures else None if name in built else state.reason,
        )
        outcomes.append(outcome)
    failed_checks = []
    for build in builds:
        of = f"{build.account}, {build.window.start:%Y-%m}" if build.window else build.account
        for each in build.check_results:
            if not each.passed and not each.check.is_warning:
                found = each.described(build.mart, build.rows)["sentence"]
                failed_checks.append(f"{each.check.name} of {of}: {each.check.doc} {found}")
    error: SellerPlatformError | None = None
    if failures:
        error = PartsFailedError(failures, "partition", "built")
    elif failed_checks:
        error = CheckFailedError(
            f"checks failed: {'; '.join(failed_checks)}. What was built is stored; correct the rows that it is "
            "computed from, and build it again"
        )
    show_partitions(output, "Marts", outcomes)
    output.outcome(BuildDocument(partitions=outcomes, failed_checks=failed_checks), error)
    if not builds:
        output.say("Nothing was built. `--full` builds also what has not changed.")


def show_partitions(output: Output, title: str, partitions: Iterable[PartitionOutcome]) -> None:
    """Print what became of partitions; those of an account with the same result stand in one row."""
    groups: dict[tuple[str, str, str], list[PartitionOutcome]] = defaultdict(list)
    for each in partitions:
        result = each.reason if each.result == "skipped" and each.reason else each.result
        groups[each.table, each.account or "", result].append(each)
    records = [
        _AlikePartitions(
            table=table,
            account=account,
            months=months_of(each.month for each in alike),
            rows=None if alike[0].rows is None else sum(each.rows or 0 for each in alike),
            result=result,
        )
        for (table, account, result), alike in groups.items()
    ]
    output.table(title, records, ("account", "months", "rows", "result"), lambda each: each.table)


def months_of(months: Iterable[str | None]) -> str:
    """Return months as `2026-01 .. 2026-03, 2026-05`."""
    spans: list[list[date]] = []
    for month in sorted(date.fromisoformat(f"{month}-01") for month in months if month is not None):
        if spans and Window.month_of(spans[-1][-1]).end == month:
            spans[-1].append(month)
        else:
            spans.append([month])
    return ", ".join(" .. ".join(f"{month:%Y-%m}" for month in sorted({span[0], span[-1]})) for span in spans)
