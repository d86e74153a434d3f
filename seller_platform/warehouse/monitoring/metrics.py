"""Measures for monitoring, read from receipts and slices, however many rows there are."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, text

from seller_platform.capabilities import contributed
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.connections.grants import GrantFacts, grant_facts
from seller_platform.warehouse.connections.sent_requests import requests_sent
from seller_platform.warehouse.monitoring.restatements import Activity, activity_since
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
    """Return what receipts say of every dataset and account that was ever loaded, as `_SUMS` names it.

    Its `seconds` were spent in all loads; `read_at` is when the last published one ended, None if there is none.
    """
    return database.execute(_SUMS).all()


@dataclass(frozen=True)
class Facts:
    """What there is to know of an installation beside its slices and its problems.

    Attributes:
        requests_today: Of each connection, by days of UTC; those that are reserved count.
    """

    grants: tuple[GrantFacts, ...]
    requests_today: dict[str, int]
    since_yesterday: Activity
    evidence: "Evidence"


def facts(database: Database, now: datetime) -> Facts:
    """Return the facts at a moment."""
    sent = requests_sent(database, now.astimezone(UTC).date())
    return Facts(
        grant_facts(database),
        {each.name: sent.get(each.name, 0) for each in connections(database)},
        activity_since(database, now - _RECENT),
        evidence(database, now),
    )


@dataclass(frozen=True)
class Gauge:
    """Numbers for Prometheus, by the value of a label."""

    name: str
    doc: str
    label: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Evidence:
    """What is known of how many slices differ from the upstream.

    Attributes:
        sentence: All of it.
        differing_at_most: The share of slices, by their rows, that differ at most, of those of each kind.
    """

    sentence: str = ""
    differing_at_most: Mapping[str, float] = field(default_factory=dict)
    gauges: Sequence[Gauge] = ()


def evidence(database: Database, now: datetime, accounts: Collection[str] | None = None) -> Evidence:
    """Return what a capability has found out about these accounts, or about all, if one is there that does."""
    return next((find(database, now, accounts) for find in contributed("evidence")), Evidence())


def account_counts(database: Database) -> dict[str, int]:
    """Return how many accounts are listed and how many are retired."""
    return dict(database.execute(_ACCOUNTS).mappings().one())


_ACCOUNTS = text("""
    SELECT count(*) FILTER (WHERE retired_at IS NULL) AS listed, count(retired_at) AS retired FROM platform.accounts
""")
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
