"""Plans runs for what is due, for the schedules and for the last month that `dev` loads."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain
from typing import TypeVar

from seller_platform.contract import Dataset, Window
from seller_platform.ingest.loads.due_slices import DueSlice, due_slices
from seller_platform.orchestration.automation.runs import (
    LONGEST_RUN,
    PlannedRun,
    plan_months,
    plan_snapshots,
    snapshot_groups,
)
from seller_platform.orchestration.partitions import read_partition_key
from seller_platform.warehouse.loads.receipts import AccountDay
from seller_platform.warehouse.postgres.database import Database

Plan = TypeVar("Plan")


def plan_refresh(
    database: Database,
    datasets: Sequence[Dataset],
    days: Sequence[AccountDay],
    *,
    listed: Sequence[str],
    since: date,
    longest: int = LONGEST_RUN,
    scheduled: bool = False,
    adaptive: bool = True,
) -> list[PlannedRun]:
    """Return the runs that read what may have changed, as `due_slices` says, in the order of `plan_slices`.

    Args:
        days: The local day of each account.
        listed: Every account partition, in Dagster's order.
        since: The first day of interest of dated datasets.
        longest: How many partitions a run may have.
        scheduled: A schedule plans, not a person: what was read on the account's local day is not read again.
        adaptive: Days are read again for as long as such days changed so far; otherwise for the dataset's lookback.
    """
    slices = due_slices(database, datasets, days, since=since, scheduled=scheduled, adaptive=adaptive)
    return plan_slices(slices, listed=listed, longest=longest)


def plan_slices(slices: Sequence[DueSlice], *, listed: Sequence[str], longest: int = LONGEST_RUN) -> list[PlannedRun]:
    """Return the runs that read these slices, newest months first, then the snapshots.

    Args:
        listed: Every account partition, in Dagster's order.
        longest: How many partitions a run may have.
    """
    of_dataset: dict[str, list[DueSlice]] = defaultdict(list)
    for each in slices:
        of_dataset[each.dataset.name].append(each)
    datasets = [of_name[0].dataset for of_name in of_dataset.values()]
    planned: list[PlannedRun] = []
    for whole in (False, True):

        def months_due(dataset: Dataset, *, whole: bool = whole) -> Mapping[Window, frozenset[str]]:
            due = [each for each in of_dataset[dataset.name] if each.whole is whole]
            return accounts_by_month((each.month, each.account) for each in due if each.month is not None)

        dated = grouped_by_plan((dataset, months_due(dataset)) for dataset in datasets if dataset.is_dated)
        planned += chain.from_iterable(
            plan_months(group, months, listed=listed, whole=whole, longest=longest) for group, months in dated
        )
    planned.sort(key=newest_month, reverse=True)
    for snapshots in snapshot_groups(datasets):
        due_accounts = ((each, frozenset(one.account for one in of_dataset[each.name])) for each in snapshots)
        for group, keys in grouped_by_plan(due_accounts):
            whole = any(each.whole for each in of_dataset[group[0].name])
            planned += plan_snapshots(group, keys, listed=listed, whole=whole, longest=longest)
    return planned


def newest_month(planned: PlannedRun) -> date:
    """Return the first day of a run's newest month; for snapshots `date.max`."""
    _, month = read_partition_key(planned.last or "")
    return month.start if month else date.max


def accounts_by_month(pairs: Iterable[tuple[Window, str]]) -> Mapping[Window, frozenset[str]]:
    """Return the accounts of each month."""
    of_month: dict[Window, set[str]] = defaultdict(set)
    for month, account in pairs:
        of_month[month].add(account)
    return {month: frozenset(keys) for month, keys in of_month.items()}


def grouped_by_plan(plans: Iterable[tuple[Dataset, Plan]]) -> Iterator[tuple[list[Dataset], Plan]]:
    """Yield each plan with all its datasets, so that the same runs read them."""
    groups: list[tuple[list[Dataset], Plan]] = []
    for dataset, plan in plans:
        group = next((datasets for datasets, other in groups if other == plan), None)
        if group is None:
            groups.append(([dataset], plan))
        else:
            group.append(dataset)
    yield from groups
