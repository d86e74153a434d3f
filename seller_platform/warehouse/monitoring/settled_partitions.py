"""Finds the partitions of datasets and marts whose days have all settled."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date

from sqlalchemy import text

from seller_platform.contract import Dataset, Window
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.monitoring.problems import SliceProblem, slice_problems
from seller_platform.warehouse.postgres.database import Database

# A day has settled when it was read after its last expected change. Lists without days settle with each load.
_SETTLED = text("""
WITH slice AS (
    SELECT dataset, account, month, changed_load_id,
           month IS NULL OR coalesce(read_after_days > lookback, false) AS is_settled
    FROM platform.slices
    JOIN unnest(CAST(:datasets AS text[]), CAST(:lookbacks AS integer[])) AS given (dataset, lookback) USING (dataset)
    WHERE load_id IS NOT NULL
)
SELECT account, month, CAST(changed_load_id AS text) FROM slice WHERE is_settled AND CAST(:mart AS text) IS NULL
UNION ALL
SELECT account, window_start, encode(digest, 'hex')
FROM (SELECT DISTINCT ON (account, window_start) * FROM platform.mart_builds
      WHERE mart = :mart ORDER BY account, window_start, id DESC) AS build
WHERE NOT EXISTS (
    SELECT FROM slice
    WHERE slice.account = build.account AND slice.month = build.window_start
      AND (is_settled AND changed_load_id <= CAST(build.loads ->> dataset AS bigint)) IS NOT TRUE
)
""")

Partition = tuple[str, Window | None]
"""An account and a month, or an account as a whole."""


def settled_partitions(database: Database, source: Dataset | Mart) -> Mapping[Partition, str]:
    """Return the partitions of which no day is expected to change and nothing is wrong, with the version of their rows.

    A partition of a mart has settled when its last build has read slices that have.
    """
    datasets: Sequence[Dataset] = [source] if isinstance(source, Dataset) else source.datasets
    bound = {
        "datasets": [each.name for each in datasets],
        "lookbacks": [each.lookback_days for each in datasets],
        "mart": source.name if isinstance(source, Mart) else None,
    }
    wrong = {(each.account, _month(each.month)) for each in open_errors(database, source)}
    partitions = {(account, _month(month)): version for account, month, version in database.execute(_SETTLED, bound)}
    return {each: version for each, version in partitions.items() if wrong.isdisjoint({each, (each[0], None)})}


def open_errors(
    database: Database, source: Dataset | Mart, partitions: Collection[Partition] | None = None
) -> list[SliceProblem]:
    """Return the errors of these partitions, or of all, that no person has acknowledged; a mart's inputs count."""
    names = [source.name] if isinstance(source, Dataset) else [source.table, *(each.name for each in source.datasets)]
    accounts = None if partitions is None else {account for account, _ in partitions}
    found = slice_problems(database, names, accounts=accounts)
    errors = [each for each in found if each.severity == "error" and each.acknowledged_by is None]
    if partitions is None:
        return errors
    months = ({(each.account, None), (each.account, _month(each.month))} for each in errors)
    return [each for each, of in zip(errors, months, strict=True) if each.month is None or of & {*partitions}]


def _month(first_day: date | None) -> Window | None:
    return None if first_day is None else Window.month_of(first_day)
