"""Measures for monitoring, read from receipts and slices, however many rows there are."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from seller_platform.capabilities import contributed
from seller_platform.contract import Dataset
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.connections.grants import GrantFacts, grant_facts
from seller_platform.warehouse.connections.sent_requests import requests_sent
from seller_platform.warehouse.monitoring.restatements import Activity, activity_since
from seller_platform.warehouse.postgres.database import Database

_RECENT = timedelta(days=1)


@dataclass(frozen=True)
class LoadMeasures:
    """What receipts say of a dataset and an account.

    Attributes:
        seconds: Time spent in all loads.
        read_at: When the last published load ended; None if there is none.
    """

    dataset: str
    account: str
    loads: int
    requests: int
    body_bytes: int
    seconds: float
    read_at: datetime | None


_SUMS = text("""
    SELECT dataset, account, count(*) AS loads, sum(requests) AS requests, sum(body_bytes) AS body_bytes,
           CAST(extract(epoch FROM sum(greatest(finished_at - started_at, '0'))) AS float8) AS seconds,
           max(finished_at) FILTER (WHERE verdict <> 'held') AS read_at
    FROM platform.loads
    GROUP BY 1, 2
    ORDER BY 1, 2
""")


def load_measures(database: Database) -> tuple[LoadMeasures, ...]:
    """Return the measures of every dataset and account that was ever loaded."""
    return tuple(LoadMeasures(**row) for row in database.execute(_SUMS).mappings())


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
    """Numbers for Prometheus.

    Attributes:
        label: What the keys of the values are.
    """

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
    SELECT count(*), CAST(coalesce(sum(rows), 0) AS bigint) FROM platform.slices
    WHERE dataset = :dataset AND (CAST(:accounts AS text[]) IS NULL OR account = ANY (CAST(:accounts AS text[])))
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


def stored_slices(database: Database, dataset: Dataset, accounts: Collection[str] | None) -> tuple[int, int]:
    """Return how many slices of a dataset were loaded or tried, and how many rows they have.

    Args:
        accounts: The keys of the accounts, or of the list of accounts the connections; None for all.
    """
    bound = {"dataset": dataset.name, "accounts": None if accounts is None else list(accounts)}
    slices, rows = database.execute(_COUNT, bound).one()
    return slices, rows


def changed_datasets(database: Database, before: str) -> tuple[frozenset[str] | None, str]:
    """Return the names of datasets with slices that changed since a snapshot, and the snapshot of now.

    Args:
        before: What was returned as the snapshot; empty or of another server, the first is None: any may have changed.
    """
    with database.begin() as connection:
        snapshot, is_of_server = connection.execute(_NOW, {"before": before or None}).one()
        changed = connection.execute(_CHANGED, {"before": before}).scalars() if is_of_server else None
        return None if changed is None else frozenset(changed), snapshot
