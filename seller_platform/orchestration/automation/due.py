"""Plans runs for what is due, for the schedules and for the last month that `dev` loads."""

from collections.abc import Iterable, Sequence
from datetime import date

from seller_platform.contract import Dataset
from seller_platform.ingest.loads.due_slices import DueSlice, due_slices
from seller_platform.orchestration.automation.runs import LONGEST_RUN, PlannedRun, plan_runs
from seller_platform.warehouse.loads.receipts import AccountDay
from seller_platform.warehouse.postgres.database import Database


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


def plan_slices(slices: Iterable[DueSlice], *, listed: Sequence[str], longest: int = LONGEST_RUN) -> list[PlannedRun]:
    """Return the runs that read these slices, in the order of `plan_runs`.

    Args:
        listed: Every account partition, in Dagster's order.
        longest: How many partitions a run may have.
    """
    partitions = ((each.dataset, each.account, each.month, each.whole) for each in slices)
    return plan_runs(partitions, listed=listed, longest=longest)
