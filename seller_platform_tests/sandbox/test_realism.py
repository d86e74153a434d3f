"""Tests that the sandbox has the variety of real accounts, and difficult values."""

from collections import Counter
from datetime import date, timedelta

import pytest

from seller_platform.contract import DATASETS, Dataset, Window
from seller_platform.contract.datasets.notifications import NOTIFICATIONS
from seller_platform.contract.datasets.sales import SALES_CHANNEL
from seller_platform.sandbox import load_sandbox
from seller_platform.sandbox.catalogue import generate_catalogue, unusual_products
from seller_platform.sandbox.inventory.shipments import STATUSES
from seller_platform.sandbox.late_changes import SETTLED_AFTER
from seller_platform.warehouse.marts import MARTS
from seller_platform.warehouse.marts.builds import build_partition
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.sandbox_tables import TABLES, TODAY, rows

KEYED = [dataset for dataset in DATASETS if dataset.table in TABLES and dataset.key]


@pytest.mark.parametrize("dataset", KEYED, ids=lambda dataset: dataset.name)
def test_keys_are_unique_in_an_account(sandbox: Database, dataset: Dataset) -> None:
    key = ", ".join(["account", *dataset.key, *(tag.name for tag in dataset.tags)])

    assert rows(sandbox, f"SELECT {key} FROM {dataset.table} GROUP BY {key} HAVING count(*) > 1") == []


def test_order_lines_are_unique_in_both_channels_together(sandbox: Database) -> None:
    key = "platform_order_id, purchase_date, sku"

    assert rows(sandbox, f"SELECT {key} FROM seller.orders GROUP BY {key} HAVING count(*) > 1") == []


def test_there_are_three_accounts_of_different_size_zone_and_currency(sandbox: Database) -> None:
    accounts = rows(
        sandbox,
        "SELECT timezone, a.currency_code, count(*) FROM seller.accounts a JOIN seller.orders USING (account) "
        "GROUP BY 1, 2 ORDER BY 3",
    )

    sizes = [row[2] for row in accounts]
    assert len({row[0] for row in accounts}) == len({row[1] for row in accounts}) == 3
    assert 100 < sizes[0] < 1_000
    assert 8_000 < sum(sizes) < 15_000


def test_orders_are_placed_in_both_offsets_of_each_zone(sandbox: Database) -> None:
    offsets = rows(
        sandbox,
        "SELECT timezone, count(DISTINCT purchase_date AT TIME ZONE timezone - purchase_date AT TIME ZONE 'UTC') "
        "FROM seller.orders JOIN seller.accounts USING (account) GROUP BY 1",
    )

    assert [count for _, count in offsets] == [2, 2, 2]


def test_orders_are_placed_on_the_days_when_clocks_change(sandbox: Database) -> None:
    changed = rows(
        sandbox,
        "SELECT country_code, local_day::text FROM seller.orders JOIN seller.accounts USING (account) "
        "GROUP BY country_code, timezone, local_day HAVING (local_day::timestamp AT TIME ZONE timezone) "
        "+ interval '24 hours' <> (local_day + 1)::timestamp AT TIME ZONE timezone",
    )

    assert {("US", "2026-03-08"), ("DE", "2026-03-29")} <= set(changed)


def test_every_month_has_equal_ledger_entries_that_concern_no_order(sandbox: Database) -> None:
    twice = rows(
        sandbox,
        "SELECT account, date_trunc('month', local_day) FROM seller.transactions WHERE order_id IS NULL "
        "GROUP BY account, date_trunc('month', local_day), posted_date, description, amount HAVING count(*) = 2",
    )

    assert len(twice) == 3 * 4


def test_every_account_has_every_kind_of_ledger_entry(sandbox: Database) -> None:
    kinds = rows(sandbox, "SELECT account, transaction_type FROM seller.transactions GROUP BY 1, 2")

    assert Counter(kind for _, kind in kinds) == dict.fromkeys(
        ("Order", "Fee", "Refund", "Reimbursement", "Advertising", "Transfer"), 3
    )


def test_orders_have_every_state_in_every_channel(sandbox: Database) -> None:
    pairs = rows(sandbox, "SELECT DISTINCT order_status, sales_channel FROM seller.orders")

    assert set(pairs) == {
        (status, channel) for status in ("Shipped", "Pending", "Cancelled") for channel in SALES_CHANNEL.values
    }


def test_only_the_latest_orders_are_open(sandbox: Database) -> None:
    days = rows(sandbox, "SELECT min(local_day) FROM seller.orders WHERE order_status = 'Pending'")

    assert TODAY - timedelta(days=len(SETTLED_AFTER)) <= days[0][0] < TODAY - timedelta(days=4)


def test_orders_have_several_lines_and_units(sandbox: Database) -> None:
    lines = rows(sandbox, "SELECT count(*), max(quantity_ordered) FROM seller.orders GROUP BY platform_order_id")

    counts = Counter(row[0] for row in lines)
    assert counts[1] > counts[2] > counts[3] > 0
    assert max(row[1] for row in lines) > 3


def test_shipments_are_in_every_stage(sandbox: Database) -> None:
    statuses = rows(sandbox, "SELECT DISTINCT status FROM seller.inbound_shipments")

    assert {row[0] for row in statuses} == set(STATUSES)


def test_every_account_has_every_type_of_notification(sandbox: Database) -> None:
    assert NOTIFICATIONS.split_by is not None
    lists = rows(sandbox, "SELECT account, type, bool_or(read) FROM seller.notifications GROUP BY 1, 2")

    assert Counter(row[1] for row in lists) == dict.fromkeys(NOTIFICATIONS.split_by.values, 3)


def test_some_lists_of_notifications_are_longer_than_a_page(sandbox: Database) -> None:
    longest = rows(sandbox, "SELECT count(*) FROM seller.notifications GROUP BY account, type ORDER BY 1 DESC LIMIT 1")

    assert longest[0][0] > (NOTIFICATIONS.fixed_page_size or 0)


def test_notifications_are_numbered_as_they_were_raised(sandbox: Database) -> None:
    unordered = rows(
        sandbox,
        "SELECT * FROM (SELECT created_at, lag(created_at) OVER (PARTITION BY account ORDER BY id) AS before "
        "FROM seller.notifications) n WHERE created_at < before",
    )

    assert unordered == []


def test_some_products_are_out_of_stock_and_most_are_not(sandbox: Database) -> None:
    shares = rows(
        sandbox, "SELECT count(*) FILTER (WHERE afn_fulfillable_quantity = 0), count(*) FROM seller.inventory"
    )

    out, all_of_them = shares[0]
    assert 0 < out < all_of_them / 4


def test_products_sell_unequally(sandbox: Database) -> None:
    shares = rows(
        sandbox,
        "SELECT sum(units) FILTER (WHERE rank <= 0.2), sum(units) FROM (SELECT sum(units_ordered) AS units, "
        "percent_rank() OVER (ORDER BY sum(units_ordered) DESC) AS rank FROM seller.daily_product_sales "
        "WHERE account LIKE '%US%' GROUP BY sku) s",
    )

    top, everything = shares[0]
    assert top > float(everything) * 0.45


def test_products_have_parents_variants_and_twins(sandbox: Database) -> None:
    families = rows(sandbox, "SELECT count(*) FROM service.products WHERE parent_asin IS NOT NULL GROUP BY parent_asin")
    alone = rows(sandbox, "SELECT count(*) FROM service.products WHERE parent_asin IS NULL")
    twins = rows(sandbox, "SELECT asin FROM service.products GROUP BY account, asin HAVING count(*) > 1")

    assert max(row[0] for row in families) > 3
    assert alone[0][0] != 0
    assert twins


def test_unusual_products_are_few_and_the_last() -> None:
    for size in (12, 50, 500):
        products = generate_catalogue(size, seed=1)
        unusual = unusual_products(products)

        assert len(products) == size
        assert 0 < unusual <= size / 6
        assert unusual_products(products[: size - unusual]) == 0


def test_november_and_december_sell_more_than_other_months(database: Database) -> None:
    load_sandbox(database, accounts=1, months=12, orders_per_month=600, today=TODAY)

    query = "SELECT extract(month FROM local_day)::int, count(*) FROM seller.orders GROUP BY 1"
    orders = dict(rows(database, query))

    assert sorted(orders, key=orders.__getitem__)[-2:] in ([11, 12], [12, 11])
    assert orders[11] > 1.3 * orders[9]


def test_net_margins_are_as_in_life(database: Database) -> None:
    report = load_sandbox(database, months=3, orders_per_month=900, today=TODAY)
    mart = next(each for each in MARTS if each.name == "product_performance_monthly")
    for account in report.accounts:
        build_partition(database, mart, account.key, Window.month_of(date(2026, 3, 1)))

    margins = rows(
        database,
        "SELECT sum(net_profit) / sum(product_sales) FROM marts.product_performance_monthly "
        "WHERE net_profit IS NOT NULL GROUP BY account, sku HAVING sum(product_sales) > 0",
    )

    shares = sorted(float(margin) for (margin,) in margins)
    assert 0.05 < shares[len(shares) // 2] < 0.25
    assert 0 < sum(share < 0 for share in shares) < len(shares) / 5


def test_a_sku_does_not_reveal_the_account(sandbox: Database) -> None:
    shared = rows(sandbox, "SELECT sku FROM seller.orders GROUP BY sku HAVING count(DISTINCT account) = 3")

    assert shared


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ("product_name", ("\t", "\n", "\r\n", '"', "'", "\\", ",", "🎉", "<b>", "%", "茶", "=HYPERLINK", "None")),
        ("sku", (" ", "/", "+", "&", "%", "#", "?", "=", "\\", "🎉", "ö")),
    ],
)
def test_products_with_difficult_names_and_skus_are_sold(
    sandbox: Database, column: str, texts: tuple[str, ...]
) -> None:
    for text in texts:
        assert rows(sandbox, f"SELECT FROM seller.orders WHERE strpos({column}, :text) > 0 LIMIT 1", text=text), text


def test_rows_say_that_no_load_brought_them(sandbox: Database) -> None:
    for dataset in KEYED:
        assert rows(sandbox, f"SELECT FROM {dataset.table} WHERE load_id <> 0 LIMIT 1") == []
