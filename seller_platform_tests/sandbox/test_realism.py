"""Tests that the sandbox has the variety of real accounts, and difficult values."""

from datetime import date

import pytest

from seller_platform.contract import DATASETS, Dataset, Window
from seller_platform.sandbox.catalogue import generate_catalogue, unusual_products
from seller_platform.sandbox.load import load_sandbox
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.sandbox_tables import TABLES, TODAY, rows
from seller_platform_tests.support.stored_rows import connect_accounts

KEYED = [dataset for dataset in DATASETS if dataset.table in TABLES and dataset.key]


# What a sandbox of four months has, as a condition of its rows.
TRUE_TO_LIFE = {
    "order lines are unique in both channels together": """
        SELECT count(DISTINCT (platform_order_id, purchase_date, sku)) = count(*) FROM seller.orders
    """,
    "there are three accounts of different size, zone and currency": """
        SELECT (count(DISTINCT timezone), count(DISTINCT currency), min(lines) BETWEEN 100 AND 1000,
                sum(lines) BETWEEN 8000 AND 15000) = (3, 3, true, true)
        FROM (SELECT timezone, a.currency_code AS currency, count(*) AS lines
              FROM seller.accounts a JOIN seller.orders USING (account) GROUP BY 1, 2) accounts
    """,
    "orders are placed in both offsets of each zone": """
        SELECT array_agg(offsets) = ARRAY[2, 2, 2]::bigint[] FROM (
            SELECT count(DISTINCT purchase_date AT TIME ZONE timezone - purchase_date AT TIME ZONE 'UTC') AS offsets
            FROM seller.orders JOIN seller.accounts USING (account) GROUP BY timezone) zones
    """,
    "orders are placed on the days when clocks change": """
        SELECT array_agg(country_code || local_day) @> ARRAY['US2026-03-08', 'DE2026-03-29'] FROM (
            SELECT country_code, local_day FROM seller.orders JOIN seller.accounts USING (account)
            GROUP BY country_code, timezone, local_day
            HAVING (local_day::timestamp AT TIME ZONE timezone) + interval '24 hours'
                <> (local_day + 1)::timestamp AT TIME ZONE timezone) days
    """,
    "every month has equal ledger entries that concern no order": """
        SELECT count(*) = 3 * 4 FROM (
            SELECT FROM seller.transactions WHERE order_id IS NULL
            GROUP BY account, date_trunc('month', local_day), posted_date, description, amount
            HAVING count(*) = 2) twice
    """,
    "every account has every kind of ledger entry": """
        SELECT count(DISTINCT (account, transaction_type)) = 3 * 6 AND count(DISTINCT transaction_type) = 6
        FROM seller.transactions
        WHERE transaction_type IN ('Order', 'Fee', 'Refund', 'Reimbursement', 'Advertising', 'Transfer')
    """,
    "orders have every state in every channel": """
        SELECT count(DISTINCT (order_status, sales_channel)) = 3 * 2 AND count(DISTINCT sales_channel) = 2
        FROM seller.orders WHERE order_status IN ('Shipped', 'Pending', 'Cancelled')
    """,
    "orders have several lines and units": """
        SELECT count(*) FILTER (WHERE lines = 1) > count(*) FILTER (WHERE lines = 2)
            AND count(*) FILTER (WHERE lines = 2) > count(*) FILTER (WHERE lines = 3)
            AND count(*) FILTER (WHERE lines = 3) > 0 AND max(units) > 3
        FROM (SELECT count(*) AS lines, max(quantity_ordered) AS units FROM seller.orders
              GROUP BY platform_order_id) orders
    """,
    "every account has every type of notification, and a list is longer than a page": """
        SELECT count(*) = 3 * 3 AND max(alerts) > 100
        FROM (SELECT count(*) AS alerts FROM seller.notifications GROUP BY account, type) lists
    """,
    "notifications are numbered as they were raised": """
        SELECT bool_and(created_at >= coalesce(before, created_at)) FROM (
            SELECT created_at, lag(created_at) OVER (PARTITION BY account ORDER BY id) AS before
            FROM seller.notifications) numbered
    """,
    "some products are out of stock and most are not": """
        SELECT count(*) FILTER (WHERE afn_fulfillable_quantity = 0) BETWEEN 1 AND count(*) / 4 FROM seller.inventory
    """,
    "products sell unequally": """
        SELECT sum(units) FILTER (WHERE rank <= 0.2) > 0.45 * sum(units) FROM (
            SELECT sum(units_ordered) AS units, percent_rank() OVER (ORDER BY sum(units_ordered) DESC) AS rank
            FROM seller.daily_product_sales WHERE account = 'us-1001' GROUP BY sku) products
    """,
    "products have parents, variants and twins": """
        SELECT (SELECT max(variants) FROM (SELECT count(*) AS variants FROM service.products
                WHERE parent_asin IS NOT NULL GROUP BY parent_asin) families) > 3
            AND EXISTS (SELECT FROM service.products WHERE parent_asin IS NULL)
            AND EXISTS (SELECT FROM service.products GROUP BY account, asin HAVING count(*) > 1)
    """,
    "a SKU does not reveal the account": """
        SELECT EXISTS (SELECT FROM seller.orders GROUP BY sku HAVING count(DISTINCT account) = 3)
    """,
}


@pytest.mark.parametrize("query", TRUE_TO_LIFE.values(), ids=list(TRUE_TO_LIFE))
def test_a_sandbox_is_true_to_life(sandbox: Database, query: str) -> None:
    assert rows(sandbox, query) == [(True,)]


@pytest.mark.parametrize("dataset", KEYED, ids=lambda dataset: dataset.name)
def test_keys_are_unique_in_an_account_and_no_load_brought_the_rows(sandbox: Database, dataset: Dataset) -> None:
    key = ", ".join(["account", *dataset.key, *(tag.name for tag in dataset.tags)])

    assert rows(sandbox, f"SELECT {key} FROM {dataset.table} GROUP BY {key} HAVING count(*) > 1") == []
    assert rows(sandbox, f"SELECT FROM {dataset.table} WHERE load_id <> 0 LIMIT 1") == []


def test_unusual_products_are_few_and_the_last() -> None:
    for size in (12, 50, 500):
        products = generate_catalogue(size, seed=1)
        unusual = unusual_products(products)

        assert len(products) == size
        assert 0 < unusual <= size / 6
        assert unusual_products(products[: size - unusual]) == 0


@pytest.mark.nightly
def test_november_and_december_sell_more_than_other_months(database: Database) -> None:
    load_sandbox(database, accounts=1, months=12, orders_per_month=600, today=TODAY)

    query = "SELECT extract(month FROM local_day)::int, count(*) FROM seller.orders GROUP BY 1"
    orders = dict(rows(database, query))

    assert sorted(orders, key=orders.__getitem__)[-2:] in ([11, 12], [12, 11])
    assert orders[11] > 1.3 * orders[9]


def test_net_margins_are_as_in_life(database: Database) -> None:
    report = load_sandbox(database, months=3, orders_per_month=900, today=TODAY)
    mart = next(each for each in MARTS if each.name == "product_performance_monthly")
    connect_accounts(database, [(account.key, account) for account in report.accounts])
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


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ("product_name", ("\t", "\n", "\r\n", '"', "'", "\\", ",", "🎉", "<b>", "%", "茶", "=HYPERLINK", "None")),
        ("sku", (" ", "/", "+", "&", "%", "#", "?", "=", "\\", "🎉", "ö")),
    ],
)
def test_products_with_difficult_names_or_skus_are_sold(sandbox: Database, column: str, texts: tuple[str, ...]) -> None:
    for text in texts:
        assert rows(sandbox, f"SELECT FROM seller.orders WHERE strpos({column}, :text) > 0 LIMIT 1", text=text), text
