"""Tests when a mart must not be built or is current, and that a build replaces exactly one partition."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest
from psycopg import sql
from sqlalchemy import Connection, delete, text

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.errors import (
    ListChangedError,
    RequestError,
    RequestsUsedUpError,
    SellerPlatformError,
    WarehouseError,
)
from seller_platform.warehouse.derived.builds import build_partition, recheck
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.due import Derived, partition_states, state_of
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.loads.recounts import recount
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import SLICES
from seller_platform_tests.support.receipts import mark_loaded, store_receipt
from seller_platform_tests.support.shop import ACCOUNT, MARCH, MONTHS, Shop, mart_named
from seller_platform_tests.support.statements import at_each_statement

PROFIT, HEALTH, PLAN = map(mart_named, ("account_profit_daily", "inventory_health", "restock_plan"))
_DAYS = "SELECT local_day, product_sales FROM marts.account_profit_daily ORDER BY local_day"


def _store_sale(connection: Connection, number: int) -> None:
    """Store the receipt of a load, and then its row."""
    values = {"load": number, "account": ACCOUNT}
    receipt = (
        "INSERT INTO platform.loads (id, dataset, account, window_start, window_end, requests, pages, body_bytes, "
        "rows, digest, verdict, changed, started_at, finished_at) OVERRIDING SYSTEM VALUE VALUES (:load, "
        "'daily_product_sales', :account, '2026-03-01', '2026-04-01', 1, 1, 0, 1, '', 'match', true, now(), now())"
    )
    row = (
        "INSERT INTO seller.daily_product_sales (date, sku, units_ordered, product_sales, local_day, account, load_id, "
        "page) VALUES ('2026-03-01', 'A', 1, 1, '2026-03-01', :account, :load, 1)"
    )
    connection.execute(text(receipt), values)
    connection.execute(text(row), values)


def _is_current(shop: Shop, mart: Mart) -> bool:
    with shop.database.begin() as connection:
        return state_of(connection, Derived.of(mart), ACCOUNT, MARCH if mart.is_monthly else None).is_current


def test_a_build_is_due_unless_it_has_the_rows_of_each_load(shop: Shop) -> None:
    def load() -> None:
        ((stored,),) = shop.rows("SELECT count(*) FROM seller.daily_product_sales")
        with shop.database.begin() as connection:
            _store_sale(connection, stored + 1)

    load()
    outdated = 0
    for _ in at_each_statement(shop.database, lambda: shop.build(PROFIT), load):
        ((stored, built),) = shop.rows(
            "SELECT (SELECT sum(product_sales) FROM seller.daily_product_sales), "
            "(SELECT sum(product_sales) FROM marts.account_profit_daily)"
        )
        assert _is_current(shop, PROFIT) is (recheck(shop.database, PROFIT) == []) is (stored == built)
        outdated += stored != built

    assert outdated > 3


def test_a_partition_whose_inputs_did_not_change_is_not_checked_again(shop: Shop) -> None:
    shop.sell("2026-03-01", "A", 1, "20.00")
    shop.build(PROFIT)
    shop.database.execute(text("UPDATE platform.derived_partitions SET error = 'InputProblemError'"))

    assert recheck(shop.database, PROFIT) == []


def test_builds_of_a_partition_at_the_same_time_leave_one_set_of_rows(shop: Shop) -> None:
    shop.sell("2026-03-01", "A", 1, "20.00")

    with ThreadPoolExecutor(4) as threads:
        builds = list(threads.map(lambda _: shop.build(PROFIT), range(12)))

    assert {build.rows for build in builds} == {1}
    assert shop.rows("SELECT count(*) FROM marts.account_profit_daily") == [(1,)]
    assert shop.rows("SELECT count(*) FROM platform.mart_builds") == [(12,)]


def test_a_failed_build_changes_no_row_and_is_stored_until_it_succeeds(shop: Shop) -> None:
    def tries() -> list[tuple[object, ...]]:
        return shop.rows(
            "SELECT name, account, month, run_id, error, message LIKE '%was not built%', tried_at > failed_since "
            "FROM platform.derived_partitions"
        )

    def build(run_id: str) -> None:
        with suppress(WarehouseError):
            build_partition(shop.database, PROFIT, ACCOUNT, MARCH, run_id=run_id)

    def due(hours: int = 0) -> int:
        with shop.database.begin() as connection:
            connection.execute(
                text("UPDATE platform.derived_partitions SET tried_at = tried_at - make_interval(hours => :hours)"),
                {"hours": hours},
            )
            return len(partition_states(connection, Derived.of(PROFIT), [ACCOUNT], [MARCH], only_due=True))

    for dataset in ("daily_product_sales", "transactions"):
        mark_loaded(shop.database, dataset_named(dataset), ACCOUNT, MARCH)
    shop.database.execute(text("ALTER TABLE marts.account_profit_daily ADD CONSTRAINT low CHECK (product_sales < 1)"))
    shop.sell("2026-03-01", "A", 1, "20.00")
    before = due()

    build("first")
    build("second")
    failed, at_once, later = tries(), due(), due(hours=1)
    mark_loaded(shop.database, dataset_named("transactions"), ACCOUNT, MARCH)
    after_a_load = due()
    shop.database.execute(text("ALTER TABLE marts.account_profit_daily DROP CONSTRAINT low"))
    build("third")

    key = ("account_profit_daily", ACCOUNT, MARCH.start)
    assert failed == [(*key, "second", "MartBuildError", True, True)]
    assert (before, at_once, later, after_a_load, due()) == (1, 0, 1, 1, 0)
    assert tries() == [(*key, "third", None, None, None)]

    shop.database.execute(text("ALTER TABLE marts.account_profit_daily ADD CHECK (product_sales < 1) NOT VALID"))
    shop.sell("2026-03-01", "A", 1, "200.00")
    with pytest.raises(
        WarehouseError,
        check=lambda error: error.code == "MartBuildError",
        match=r"of us-1, 2026-03-01\.\.2026-03-31 was not built: .*\(23514\)",
    ) as error:
        build_partition(shop.database, PROFIT, ACCOUNT, MARCH, run_id="fourth")

    assert "220.00" not in f"{error.value}{error.value.__cause__}"
    assert shop.rows(_DAYS) == [(date(2026, 3, 1), Decimal("20.00"))]
    assert shop.rows("SELECT count(*) FROM platform.mart_builds") == [(1,)]
    assert tries() == [(*key, "fourth", "MartBuildError", True, False)]


def test_the_receipt_names_the_newest_load_of_each_input(shop: Shop) -> None:
    loads = (
        ("daily_product_sales", MARCH),
        ("daily_product_sales", MARCH.since(date(2026, 3, 10))),
        ("daily_product_sales", Window.month_of(date(2026, 2, 1))),
        ("cost_periods", Window.day(date(2026, 4, 2))),
        ("orders", MARCH),
    )
    for dataset, window in loads:
        store_receipt(shop.database, dataset_named(dataset), ACCOUNT, window)

    build = shop.build(PROFIT)

    assert build.loads == {"daily_product_sales": 2, "cost_periods": 4}
    assert shop.rows("SELECT loads FROM platform.mart_builds") == [({"daily_product_sales": 2, "cost_periods": 4},)]


@pytest.mark.parametrize(
    ("mart", "window", "parameters", "message"),
    [
        (PROFIT, None, {}, "month by month, and None is not one"),
        (PROFIT, Window(date(2026, 3, 1), date(2026, 3, 15)), {}, r"2026-03-01\.\.2026-03-14 is not one"),
        (HEALTH, MARCH, {}, "built for a whole account, not for 2026-03-01"),
        (PLAN, None, {"lead_time": 3}, "no parameter 'lead_time'; it has lead_time_days, safety_days"),
        (PLAN, None, {"target_cover_days": 0}, "target_cover_days is 0; it must be a number from 1 to 10000"),
        (PROFIT, MARCH, {"days": 1}, "no parameter 'days'; it has none"),
    ],
)
def test_a_partition_or_parameter_that_makes_no_sense_is_refused(
    shop: Shop, mart: object, window: Window | None, parameters: dict[str, int], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        build_partition(shop.database, mart, ACCOUNT, window, parameters=parameters)  # type: ignore[arg-type]  # of pytest's making


THIS_MONTH = Window.month_of(utc_now().date())
FAILED = ListChangedError("A list", "the list changed while it was read (last: more rows)")
SPENT = RequestsUsedUpError("default", per_day=1, renews_at=utc_now())


def _refuse(error: SellerPlatformError, *, loaded: bool) -> Callable[[Database, Dataset, Window | None], None]:
    def refuse(database: Database, dataset: Dataset, month: Window | None) -> None:
        if loaded:
            store_receipt(database, dataset, ACCOUNT, month or Window.day(THIS_MONTH.start))
        keep_refusal(database, dataset, ACCOUNT, month, error, run_id=None)

    return refuse


def _alter(database: Database, dataset: Dataset, month: Window | None) -> None:
    store_receipt(database, dataset, ACCOUNT, month or Window.day(THIS_MONTH.start), rows=60)
    recount(database, dataset)


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (_refuse(FAILED, loaded=False), "failed"),
        (_refuse(FAILED, loaded=True), "failed"),
        (_refuse(SPENT, loaded=False), "postponed"),
        (_refuse(SPENT, loaded=True), None),
        (_alter, "altered"),
    ],
    ids=["failed before it was loaded", "failed", "postponed before it was loaded", "postponed", "altered"],
)
@pytest.mark.parametrize("is_retired", [False, True])
def test_each_input_stops_each_mart_that_reads_it(
    shop: Shop, spoil: Callable[[Database, Dataset, Window | None], None], kind: str | None, is_retired: bool
) -> None:
    database = shop.database
    if is_retired:
        database.execute(text("UPDATE platform.accounts SET retired_at = now() - interval '1 year'"))
    for dataset in {dataset for mart in MARTS for dataset in mart.datasets}:
        spoil(database, dataset, THIS_MONTH if dataset.is_dated else None)
        with database.begin() as connection:
            for mart in MARTS:
                month = THIS_MONTH if mart.is_monthly else None
                error = state_of(connection, Derived.of(mart), ACCOUNT, month).input_problem()
                assert (error and error.kind) == (kind if dataset in mart.datasets else None), (mart.name, dataset.name)
            connection.execute(delete(SLICES))


def test_an_input_of_the_month_before_is_none_of_this_month(shop: Shop) -> None:
    mart = mart_named("product_performance_monthly")
    for dataset in mart.datasets:
        store_receipt(shop.database, dataset, ACCOUNT, MARCH)
    with shop.database.begin() as connection:
        after, own = (state_of(connection, Derived.of(mart), ACCOUNT, month) for month in (*MONTHS[3:], MARCH))

    assert (after.missing, own.missing) == (["daily_product_sales", "transactions"], [])


def test_a_mart_is_not_current_after_more_days_were_read_without_a_change(shop: Shop) -> None:
    mart = mart_named("product_performance_monthly")
    for window in (MONTHS[1].since(MONTHS[1].start + timedelta(days=1)), MARCH):
        store_receipt(shop.database, dataset_named("daily_product_sales"), ACCOUNT, window)
    shop.build(mart)
    for other in ("'folder', '/lake'", "'name', 'x'", "'account', 'x'", "'month', month + 31"):
        tried = f"jsonb_populate_record(tried, jsonb_build_object({other}, 'fingerprint', ''))"
        shop.database.execute(
            text(
                f"INSERT INTO platform.derived_partitions SELECT ({tried}).* FROM platform.derived_partitions AS tried "
                f"WHERE (folder, name, account, month) = ('', '{mart.name}', '{ACCOUNT}', '{MARCH.start}')"
            )
        )
    before = _is_current(shop, mart)
    store_receipt(shop.database, dataset_named("daily_product_sales"), ACCOUNT, MONTHS[1], changed=False)

    assert (before, _is_current(shop, mart)) == (True, False)


@pytest.mark.parametrize(
    ("name", "dataset", "month"),
    [
        ("product_performance_monthly", "daily_product_sales", MONTHS[1]),
        ("settlement_reconciliation", "transactions", MONTHS[0]),
        ("settlement_reconciliation", "transactions", MONTHS[3]),
    ],
)
def test_a_mart_follows_months_around_its_own(shop: Shop, name: str, dataset: str, month: Window) -> None:
    mart = mart_named(name)
    shop.build(mart)
    before = _is_current(shop, mart)
    mark_loaded(shop.database, dataset_named(dataset), ACCOUNT, month)

    assert (before, _is_current(shop, mart)) == (True, False)


@pytest.mark.parametrize("mart", MARTS, ids=lambda mart: mart.name)
def test_a_mart_is_not_current_after_its_account_changed(shop: Shop, mart: Mart) -> None:
    def is_current_after(change: str) -> bool:
        shop.build(mart)
        assert _is_current(shop, mart)
        shop.database.execute(text(f"UPDATE platform.accounts SET {change}"))
        return _is_current(shop, mart)

    changes = ("currency_code = 'EUR'", "currency_code = NULL", "timezone = 'Asia/Tokyo'", "id = 9", "title = 'Other'")

    assert [is_current_after(change) for change in changes] == [False] * 4 + [True]


def test_a_mart_is_current_only_by_its_own_query_checks_and_parameters(shop: Shop) -> None:
    own = mart_named("restock_plan")
    query, check = (
        own.query + sql.SQL(" -- another"),
        replace(own.checks[0], contradictions=sql.SQL("SELECT 1 LIMIT 0")),
    )
    shop.build(own)
    others = (
        replace(own, query=query),
        replace(own, checks=(check,)),
        replace(own, columns=own.columns[::-1]),
        replace(own, rules=("",)),
        replace(own, parameters=(replace(own.parameters[0], default=5), *own.parameters[1:])),
    )

    assert _is_current(shop, own)
    assert [_is_current(shop, other) for other in others] == [False] * len(others)
    shop.build(own, None, lead_time_days=5)
    assert not _is_current(shop, own)
