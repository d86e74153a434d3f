"""Finds which partitions of marts can be built, and which changed since they were built."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import RowMapping, func, select, text

from seller_platform.contract import Slicing, Window
from seller_platform.warehouse.marts.declaration import Mart
from seller_platform.warehouse.marts.tables import BUILDS
from seller_platform.warehouse.postgres.database import Database

# A dated input counts by the days that are read, with months before and after. Of others every slice counts.
# An input changed since the build if the snapshot of the build does not see the transaction of its newest change: the
# loads of a slice are committed one after the other, because each locks the row of the slice until its end.
_STATES = """
WITH part (account, first_day, end_day) AS (
    SELECT * FROM unnest(CAST(:accounts AS text[]), CAST(:firsts AS date[]), CAST(:ends AS date[]))
),
input (dataset, is_required, is_dated, months_before, months_after) AS (
    SELECT * FROM unnest(CAST(:datasets AS text[]), CAST(:required AS boolean[]), CAST(:dated AS boolean[]),
                         CAST(:before AS int[]), CAST(:after AS int[]))
),
read AS (
    SELECT part.account, part.first_day, input.dataset, change.transaction_id
    FROM part CROSS JOIN input
    JOIN platform.slices AS slice
      ON slice.dataset = input.dataset AND slice.account = part.account AND slice.load_id IS NOT NULL
     AND (NOT input.is_dated OR part.first_day IS NULL
          OR slice.month < part.end_day + make_interval(months => input.months_after)
         AND slice.month >= part.first_day - make_interval(months => input.months_before))
    LEFT JOIN platform.loads AS change ON change.id = slice.changed_load_id
)
SELECT part.account, part.first_day, part.end_day, newest.id AS build_id, newest.version,
       ARRAY(SELECT dataset FROM input
             WHERE is_required AND NOT EXISTS (
                 SELECT FROM read WHERE read.dataset = input.dataset AND read.account = part.account
                                    AND read.first_day IS NOT DISTINCT FROM part.first_day)) AS missing,
       EXISTS (SELECT FROM read WHERE read.account = part.account AND read.transaction_id IS NOT NULL
                                  AND read.first_day IS NOT DISTINCT FROM part.first_day
                                  AND NOT coalesce(pg_visible_in_snapshot(read.transaction_id, newest.snapshot),
                                                   false)) AS is_changed
FROM part
LEFT JOIN LATERAL (
    SELECT id, snapshot, version FROM platform.mart_builds
    WHERE mart = :mart AND account = part.account AND window_start IS NOT DISTINCT FROM part.first_day
    ORDER BY id DESC LIMIT 1
) AS newest ON true
ORDER BY part.account, part.first_day
"""


@dataclass(frozen=True)
class PartitionState:
    """A partition of a mart, and why it needs no build.

    Attributes:
        window: The month; None where the partition is a whole account.
        missing: The required inputs that were never loaded; with any, nothing can be built.
        is_current: Whether neither an input nor the mart itself changed since it was built.
        build_id: Its newest build.
    """

    mart: Mart
    account: str
    window: Window | None
    missing: tuple[str, ...]
    is_current: bool
    build_id: int | None

    @property
    def reason(self) -> str | None:
        """Why the partition is not built; None where it should be."""
        if self.missing:
            return f"{' and '.join(self.missing)}: never loaded"
        return "nothing changed" if self.is_current else None


def partition_states(
    database: Database, mart: Mart, accounts: Sequence[str], months: Sequence[Window]
) -> Sequence[PartitionState]:
    """Return the partitions of these accounts, by account and month.

    Args:
        months: The months of a monthly mart.
    """
    windows: Sequence[Window | None] = months if mart.is_monthly else (None,)
    parts = [(account, window) for account in accounts for window in windows]
    inputs = [each for each in mart.inputs if each.dataset.slicing is not Slicing.CONNECTION]
    bindings: Mapping[str, Any] = {
        "mart": mart.name,
        "accounts": [account for account, _ in parts],
        "firsts": [window and window.start for _, window in parts],
        "ends": [window and window.end for _, window in parts],
        "datasets": [each.dataset.name for each in inputs],
        "required": [each.required for each in inputs],
        "dated": [each.dataset.is_dated for each in inputs],
        "before": [each.months_before for each in inputs],
        "after": [each.months_after for each in inputs],
    }
    with database.begin() as connection:
        return [_state(mart, row) for row in connection.execute(text(_STATES), bindings).mappings()]


def rows_built(database: Database, run_ids: Sequence[str]) -> dict[tuple[str, str, date | None], int]:
    """Return the rows of each partition that runs have built, by mart, account and first day."""
    built = BUILDS.c
    statement = select(built.mart, built.account, built.window_start, func.max(built.rows)).where(
        built.run_id.in_(run_ids)
    )
    with database.begin() as connection:
        rows = connection.execute(statement.group_by(built.mart, built.account, built.window_start))
        return {(mart, account, first): count for mart, account, first, count in rows}


def _state(mart: Mart, row: RowMapping) -> PartitionState:
    window = None if row["first_day"] is None else Window(row["first_day"], row["end_day"])
    is_current = row["version"] == mart.version and not row["is_changed"]
    return PartitionState(mart, row["account"], window, tuple(row["missing"]), is_current, row["build_id"])
