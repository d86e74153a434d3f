"""Slices that loading processes begin before the runs are planned belong to runs, too.

The commands are new interpreters: only these import Dagster for so long that loads end before the plan.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from seller_platform_tests.support.independent_upstream import (
    ACCOUNTS,
    IndependentUpstream,
    open_independent_upstream,
)
from seller_platform_tests.support.processes import connect, document, foreign_environment, free_port, run

pytestmark = [pytest.mark.journey, pytest.mark.dagster_tables]

_STORED = """
    SELECT dataset, account || '|' || to_char(date_trunc('month', window_start), 'YYYY-MM-DD') FROM platform.loads
    WHERE dataset IN ('daily_product_sales', 'orders', 'transactions')
"""
_REPORTED = """
    SELECT asset_key::json ->> 1, partition FROM dagster.event_logs WHERE dagster_event_type = 'ASSET_MATERIALIZATION'
"""


@pytest.fixture
def upstream() -> Iterator[IndependentUpstream]:
    with open_independent_upstream(f"http://127.0.0.1:{free_port()}/back") as served:
        yield served


@pytest.fixture
def variables(upstream: IndependentUpstream, database_url: str, tmp_path: Path) -> dict[str, str]:
    return foreign_environment(upstream, database_url, tmp_path / "a home")


def _query(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement).fetchall()


def test_sync_names_every_load_and_forgets_its_refusals(variables: dict[str, str], database_url: str) -> None:
    connect(variables)
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO platform.refusals (dataset, account, month, error, message, since, refused_at, requests) "
            "SELECT 'daily_product_sales', 'account-42', to_char(month, 'YYYY-MM'), 'UpstreamUnavailableError', "
            "'no answer', now(), now(), 0 "
            "FROM generate_series(date '2026-01-01', now(), interval '1 month') AS month"
        )

    synced = document(run(["sync", "--json"], variables, forked=False))

    named = {(load["dataset"], load["account"]): load["slices"] for load in synced["loads"]}
    stored = _query(database_url, "SELECT dataset, account, count(*) FROM platform.loads GROUP BY 1, 2")
    without_run = _query(database_url, "SELECT DISTINCT dataset FROM platform.loads WHERE run_id IS NULL")
    refused = _query(database_url, "SELECT dataset, month FROM platform.refusals")
    expected = {(dataset, account): slices for dataset, account, slices in stored if dataset != "accounts"}
    assert {pair: slices for pair, slices in named.items() if pair[0] != "accounts"} == expected
    assert without_run == [("accounts",)]
    assert refused == []


def test_dagster_has_the_loads_of_a_sync_whose_discovery_failed(
    upstream: IndependentUpstream, variables: dict[str, str], database_url: str
) -> None:
    connect(variables)
    upstream.accounts = [{"no": "account"}]
    failed = run(["sync", "--json"], variables, forked=False)
    upstream.accounts = list(ACCOUNTS)
    again = run(["sync", "--json"], variables, forked=False)

    assert (failed.returncode != 0, again.returncode) == (True, 0)
    assert {*_query(database_url, _STORED)} - {*_query(database_url, _REPORTED)} == set()
