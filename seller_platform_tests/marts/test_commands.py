"""`seller-platform marts build`: what is built, what is not, and why."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import document, environment
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.shop import ACCOUNT, Shop, connected_shop

pytestmark = pytest.mark.slow

FEBRUARY, MARCH, APRIL = (Window.month_of(date(2026, month, 1)) for month in (2, 3, 4))
PROFIT = "account_profit_daily"


@pytest.fixture(scope="module")
def shop(databases: Databases) -> Iterator[Shop]:
    """An account with sales in February and March, and without a ledger in April."""
    with databases.lent() as database:
        opened = connected_shop(database)
        mark_loaded(database, dataset_named("transactions"), ACCOUNT, FEBRUARY, MARCH)
        mark_loaded(database, dataset_named("daily_product_sales"), ACCOUNT, FEBRUARY, MARCH, APRIL)
        yield opened


@pytest.fixture(scope="module")
def variables(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    (home / "dagster").mkdir()
    return environment(home, SELLER_PLATFORM_DATABASE_URL=shop.database.url)


def _build(variables: dict[str, str], *words: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the partitions of the document, by account and month."""
    partitions = document(run_here(["marts", "build", *words, "--json"], variables))["partitions"]
    return {(each["account"], each["month"]): each for each in partitions}


def test_what_has_its_inputs_is_built_and_the_rest_is_named_with_reasons(shop: Shop, variables: dict[str, str]) -> None:
    built = _build(variables, PROFIT, "--from", "2026-02", "--to", "2026-04")

    assert {key: (each["result"], each["rows"]) for key, each in built.items() if key[0] == ACCOUNT} == {
        (ACCOUNT, "2026-02"): ("built", 1),
        (ACCOUNT, "2026-03"): ("built", 1),
        (ACCOUNT, "2026-04"): ("skipped", None),
    }
    assert built[ACCOUNT, "2026-04"]["reason"] == "transactions: never loaded"
    assert built["de-2", "2026-02"]["reason"] == "daily_product_sales and transactions: never loaded"
    assert shop.rows("SELECT sum(units) FROM marts.account_profit_daily") == [(6,)]
    # Dagster has the materialization and the checks of each partition.
    events = (
        "SELECT count(*) FROM {schema}event_logs WHERE dagster_event_type = 'ASSET_MATERIALIZATION' "
        "AND asset_key = '[\"marts\", \"account_profit_daily\"]' AND run_id = ''"
    )
    ((schema,),) = shop.rows("SELECT schemaname FROM pg_tables WHERE tablename = 'event_logs'")
    assert shop.rows(events.format(schema=f'"{schema}".')) == [(2,)]
    # So the sensor need not build them again.
    assert shop.rows("SELECT count(*) FROM platform.derived_partitions WHERE run_id IS NULL") == [(0,)]


def test_what_has_not_changed_is_built_only_in_full(shop: Shop, variables: dict[str, str]) -> None:
    words = (f"marts.{PROFIT}", "--account", "north pine us", "--month", "2026-03")
    _build(variables, *words)

    again = _build(variables, *words)
    in_full = _build(variables, *words, "--full")
    mark_loaded(shop.database, dataset_named("transactions"), ACCOUNT, MARCH)
    after_a_load = _build(variables, *words)

    key = (ACCOUNT, "2026-03")
    assert again[key]["reason"] == "nothing changed"
    assert [each[key]["result"] for each in (again, in_full, after_a_load)] == ["skipped", "built", "built"]
    assert list(again) == [key]


def test_a_build_that_fails_ends_with_its_cause(shop: Shop, variables: dict[str, str]) -> None:
    shop.database.execute(text("ALTER TABLE marts.cost_coverage ADD CONSTRAINT refuses CHECK (sku <> 'A')"))

    result = run_here(["marts", "build", "cost_coverage", "--account", ACCOUNT, "--month", "2026-02"], variables)

    assert result.returncode == 1
    assert "1 partition was not built:\n" in result.stderr
    assert "cost_coverage of us-1" in result.stderr
    assert "failed" in result.stdout
