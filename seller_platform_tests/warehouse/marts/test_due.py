"""Tests of what decides whether a mart must not be built, or is current."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from psycopg import sql
from sqlalchemy import delete, text

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.errors import ListChangedError, RequestsUsedUpError, SellerPlatformError, SettingsError
from seller_platform.warehouse.loads.recounts import recount
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.marts import MARTS, Mart, mart_named, marts_with
from seller_platform.warehouse.marts.due import Derived, state_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import SLICES
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.shop import MARCH, MONTHS, Shop

ACCOUNT, THIS_MONTH = "us-1", Window.month_of(utc_now().date())
FAILED = ListChangedError("A list", attempts=3, last="more rows")
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
    before = _is_current(shop, mart)
    store_receipt(shop.database, dataset_named("daily_product_sales"), ACCOUNT, MONTHS[1], changed=False)

    assert (before, _is_current(shop, mart)) == (True, False)


def _is_current(shop: Shop, mart: Mart) -> bool:
    with shop.database.begin() as connection:
        return state_of(connection, Derived.of(mart), ACCOUNT, MARCH if mart.is_monthly else None).is_current


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


_FORMULA = (
    "formula: own  # a -- b\nbeside: [product_cost]\nlines:\n  - {line: a, counts: yes, entries: [{type: 'A  -- B'}]}\n"
)
_ACCOUNTS = (
    "balance: {name: 'Marketplace -- clearing', code: '200'}\n"
    "lines:\n  - {line: payouts, name: A  B, entries: [{type: 'Transfer*'}]}\n"
)


@pytest.mark.parametrize(("name", "content"), [("profit_bridge_monthly", _FORMULA), ("journal_entries", _ACCOUNTS)])
def test_rules_that_differ_in_a_byte_make_another_mart(tmp_path: Path, name: str, content: str) -> None:
    path, versions, others, files = tmp_path / "rules.yaml", set[str](), set[tuple[str, ...]](), 0
    texts = {content, *(content[:at] + added + content[at:] for at in range(len(content) + 1) for added in " 9\n")}
    for each in texts:
        path.write_text(each)
        with suppress(SettingsError):
            marts = marts_with(path, None) if content is _FORMULA else marts_with(None, path)
            versions.add(next(mart.version for mart in marts if mart.name == name))
            others.add(tuple(mart.version for mart in marts if mart.name != name))
            files += 1

    assert len(versions) == files > 40
    assert others == {tuple(mart.version for mart in MARTS if mart.name != name)}
