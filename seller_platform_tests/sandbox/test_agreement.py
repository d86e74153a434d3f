"""Tests that no rows of the sandbox contradict each other."""

from datetime import date, timedelta

import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.sandbox_tables import TODAY, rows

FIRST, YESTERDAY, RATES = date(2026, 1, 1), TODAY - timedelta(days=1), timedelta(days=7)

_SALES = """
    SELECT account, local_day, sku, sales_channel, sum(quantity_ordered) AS units, sum(order_total) AS total,
        min(asin) AS asin, min(product_name) AS product_name
    FROM seller.orders WHERE order_status <> 'Cancelled' GROUP BY 1, 2, 3, 4
"""
_PLATFORM = "FROM seller.orders o WHERE sales_channel = 'platform'"

DISAGREEMENTS = {
    "daily sales are the sums of the order lines that were not cancelled": f"""
        SELECT * FROM ({_SALES}) o FULL JOIN seller.daily_product_sales d
            ON (d.account, d.local_day, d.sku, d.sales_channel) = (o.account, o.local_day, o.sku, o.sales_channel)
        WHERE (o.units, o.total, o.asin, o.product_name, o.local_day) IS DISTINCT FROM
            (d.units_ordered, d.product_sales + d.taxes + d.shipping_credits - d.rebates, d.asin, d.product_name,
             d.date)
    """,
    "the local day of an order is its day in the account's zone": """
        SELECT * FROM seller.orders o JOIN seller.accounts a USING (account)
        WHERE (purchase_date AT TIME ZONE a.timezone)::date <> local_day
    """,
    "the local day of a ledger entry is its day in the account's zone": """
        SELECT * FROM seller.transactions t JOIN seller.accounts a USING (account)
        WHERE (posted_date AT TIME ZONE a.timezone)::date <> local_day
    """,
    "each shipped line of the marketplace is paid once, in full and later": f"""
        SELECT * FROM (SELECT * {_PLATFORM} AND order_status = 'Shipped') o
        FULL JOIN (SELECT * FROM seller.transactions WHERE transaction_type = 'Order') t
            ON (t.account, t.order_id, t.sku) = (o.account, o.platform_order_id, o.sku)
        WHERE (o.order_total, o.quantity_ordered, o.currency_code)
            IS DISTINCT FROM (t.amount, t.quantity, t.currency) OR t.posted_date <= o.purchase_date
    """,
    "orders that are not shipped, or not the marketplace's, have no entries": """
        SELECT * FROM seller.orders o JOIN seller.transactions t
            ON (t.account, t.order_id) = (o.account, o.platform_order_id)
        WHERE o.order_status <> 'Shipped' OR o.sales_channel <> 'platform'
    """,
    "fees, refunds, advertising and payouts are negative, payments and reimbursements positive": """
        SELECT * FROM seller.transactions
        WHERE (amount > 0) <> (transaction_type IN ('Order', 'Reimbursement')) OR amount = 0
    """,
    "a reimbursement comes after the refund and is less": """
        SELECT * FROM (SELECT * FROM seller.transactions WHERE transaction_type = 'Reimbursement') b
        LEFT JOIN (SELECT * FROM seller.transactions WHERE transaction_type = 'Refund') r
            USING (account, order_id, sku)
        WHERE r.amount IS NULL OR b.amount > -r.amount OR b.quantity <> r.quantity OR b.posted_date <= r.posted_date
    """,
    "a payout leaves no balance of the evening before": """
        SELECT p.account, p.local_day, p.amount, e.balance FROM (
            SELECT * FROM seller.transactions WHERE transaction_type = 'Transfer'
        ) p CROSS JOIN LATERAL (
            SELECT sum(amount) AS balance FROM seller.transactions
            WHERE account = p.account AND local_day < p.local_day
        ) e
        WHERE balance + p.amount <> 0
    """,
    "a refund comes after the payment and is not more": """
        SELECT * FROM (SELECT * FROM seller.transactions WHERE transaction_type = 'Refund') r
        LEFT JOIN (SELECT * FROM seller.transactions WHERE transaction_type = 'Order') o
            USING (account, order_id, sku)
        WHERE o.amount IS NULL OR -r.amount > o.amount OR r.quantity > o.quantity OR r.posted_date <= o.posted_date
    """,
    "a line is refunded once": """
        SELECT account, order_id, sku FROM seller.transactions WHERE transaction_type = 'Refund'
        GROUP BY 1, 2, 3 HAVING count(*) > 1
    """,
    "stock is what arrived, less what the marketplace sold": f"""
        SELECT * FROM (SELECT account, sum(afn_fulfillable_quantity) AS held FROM seller.inventory GROUP BY 1) i
        JOIN (SELECT account, sum(total_items) AS arrived FROM seller.inbound_shipments WHERE status = 'CLOSED'
            GROUP BY 1) s USING (account)
        JOIN (SELECT account, sum(quantity_ordered) AS sold {_PLATFORM} AND order_status <> 'Cancelled'
            GROUP BY 1) o USING (account)
        WHERE held <> arrived - sold
    """,
    "inbound units are those of the open shipments": """
        SELECT * FROM (SELECT account, sum(afn_inbound_quantity) AS inbound FROM seller.inventory GROUP BY 1) i
        LEFT JOIN (SELECT account, sum(total_items) AS open FROM seller.inbound_shipments WHERE status <> 'CLOSED'
            GROUP BY 1) s USING (account)
        WHERE inbound <> coalesce(open, 0)
    """,
    "reserved units are those of the marketplace's open orders": f"""
        SELECT * FROM seller.inventory i LEFT JOIN (
            SELECT account, sku, sum(quantity_ordered) AS open {_PLATFORM} AND order_status = 'Pending' GROUP BY 1, 2
        ) o USING (account, sku)
        WHERE afn_reserved_quantity <> coalesce(open, 0)
    """,
    "the parts of the stock are its total, and none is negative": """
        SELECT * FROM seller.inventory
        WHERE afn_total_quantity <> afn_fulfillable_quantity + afn_reserved_quantity + afn_inbound_quantity
            OR least(afn_fulfillable_quantity, afn_reserved_quantity, afn_inbound_quantity) < 0
    """,
    "every row of sales is of a known product under its own name": """
        SELECT o.* FROM (
            SELECT account, sku, asin, product_name FROM seller.orders
            UNION SELECT account, sku, asin, product_name FROM seller.daily_product_sales
            UNION SELECT account, sku, asin, product_name FROM seller.inventory
        ) o LEFT JOIN service.products p USING (account, sku)
        WHERE (p.asin, p.product_name) IS DISTINCT FROM (o.asin, o.product_name)
    """,
    "every product is in the inventory": """
        SELECT * FROM service.products p FULL JOIN seller.inventory i USING (account, sku)
        WHERE p.asin IS DISTINCT FROM i.asin
    """,
    "amounts are in the account's currency and name its marketplace": """
        SELECT o.account FROM seller.orders o JOIN seller.accounts a USING (account)
        WHERE o.currency_code <> a.currency_code
        UNION ALL SELECT t.account FROM seller.transactions t JOIN seller.accounts a USING (account)
        WHERE t.currency <> a.currency_code OR t.marketplace_name NOT LIKE lower(a.country_code) || '.%'
    """,
    "all money has two decimals": """
        SELECT order_total FROM seller.orders WHERE scale(order_total) <> 2
        UNION ALL SELECT product_sales FROM seller.daily_product_sales
            WHERE (scale(product_sales), scale(taxes), scale(shipping_credits), scale(rebates)) <> (2, 2, 2, 2)
        UNION ALL SELECT amount FROM seller.transactions WHERE scale(amount) <> 2
    """,
    "sales and ledger end yesterday and begin with the first month": """
        SELECT local_day FROM seller.orders WHERE local_day NOT BETWEEN '2026-01-01' AND '2026-04-14'
        UNION ALL SELECT local_day FROM seller.transactions WHERE local_day NOT BETWEEN '2026-01-01' AND '2026-04-14'
    """,
    "cost periods of a product neither overlap nor leave gaps, and cover the sales": """
        SELECT * FROM (
            SELECT *, lead(from_date) OVER (PARTITION BY account, sku ORDER BY from_date) AS next,
                lag(to_date) OVER (PARTITION BY account, sku ORDER BY from_date) AS previous
            FROM seller.cost_periods
        ) c
        WHERE from_date > to_date OR next <> to_date + 1 OR (next IS NULL AND to_date <= '2026-04-15')
            OR (previous IS NULL AND from_date > '2026-01-01')
    """,
    "cost elements are complete, in the account's currency, and less than the price": """
        SELECT * FROM seller.cost_periods c JOIN seller.accounts a USING (account)
            JOIN service.products p USING (account, sku), jsonb_to_recordset(cost_elements)
            AS e(cost_element text, amount numeric, currency text, provider text, notes text)
        WHERE e.amount <= 0 OR scale(e.amount) <> 2 OR e.amount >= p.buybox_price OR e.currency <> a.currency_code
            OR e.cost_element IS NULL OR e.provider IS NULL OR e.notes IS NULL
    """,
    "every day of the sales has a rate of every currency": """
        SELECT * FROM generate_series(date '2025-12-25', date '2026-04-15', interval '1 day') AS d(day)
            CROSS JOIN (SELECT currency_code AS currency FROM seller.accounts
                UNION VALUES ('USD'), ('EUR'), ('GBP'), ('JPY')) c
            LEFT JOIN service.exchange_rates r USING (day, currency)
        WHERE per_euro IS NULL OR per_euro <= 0 OR (currency = 'EUR' AND per_euro <> 1)
    """,
}


@pytest.mark.parametrize("query", DISAGREEMENTS.values(), ids=list(DISAGREEMENTS))
def test_nothing_disagrees(sandbox: Database, query: str) -> None:
    assert rows(sandbox, query)[:3] == []
