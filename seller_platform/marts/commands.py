"""`seller-platform marts`: builds the tables of schema `marts`."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from seller_platform.cli.installation import Installation, open_stored_installation, report_loads
from seller_platform.cli.output import Outcome, Output, json_option
from seller_platform.cli.partitions import (
    PartitionOutcome,
    chosen_partitions,
    partition_name,
    partition_options,
    show_partitions,
)
from seller_platform.cli.sync import SliceOptions
from seller_platform.contract import Window
from seller_platform.errors import (
    CheckFailedError,
    PartsFailedError,
    RequestError,
    SellerPlatformError,
    WarehouseUnavailableError,
    did_you_mean,
)
from seller_platform.warehouse.derived.builds import Build, build_partition
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.due import Derived, PartitionState, partition_states
from seller_platform.warehouse.derived.registry import MARTS, marts_with

if TYPE_CHECKING:
    import dagster as dg


class BuildDocument(Outcome, frozen=True):
    """What was built.

    Attributes:
        failed_checks: The checks that failed, each with its message.
    """

    partitions: list[PartitionOutcome]
    failed_checks: list[str]


@click.group()
def marts() -> None:
    """Build the tables of schema marts, which are computed from the lists."""


def _names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the marts whose names begin so."""
    return [CompletionItem(each.name, help=each.doc) for each in MARTS if each.name.startswith(incomplete)]


@marts.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_names)
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
    report_to_dagster(installation, builds)
    return builds, failures


def report_to_dagster(installation: Installation, builds: Sequence[Build]) -> None:
    """Report loads and builds, as `report_loads` does."""

    def report(instance: "dg.DagsterInstance") -> None:
        from seller_platform.marts.assets import report_builds  # importing Dagster takes a second

        report_builds(instance, installation.database, builds)

    report_loads(installation, report)


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
                found = each.described(build.mart)["sentence"]
                failed_checks.append(f"{each.check.name} of {of}: {each.check.doc} {found}")
    error: SellerPlatformError | None = None
    if failures:
        error = PartsFailedError(failures, "partition", "built", any_done=len(failures) < len(states))
    elif failed_checks:
        error = CheckFailedError(
            f"checks failed: {'; '.join(failed_checks)}. What was built is stored; correct the rows that it is "
            "computed from, and build it again"
        )
    show_partitions(output, "Marts", outcomes)
    output.outcome(BuildDocument(partitions=outcomes, failed_checks=failed_checks), error)
    if not builds:
        output.say("Nothing was built. `--full` builds also what has not changed.")
