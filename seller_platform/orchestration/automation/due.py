"""What of the datasets is due, as runs: for the schedules, and for a `sync` that names no months."""

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
from seller_platform.warehouse.loads.receipts import AccountDay, days_due, pairs_read
from seller_platform.warehouse.postgres.database import Database

Wanted = TypeVar("Wanted")


def plan_refresh(
    database: Database,
    datasets: Sequence[Dataset],
    days: Sequence[AccountDay],
    *,
    listed: Sequence[str],
    since: date,
    longest: int = LONGEST_RUN,
    unasked: bool = False,
) -> list[PlannedRun]:
    """Return the runs that read what may have changed, newest months first, then the snapshots.

    Rows that upstreams compute are not offered by all: where none were ever read, only the newest month is asked for,
    unless a person asked.

    Args:
        days: The local day of each account.
        listed: Every account partition, in Dagster's order.
        since: The first day of interest of dated datasets.
        longest: How many partitions a run may have.
        unasked: Nobody asked: what was read on the account's local day is not read again.
    """
    due = days_due(database, datasets, days, since=since, again=not unasked)
    known = pairs_read(database, [dataset for dataset in datasets if dataset.is_computed]) if unasked else None
    dated = alike((each, _months_due(each, due, known)) for each in datasets if each.is_dated)
    runs = chain.from_iterable(
        plan_months(same, months, listed=listed, whole=False, longest=longest) for same, months in dated
    )
    planned = sorted(runs, key=newest_month, reverse=True)
    for group in snapshot_groups(datasets):
        wanted = alike((each, frozenset(key for name, key in due if name == each.name)) for each in group)
        for same, keys in wanted:
            planned += plan_snapshots(same, keys, listed=listed, whole=False, longest=longest)
    return planned


def newest_month(planned: PlannedRun) -> date:
    """Return the first day of a run's newest month; of snapshots, a day after all others."""
    _, month = read_partition_key(planned.last or "")
    return month.start if month else date.max


def accounts_by_month(pairs: Iterable[tuple[Window, str]]) -> Mapping[Window, frozenset[str]]:
    """Return the accounts of each month."""
    of_month: dict[Window, set[str]] = defaultdict(set)
    for month, account in pairs:
        of_month[month].add(account)
    return {month: frozenset(keys) for month, keys in of_month.items()}


def alike(each: Iterable[tuple[Dataset, Wanted]]) -> Iterator[tuple[list[Dataset], Wanted]]:
    """Yield the datasets of which the same is wanted, to be read by the same runs."""
    groups: list[tuple[list[Dataset], Wanted]] = []
    for dataset, wanted in each:
        group = next((datasets for datasets, same in groups if same == wanted), None)
        if group is None:
            groups.append(([dataset], wanted))
        else:
            group.append(dataset)
    yield from groups


def _months_due(
    dataset: Dataset, due: Mapping[tuple[str, str], Sequence[Window]], known: frozenset[tuple[str, str]] | None
) -> Mapping[Window, frozenset[str]]:
    """Return the months that hold due days, with their accounts.

    Args:
        known: The datasets and accounts of which anything was read, if it matters.
    """
    of_account = {key: windows for (name, key), windows in due.items() if name == dataset.name}
    return accounts_by_month(
        (Window.month_of(part.start), key)
        for key, windows in of_account.items()
        for part in _parts(
            windows, newest_only=known is not None and dataset.is_computed and (dataset.name, key) not in known
        )
    )


def _parts(windows: Sequence[Window], *, newest_only: bool) -> list[Window]:
    parts = [part for window in windows for part in window.months()]
    return parts[-1:] if newest_only else parts
