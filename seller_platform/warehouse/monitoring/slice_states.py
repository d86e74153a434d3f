"""The state of every slice that should be stored: by dataset and account, and of dated datasets by month."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from sqlalchemy import text

from seller_platform.contract import REFRESHED, Dataset, Slicing, Window, dataset_named
from seller_platform.errors import ReadingHeldError
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.refusals import refusals
from seller_platform.warehouse.monitoring.freshness import READ_WITHIN
from seller_platform.warehouse.postgres.database import Database


class SliceState(StrEnum):
    """Whether a slice is stored, from good to bad."""

    LOADED = "loaded"
    LATE = "late"
    INCOMPLETE = "incomplete"
    MISSING = "missing"
    MISMATCHED = "mismatched"
    HELD = "held"
    FAILED = "failed"


@dataclass(frozen=True)
class SliceStates:
    """The states of all slices that should be stored.

    Attributes:
        accounts: The accounts that are listed today.
        datasets: The datasets that are refreshed, dated ones first. Those that no upstream offers are left out.
        months: The months of history, oldest first.
        of_pair: The states of a dataset's name and an account's key: one for each month, or one for a snapshot.
        read_at: When any slice of such a pair was last read.
    """

    accounts: Sequence[KnownAccount]
    datasets: Sequence[Dataset]
    months: Sequence[Window]
    of_pair: Mapping[tuple[str, str], Sequence[SliceState]]
    read_at: Mapping[tuple[str, str], datetime]

    def problems_of(self, account: str) -> int:
        """Return how many slices of an account are not loaded as they should be."""
        pairs = ((dataset.name, account) for dataset in self.datasets)
        return sum(state is not SliceState.LOADED for pair in pairs for state in self.of_pair[pair])


_STORED = text("""
    SELECT dataset, account, month, read_at,
           (SELECT coalesce(sum(upper(part) - lower(part)), 0)
            FROM unnest(datemultirange(daterange(greatest(month, CAST(:since AS date)), greatest(
                month, CAST(:since AS date), least(CAST(month + interval '1 month' AS date), CAST(:until AS date))
            ))) - days) AS part) AS missing_days
    FROM (
        SELECT dataset, account, CAST(date_trunc('month', window_start) AS date) AS month,
               range_agg(daterange(window_start, window_end)) AS days, max(finished_at) AS read_at
        FROM platform.loads
        WHERE verdict <> 'held' AND dataset = ANY(CAST(:datasets AS text[]))
        GROUP BY 1, 2, 3
    ) AS stored
    ORDER BY dataset, account, month
""")

# Readings whose rows do not add up to the announced total, and of which no later one covers the days.
MISMATCHED = text("""
    SELECT DISTINCT dataset, account, to_char(window_start, 'YYYY-MM')
    FROM platform.loads AS load
    WHERE verdict = 'mismatch' AND NOT EXISTS (
        SELECT FROM platform.loads AS later
        WHERE later.dataset = load.dataset AND later.account = load.account AND later.id > load.id
          AND later.verdict NOT IN ('held', 'mismatch')
          AND later.window_start <= load.window_start AND later.window_end >= load.window_end
    )
""")
"""Selects the dataset, account and month of each."""


def slice_states(
    database: Database,
    *,
    since: date,
    now: datetime,
    refreshed: Sequence[Dataset] = REFRESHED,
    listed: Sequence[KnownAccount] | None = None,
) -> SliceStates:
    """Return the state of every slice that should be stored.

    Days count as missing when a daily refresh should have brought them.

    Args:
        since: The first day of history.
        refreshed: The datasets that are read.
        listed: The accounts that are read; by default all that are listed today.
    """
    listed = accounts(database) if listed is None else listed
    until = (now.astimezone(UTC) - READ_WITHIN).date()
    newest_day = max(now.astimezone(UTC).date(), since)
    months = [Window.month_of(each.start) for each in Window(since, newest_day + timedelta(days=1)).months()]
    position = {month.start: number for number, month in enumerate(months)}
    by_name = {dataset.name: dataset for dataset in refreshed}
    stored: dict[tuple[str, str], list[SliceState]] = {}
    read_at: dict[tuple[str, str], datetime] = {}
    with database.begin() as connection:
        bound = {"since": since, "until": until, "datasets": list(by_name)}
        mismatched = connection.execute(MISMATCHED).tuples().all()
        for row in connection.execute(_STORED, bound):
            pair = (row.dataset, row.account)
            read_at[pair] = max(row.read_at, read_at.get(pair, row.read_at))
            dataset = by_name[row.dataset]
            state = _state(dataset, row.missing_days, age=now - row.read_at)
            if dataset.slicing is not Slicing.MONTH:
                stored[pair] = [state]  # the newest comes last
            elif row.month in position:
                stored.setdefault(pair, [SliceState.MISSING] * len(months))[position[row.month]] = state
    offered = {name for name, _ in stored}
    datasets = [each for each in refreshed if not each.is_computed or each.name in offered]
    datasets.sort(key=lambda dataset: not dataset.is_dated)
    for dataset in datasets:
        for account in listed:
            slices = len(months) if dataset.is_dated else 1
            stored.setdefault((dataset.name, account.key), [SliceState.MISSING] * slices)
    marks = [((dataset, account), month, SliceState.MISMATCHED) for dataset, account, month in mismatched]
    _mark(stored, [*marks, *_refused(database)], months)
    return SliceStates(listed, datasets, months, stored, read_at)


def _state(dataset: Dataset, missing_days: int, *, age: timedelta) -> SliceState:
    if dataset.is_dated:
        return SliceState.INCOMPLETE if missing_days else SliceState.LOADED
    return SliceState.LATE if age > READ_WITHIN else SliceState.LOADED


_Mark = tuple[tuple[str, str], str, SliceState]


def _refused(database: Database) -> list[_Mark]:
    """Return the slices that failed when they were last tried, and those of which a reading is held."""
    failed = [
        (pair, refusal.month, SliceState.HELD if refusal.error == ReadingHeldError.__name__ else SliceState.FAILED)
        for pair, of_pair in refusals(database).items()
        for refusal in of_pair
    ]
    holds = open_holds(database)
    return failed + [((each.dataset, each.account), f"{each.window.start:%Y-%m}", SliceState.HELD) for each in holds]


def _mark(stored: Mapping[tuple[str, str], list[SliceState]], marks: Sequence[_Mark], months: Sequence[Window]) -> None:
    """Replace the states of slices, which are named by their month. Of a snapshot the month does not matter."""
    number_of = {f"{month.start:%Y-%m}": number for number, month in enumerate(months)}
    for pair, month, state in marks:
        states = stored.get(pair, [])
        number = number_of.get(month) if dataset_named(pair[0]).is_dated else 0
        if states and number is not None:
            states[number] = state
