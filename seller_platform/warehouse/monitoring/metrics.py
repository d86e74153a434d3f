"""Measures for monitoring, read from receipts and slices, however many rows there are."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Row, text

from seller_platform.capabilities import contributed
from seller_platform.contract import dataset_named
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.connections.grants import GrantFacts, grant_facts
from seller_platform.warehouse.connections.sent_requests import requests_sent
from seller_platform.warehouse.postgres.database import Database

_RECENT = timedelta(days=1)


_SUMS = text("""
    SELECT dataset, account, count(*) AS loads, sum(requests) AS requests, sum(body_bytes) AS body_bytes,
           CAST(extract(epoch FROM sum(greatest(finished_at - started_at, '0'))) AS float8) AS seconds,
           max(finished_at) FILTER (WHERE verdict <> 'held') AS read_at
    FROM platform.loads
    GROUP BY 1, 2
    ORDER BY 1, 2
""")


def load_measures(database: Database) -> Sequence[Row[Any]]:
    """Return `loads`, `requests`, `body_bytes`, `seconds` and `read_at` of each dataset and account ever loaded.

    The moment is when the last published load ended; None if there is none.
    """
    return database.execute(_SUMS).all()


@dataclass(frozen=True)
class Restatement:
    """What changed on the days of a dataset and an account that had been read after they were over.

    Attributes:
        rows_came: Rows that are new; a changed row came and went.
        amount: The change of the first amount of the dataset; null where it has none.
        amount_name: The column of that amount, and the account's currency.
    """

    dataset: str
    account: str
    first_day: date
    last_day: date
    rows_came: int
    rows_went: int
    amount: Decimal | None
    amount_name: str | None


@dataclass(frozen=True)
class Activity:
    """What was read since a moment.

    Attributes:
        rows_came: Rows that were not stored before.
    """

    loads: int
    rows_came: int
    restatements: tuple[Restatement, ...]


_CHANGED_DAYS = """
    SELECT load.id, load.dataset, load.account, CAST(changed.day AS date) AS day,
           CAST(changed.counts ->> 0 AS bigint) AS came, CAST(changed.counts ->> 1 AS bigint) AS went,
           CAST(changed.counts ->> 2 AS numeric) AS amount
    FROM platform.published_loads AS load, jsonb_each(load.changed_days) AS changed (day, counts)
    WHERE load.finished_at >= :since AND load.changed AND changed.day ~ '^[0-9-]{10}$'
"""
_RESTATED = text(f"""
    SELECT changed.dataset, changed.account, min(day), max(day), CAST(sum(came) AS bigint), CAST(sum(went) AS bigint),
           sum(amount), account.currency_code
    FROM ({_CHANGED_DAYS}) AS changed
    JOIN platform.accounts AS account ON account.key = changed.account
    WHERE EXISTS (
        SELECT FROM platform.published_loads AS earlier
        WHERE earlier.dataset = changed.dataset AND earlier.account = changed.account AND earlier.id < changed.id
          AND earlier.window_start <= day AND earlier.window_end > day
          AND CAST(earlier.started_at AT TIME ZONE 'UTC' AS date) > day + 1
    )
    GROUP BY 1, 2, 8
    ORDER BY abs(sum(amount)) DESC, sum(came) + sum(went) DESC, 1, 2
""")  # noqa: S608  # a constant
_READ = text(f"""
    SELECT count(*), coalesce(sum(rows) FILTER (WHERE coalesce(jsonb_typeof(restatement), 'null') = 'null'), 0)
                     + (SELECT coalesce(sum(came), 0) FROM ({_CHANGED_DAYS}) AS changed)
    FROM platform.published_loads WHERE finished_at >= :since
""")  # noqa: S608  # a constant


def activity_since(database: Database, since: datetime) -> Activity:
    """Return what was read since a moment, and which days of before changed; the largest amounts come first."""
    with database.begin() as connection:
        loads, came = connection.execute(_READ, {"since": since}).one()
        rows = connection.execute(_RESTATED, {"since": since}).all()
    restatements = []
    for dataset, *facts, amount, currency in rows:
        money = dataset_named(dataset).money
        of_money = (amount, f"{money[0].name} {currency or ''}".strip()) if money else (None, None)
        restatements.append(Restatement(dataset, *facts, *of_money))
    return Activity(loads, int(came), tuple(restatements))


@dataclass(frozen=True)
class Gauge:
    """Numbers for Prometheus, by the value of a label."""

    name: str
    doc: str
    label: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Evidence:
    """How many slices differ from the upstream: a sentence, and by their kind the share of rows at most."""

    sentence: str = ""
    differing_at_most: Mapping[str, float] = field(default_factory=dict)
    gauges: Sequence[Gauge] = ()


def evidence(database: Database, now: datetime, accounts: Collection[str] | None = None) -> Evidence:
    """Return what a capability has found out about these accounts, or about all, if one is there that does."""
    return next((find(database, now, accounts) for find in contributed("evidence")), Evidence())


@dataclass(frozen=True)
class Facts:
    """What there is to know of an installation beside its slices and its problems.

    Attributes:
        requests_today: Of each connection, by days of UTC; those that are reserved count.
    """

    grants: tuple[GrantFacts, ...]
    requests_today: dict[str, int]
    since_yesterday: Activity
    evidence: Evidence


def facts(database: Database, now: datetime) -> Facts:
    """Return the facts at a moment."""
    sent = requests_sent(database, now.astimezone(UTC).date())
    return Facts(
        grant_facts(database),
        {each.name: sent.get(each.name, 0) for each in connections(database)},
        activity_since(database, now - _RECENT),
        evidence(database, now),
    )


_COUNT = text("""
    SELECT count(*), CAST(coalesce(sum(rows), 0) AS bigint)
    FROM (SELECT dataset, account, rows FROM platform.slices
          UNION ALL
          SELECT 'marts.' || name, account, NULL FROM platform.derived_partitions
          WHERE folder = '' AND digest IS NOT NULL) AS stored
    WHERE dataset = :name AND (CAST(:accounts AS text[]) IS NULL OR account = ANY (CAST(:accounts AS text[])))
""")
_NOW = text("""
    SELECT CAST(pg_current_snapshot() AS text),
           pg_snapshot_xmax(CAST(:before AS pg_snapshot)) <= pg_snapshot_xmax(pg_current_snapshot())
""")
_CHANGED = text("""
    SELECT DISTINCT dataset FROM platform.slices
    WHERE transaction_id >= pg_snapshot_xmin(CAST(:before AS pg_snapshot))
      AND NOT pg_visible_in_snapshot(transaction_id, CAST(:before AS pg_snapshot))
""")


def stored_partitions(database: Database, name: str, accounts: Collection[str] | None) -> tuple[int, int]:
    """Return how many slices of a dataset were loaded or tried, with their rows, or partitions of a mart were built.

    Args:
        name: Of a mart with its schema, and no rows are returned.
        accounts: The keys of the accounts, or of the list of accounts the connections; None for all.
    """
    bound = {"name": name, "accounts": None if accounts is None else list(accounts)}
    count, rows = database.execute(_COUNT, bound).one()
    return count, rows


def changed_datasets(database: Database, before: str) -> tuple[frozenset[str] | None, str]:
    """Return the names of datasets with slices that changed since a snapshot, and the snapshot of now.

    Any may have changed, and the first is None, if the snapshot before is empty or of another server.
    """
    with database.begin() as connection:
        snapshot, is_of_server = connection.execute(_NOW, {"before": before or None}).one()
        changed = connection.execute(_CHANGED, {"before": before}).scalars() if is_of_server else None
        return None if changed is None else frozenset(changed), snapshot
