"""Plans the runs of a load that a person asks for: whole months, or what may have changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from seller_platform.errors import BudgetTooSmallError, RequestsUsedUpError
from seller_platform.ingest.loads.due_slices import postpone
from seller_platform.ingest.loads.requested_slices import LoadRequest, divide_load, requested_slices
from seller_platform.orchestration.automation.due import plan_slices
from seller_platform.orchestration.automation.runs import PlannedRun
from seller_platform.warehouse.postgres.database import Database


@dataclass(frozen=True)
class LoadPlan:
    """The runs of a load.

    Attributes:
        runs: The newest months first.
        later: Why slices are in none of them, by name of the slice: today's requests do not suffice for them.
    """

    runs: Sequence[PlannedRun]
    later: dict[str, RequestsUsedUpError | BudgetTooSmallError]

    @property
    def slices(self) -> int:
        """The most slices that the runs can load."""
        return sum(run.slices for run in self.runs)


def plan_load(
    database: Database,
    request: LoadRequest,
    *,
    now: datetime,
    listed: Sequence[str],
    adaptive: bool,
    requests_per_day: int | None = None,
) -> LoadPlan:
    """Return the runs that load the requested slices, as far as the requests of today suffice.

    Months that are left for later are stored, so that the schedules and the next `sync` read them.

    Args:
        listed: Every account partition, in Dagster's order.
        adaptive: Days are read again for as long as such days changed so far; otherwise for the dataset's lookback.
        requests_per_day: How many requests each connection may send on one day; None for any number.
    """
    if requests_per_day is None:
        slices = requested_slices(database, request, now=now, adaptive=adaptive)
        return LoadPlan(plan_slices(slices, listed=listed), {})
    division = divide_load(database, request, now=now, adaptive=adaptive, requests_per_day=requests_per_day)
    postpone(database, division)
    later = {str(each): error for each, error in division.later.items()}
    return LoadPlan(plan_slices(division.fitting, listed=listed), later)
