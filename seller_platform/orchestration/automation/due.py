"""Plans runs for what is due, for the schedules and a `sync` without months."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain
from typing import TypeVar

from seller_platform.contract import Dataset, Window
from seller_platform.orchestration.automation.runs import (
    LONGEST_RUN,
    PlannedRun,
    plan_months,
    plan_snapshots,
    snapshot_groups,
)
from seller_platform.orchestration.partitions import read_partition_key
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.receipts import AccountDay, days_due, pairs_read
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
    """Return the runs that read what may have changed, newest months first, then the snapshots.

    Not every upstream offers the rows that upstreams compute. Where none were ever read, a schedule requests only the
    newest month.

    Args:
        days: The local day of each account.
        listed: Every account partition, in Dagster's order.
        since: The first day of interest of dated datasets.
        longest: How many partitions a run may have.
        scheduled: A schedule plans, not a person: what was read on the account's local day is not read again.
        adaptive: Days are read again for as long as such days changed so far; otherwise for the dataset's lookback.
    """
    changing = lookbacks(database, datasets, [day.account for day in days], adaptive=adaptive)
    due = days_due(database, datasets, days, since=since, again=not scheduled, lookbacks=changing)
    computed = [dataset for dataset in datasets if dataset.is_computed]
    offered = pairs_read(database, computed) if scheduled else None

    def months_due(dataset: Dataset) -> Mapping[Window, frozenset[str]]:
        pairs: list[tuple[Window, str]] = []
        for (name, account), windows in due.items():
            if name == dataset.name:
                months = [Window.month_of(part.start) for window in windows for part in window.months()]
                newest_only = offered is not None and dataset.is_computed and (name, account) not in offered
                pairs += [(month, account) for month in (months[-1:] if newest_only else months)]
        return accounts_by_month(pairs)

    dated = grouped_by_plan((dataset, months_due(dataset)) for dataset in datasets if dataset.is_dated)
    runs = chain.from_iterable(
        plan_months(group, months, listed=listed, whole=False, longest=longest) for group, months in dated
    )
    planned = sorted(runs, key=newest_month, reverse=True)
    for snapshots in snapshot_groups(datasets):
        due_accounts = ((each, frozenset(key for name, key in due if name == each.name)) for each in snapshots)
        for group, keys in grouped_by_plan(due_accounts):
            planned += plan_snapshots(group, keys, listed=listed, whole=False, longest=longest)
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
