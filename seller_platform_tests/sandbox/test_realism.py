"""Tests that the sandbox has the variety of real accounts, and difficult values."""

import pytest

from seller_platform.contract import DATASETS, Dataset
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.sandbox_tables import TABLES, rows

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
    "every account has every type of notification, and a list is longer than a page": """
        SELECT count(*) = 3 * 3 AND max(alerts) > 100
        FROM (SELECT count(*) AS alerts FROM seller.notifications GROUP BY account, type) lists
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
