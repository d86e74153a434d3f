"""An upstream that is not ours is read to the last row."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.processes import connect, document, foreign_environment, free_port, run

pytestmark = [pytest.mark.journey, pytest.mark.dagster_tables]


@pytest.fixture
def upstream() -> Iterator[independent_upstream.IndependentUpstream]:
    with independent_upstream.open_independent_upstream(f"http://127.0.0.1:{free_port()}/back") as served:
        yield served


@pytest.fixture
def variables(upstream: independent_upstream.IndependentUpstream, database_url: str, tmp_path: Path) -> dict[str, str]:
    return foreign_environment(upstream, database_url, tmp_path / "a home")


def _query(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement).fetchall()


def test_connect_and_sync_hold_exactly_its_rows_also_the_second_time(
    upstream: independent_upstream.IndependentUpstream, variables: dict[str, str], database_url: str
) -> None:
    everything = "SELECT md5(string_agg(o::text, '|' ORDER BY o::text)) FROM seller.orders o"
    months = ["sync", "--from", "2026-01", "--to", "2026-03", "--json"]
    said = connect(variables)
    result = run(months, variables)

    loads = {(load["dataset"], load["account"]): load for load in document(result)["loads"]}
    for seller, key in independent_upstream.KEYS.items():
        expected = sorted(
            (row["platform_order_id"], Decimal(row["order_total"].replace(",", "")), channel, row["product_name"])
            for month in independent_upstream.MONTHS
            for channel in ("platform", "non-platform")
            for row in independent_upstream.order_rows(seller, channel, month)
        )
        stored = _query(
            database_url,
            "SELECT platform_order_id, order_total, sales_channel, product_name FROM seller.orders "
            f"WHERE account = '{key}' ORDER BY 1",
        )
        assert stored == expected
        assert loads[("orders", key)]["announced"] == len(expected)
        assert loads[("orders", key)]["verdict"] == "match"
        assert loads[("notifications", key)]["verdict"] == "unverifiable"
        assert loads[("notifications", key)]["rows"] == 61
        assert loads[("inventory", key)]["rows"] == 45
        assert (loads[("cost_periods", key)]["rows"], loads[("cost_periods", key)]["verdict"]) == (1, "unverifiable")

    # No slice was loaded twice, and no run of Dagster loaded one.
    twice = _query(
        database_url, "SELECT dataset, account, window_start FROM platform.loads GROUP BY 1, 2, 3 HAVING count(*) > 1"
    )
    assert {dataset for dataset, *_ in twice} <= {"accounts"}
    assert _query(database_url, "SELECT FROM platform.loads WHERE run_id IS NOT NULL") == []
    ledger = _query(database_url, "SELECT order_id, amount, count(*) FROM seller.transactions GROUP BY 1, 2 ORDER BY 2")
    assert ledger == [("order", Decimal("-4835.92"), 12), ("order", Decimal("-0.1"), 6)]
    daily = _query(
        database_url,
        "SELECT count(*), sum(taxes), sum(rebates), count(sales_channel), count(DISTINCT local_day) "
        "FROM seller.daily_product_sales",
    )
    assert daily == [(18, Decimal("9.0"), Decimal("1.8"), 0, 9)]
    notes = _query(database_url, "SELECT DISTINCT notes->'unknown_fields' FROM platform.loads WHERE dataset = 'orders'")
    assert notes == [(["is_gift"],)]
    gifts = _query(database_url, "SELECT count(*) FROM seller.orders WHERE extra = '{\"is_gift\": true}'")
    assert gifts[0][0] > 0
    zones = _query(
        database_url,
        "SELECT min(purchase_date AT TIME ZONE 'Australia/Adelaide') FROM seller.orders WHERE account = 'au-42'",
    )
    assert str(zones[0][0]) == "2026-01-01 00:00:00"
    assert upstream.refreshes > 0
    assert upstream.replayed == 0
    assert independent_upstream.CLIENT_SECRET not in said + result.stdout + result.stderr

    before, receipts = _query(database_url, everything), _query(database_url, "SELECT count(*) FROM platform.loads")
    again = document(run(months, variables))

    assert _query(database_url, everything) == before
    assert _query(database_url, "SELECT count(*) FROM platform.loads") > receipts
    assert [load["changed"] for load in again["loads"]] == [0] * len(again["loads"])
    # A request for each product: once a day is enough, unless they are asked for.
    assert "cost_periods" not in {load["dataset"] for load in again["loads"]}
    asked = document(run(["sync", "--dataset", "cost_periods", "--json"], variables))
    assert {load["dataset"] for load in asked["loads"]} == {"accounts", "cost_periods"}


@pytest.mark.nightly
def test_commands_import_dagster_only_to_report_where_it_has_a_home(
    variables: dict[str, str], database_url: str
) -> None:
    statement = "SELECT dataset FROM platform.slices WHERE load_id IS DISTINCT FROM reported_load_id ORDER BY 1"
    orders = ["sync", "--dataset", "orders", "--from", "2026-01", "--to", "2026-01"]
    connect(variables)
    shown = {**variables, "PYTHONPROFILEIMPORTTIME": "1"}

    run(orders, variables)
    synced = run(orders, shown, forked=False)
    load = _query(database_url, "SELECT max(id) FROM platform.loads WHERE dataset = 'orders'")[0][0]
    reverted = run(["revert", str(load)], shown, forked=False)
    accepted = run(["accept", str(load)], shown, forked=False)
    before = _query(database_url, statement)
    (Path(variables["SELLER_PLATFORM_HOME"]) / "dagster").mkdir()
    reported = run(orders, variables)

    assert (synced.returncode, reverted.returncode, reported.returncode) == (0, 0, 0), reverted.stderr[-300:]
    assert "not held" in accepted.stderr, accepted.stderr[-300:]
    for ended in (synced, reverted, accepted):
        assert "| seller_platform.cli" in ended.stderr
        assert "| dagster" not in ended.stderr
    assert {name for (name,) in before} == {"accounts", "orders"}
    assert _query(database_url, statement) == []
    events = _query(
        database_url, "SELECT DISTINCT asset_key FROM dagster.event_logs WHERE run_id = '' AND asset_key <> ''"
    )
    assert set(events) == {('["seller", "accounts"]',), ('["seller", "orders"]',)}


def test_history_begins_with_the_first_month_that_is_asked_for(variables: dict[str, str], database_url: str) -> None:
    del variables["SELLER_PLATFORM_HISTORY_START"]
    connect(variables)

    first = run(["sync", "--dataset", "orders", "--from", "2026-02", "--to", "2026-02"], variables)
    begun = _query(database_url, "SELECT first_day::text FROM platform.history_start")
    later = run(["sync", "--dataset", "orders"], variables)
    earliest = _query(database_url, "SELECT min(window_start)::text FROM platform.loads WHERE dataset = 'orders'")
    refused, extended = (
        run(["connect", "--keep-grant", "--history-start", month], variables).stderr for month in ("2026-03", "2026-01")
    )
    earlier = run(["sync", "--dataset", "transactions", "--from", "2025-12", "--to", "2025-12"], variables)
    backwards, too_early = (
        run(["sync", "--from", first, "--to", "2026-01"], variables) for first in ("2026-03", "1999-12")
    )

    assert first.returncode == 0, first.stderr
    assert begun == [("2026-02-01",)]
    assert (later.returncode, earliest) == (0, [("2026-02-01",)]), later.stderr
    assert "History begins with 2026-02 already, and cannot begin later." in refused
    assert "History begins with 2026-01." in extended
    assert (backwards.returncode, too_early.returncode) == (2, 2)
    assert "history cannot begin with 1999-12; choose 2000-01" in too_early.stderr
    assert (earlier.returncode, "History begins with 2025-12 now" in earlier.stderr) == (0, True), earlier.stderr
    assert _query(database_url, "SELECT first_day::text FROM platform.history_start") == [("2025-12-01",)]


def test_a_wrong_address_is_reported_before_an_approval_is_awaited(variables: dict[str, str]) -> None:
    known = variables["SELLER_API_BASE_URL"].removesuffix("/api/")
    wrong = {
        f"http://127.0.0.1:{free_port()}": "the connection was refused",
        "http://nowhere.invalid": "the host is unknown",
        f"{known}/elsewhere": "are answered with 404",
    }

    for url, problem in wrong.items():
        ended = run(["connect", "--no-browser"], {**variables, "SELLER_API_BASE_URL": url})

        assert ended.returncode == 2
        assert f"SELLER_API_BASE_URL: there is no API at {url}: " in ended.stderr
        assert problem in ended.stderr
        assert "Open this address" not in ended.stderr + ended.stdout


def test_statistics_that_are_not_offered_are_named_and_stop_nothing(
    upstream: independent_upstream.IndependentUpstream, variables: dict[str, str]
) -> None:
    upstream.missing = ("/sales/statistics-dashboard",)
    connect(variables)

    names = ("sales_by_date", "sales_by_product", "transactions")
    january = ["sync", "--from", "2026-01", "--to", "2026-01", *(f"--dataset={name}" for name in names)]
    told = document(run([*january, "--json"], variables))
    upstream.missing = ("/sales/transactions",)
    refused = run(january, variables)

    assert [text.partition(":")[0] for text in told["not_offered"]] == ["sales_by_date", "sales_by_product"]
    assert "transactions" in {load["dataset"] for load in told["loads"]}
    assert refused.returncode == 4
    assert "GET /sales/transactions: the upstream answered 404" in refused.stderr
