"""Differences between orders, daily sales, ledger, payouts and statistics of a day."""

from dataclasses import replace

from psycopg import sql

from seller_platform.contract import Kind
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, ORDERS, SALES_BY_DATE, TRANSACTIONS
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.marts import columns
from seller_platform.marts.common_queries import OWN_CURRENCY, is_loaded
from seller_platform.marts.rules.formulas import PAYOUTS, STANDARD
from seller_platform.warehouse.derived.declaration import Chart, Input, Mart, MartCheck, MartColumn, MartParameter

_OF_ORDERS = ("orders.order_total", "orders.order_status", "orders.currency_code", "orders.purchase_date")
_OF_SALES = tuple(
    f"daily_product_sales.{name}" for name in ("product_sales", "taxes", "shipping_credits", "rebates", "date")
)
_OF_EXPECTED = (*_OF_ORDERS, *_OF_SALES, *columns.OF_LEDGER)
_OF_FOUND = (
    *_OF_SALES,
    *columns.OF_LEDGER,
    "transactions.order_id",
    "sales_by_date.product_sales",
    "sales_by_date.platform_fees",
)
_OF_BOTH = tuple(dict.fromkeys((*_OF_EXPECTED, *_OF_FOUND)))
_PAYOUTS = {"line": STANDARD.line_of_entry, "payouts": sql.Literal(PAYOUTS)}

_QUERY = """
WITH {own},
lines AS MATERIALIZED (
    SELECT stored.local_day, coalesce(stored.currency_code, own.currency) AS currency, stored.platform_order_id,
           sum(coalesce(stored.order_total, 0)) AS total,
           sum(coalesce(stored.order_total, 0)) FILTER (
               WHERE coalesce(stored.sales_channel, 'platform') <> 'platform' OR stored.order_status <> 'Shipped'
           ) AS not_due
    FROM seller.orders AS stored CROSS JOIN own
    WHERE stored.account = %(account)s AND stored.local_day >= %(first_day)s AND stored.local_day < %(end_day)s
      AND coalesce(stored.order_status, '') NOT IN ('Cancelled', 'Canceled')
    GROUP BY 1, 2, 3
),
payments AS MATERIALIZED (
    SELECT stored.order_id, coalesce(stored.currency, own.currency) AS currency, sum(stored.amount) AS amount
    FROM seller.transactions AS stored CROSS JOIN own
    WHERE stored.account = %(account)s AND stored.local_day >= %(first_day)s
      AND stored.local_day < (%(end_day)s::date + interval '2 months')::date
      AND stored.transaction_type = 'Order' AND stored.order_id IS NOT NULL
    GROUP BY 1, 2
),
known AS MATERIALIZED (
    -- The months of the ledger around this one, up to the next that was never loaded.
    SELECT count(*) FILTER (WHERE month = %(first_day)s) = 0 AS has_ledger,
           coalesce(max(month) FILTER (WHERE month < %(first_day)s) + interval '1 month',
                    %(first_day)s::date - interval '2 months')::date AS first_day,
           coalesce(min(month) FILTER (WHERE month >= %(first_day)s),
                    %(end_day)s::date + interval '2 months')::date AS end_day,
           {has_statistics} AS has_statistics
    FROM generate_series(%(first_day)s::date - interval '2 months', %(first_day)s::date + interval '2 months',
                         interval '1 month') AS listed (month)
    WHERE NOT {has_ledger}
),
ledger_end AS MATERIALIZED (
    -- How far the ledger tells: what was ordered shortly before may be paid for after.
    SELECT coalesce(max(local_day), %(first_day)s::date - 1) AS last_day
    FROM seller.transactions CROSS JOIN known
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < known.end_day
),
ordered AS (
    SELECT lines.local_day, lines.currency, sum(lines.total) AS total, coalesce(sum(payments.amount), 0) AS paid,
           -sum(least(
               CASE WHEN lines.local_day > ledger_end.last_day - %(settlement_days)s::integer THEN lines.total
                    ELSE coalesce(lines.not_due, 0) END,
               greatest(lines.total - coalesce(payments.amount, 0), 0)
           )) AS not_due
    FROM lines
    CROSS JOIN ledger_end
    LEFT JOIN payments ON payments.order_id = lines.platform_order_id AND payments.currency = lines.currency
    GROUP BY 1, 2
),
sold AS (
    SELECT stored.local_day, own.currency, sum(coalesce(product_sales, 0)) AS sales,
           sum(coalesce(product_sales, 0) + coalesce(taxes, 0) + coalesce(shipping_credits, 0) - coalesce(rebates, 0))
               AS total
    FROM seller.daily_product_sales AS stored CROSS JOIN own
    WHERE stored.account = %(account)s AND stored.local_day >= %(first_day)s AND stored.local_day < %(end_day)s
    GROUP BY 1, 2
),
charged AS (
    SELECT stored.local_day, own.currency, -sum(stored.amount) FILTER (
               WHERE coalesce(stored.currency, own.currency) = own.currency) AS fees,
           bool_or(coalesce(stored.currency, own.currency) <> own.currency) AS is_mixed
    FROM seller.transactions AS stored CROSS JOIN own
    WHERE stored.account = %(account)s AND stored.local_day >= %(first_day)s AND stored.local_day < %(end_day)s
      AND stored.transaction_type = 'Fee' AND stored.amount IS NOT NULL
    GROUP BY 1, 2
),
statistics AS MATERIALIZED (
    SELECT stored.local_day, own.currency, sum(product_sales) AS sales, sum(platform_fees) AS fees
    FROM seller.sales_by_date AS stored CROSS JOIN own
    WHERE stored.account = %(account)s AND stored.local_day >= %(first_day)s AND stored.local_day < %(end_day)s
    GROUP BY 1, 2
),
entries AS MATERIALIZED (
    SELECT stored.local_day, stored.posted_date, coalesce(stored.currency, own.currency) AS currency, stored.amount,
           {line} = {payouts} AS is_payout
    FROM seller.transactions AS stored CROSS JOIN own CROSS JOIN known
    WHERE stored.account = %(account)s AND stored.local_day >= known.first_day
      AND stored.local_day < known.end_day AND stored.amount IS NOT NULL
),
payouts AS MATERIALIZED (
    SELECT local_day, currency, max(posted_date) AS moment, -sum(amount) AS amount
    FROM entries
    WHERE is_payout
    GROUP BY local_day, currency
),
earnings AS MATERIALIZED (
    -- In days since the month began; half a day later for what was posted after the payout of its day.
    SELECT entries.local_day - %(first_day)s::date + CASE WHEN posted_date > moment THEN 0.5 ELSE 0 END AS position,
           currency, sum(entries.amount) AS amount
    FROM entries LEFT JOIN payouts USING (local_day, currency)
    WHERE NOT is_payout
    GROUP BY 1, 2
),
periods AS (
    SELECT local_day, currency, amount, false AS is_open,
           lag(local_day) OVER (PARTITION BY currency ORDER BY local_day) AS previous_day
    FROM payouts
    UNION ALL
    SELECT ledger_end.last_day, currency, 0, true, max(local_day)
    FROM payouts CROSS JOIN ledger_end
    GROUP BY ledger_end.last_day, currency
    HAVING max(local_day) < ledger_end.last_day
),
earned AS (
    -- What was posted between two payouts; and between the same numbers of days before them, for a payout pays what was
    -- posted until its period closed.
    SELECT periods.*, closing.days, CASE WHEN previous_day IS NOT NULL THEN coalesce((
               SELECT sum(earnings.amount)
               FROM earnings
               WHERE earnings.currency = periods.currency
                 AND position > previous_day - %(first_day)s::date - closing.days
                                + CASE WHEN closing.days = 0 THEN 0.25 ELSE 0.75 END
                 AND position <= local_day - %(first_day)s::date - closing.days
                                 + CASE WHEN closing.days = 0 AND NOT is_open THEN 0.25 ELSE 0.75 END
           ), 0) END AS earned
    FROM periods
    CROSS JOIN generate_series(0, %(closing_days)s::integer) AS closing (days)
    WHERE local_day >= %(first_day)s AND local_day < %(end_day)s AND (closing.days = 0 OR NOT is_open)
),
closed AS (
    SELECT DISTINCT ON (local_day, currency) local_day, currency, earned
    FROM earned
    ORDER BY local_day, currency, abs(amount - earned), days
),
settled AS (
    SELECT local_day, currency, whole.earned, whole.amount,
           CASE WHEN NOT is_open THEN closed.earned - whole.earned
                WHEN whole.earned < 0 OR local_day - previous_day <= %(payout_days)s::integer THEN -whole.earned
                ELSE 0 END AS carried_over
    FROM earned AS whole JOIN closed USING (local_day, currency)
    WHERE whole.days = 0
),
compared AS (
    SELECT local_day, currency, 'orders and daily sales' AS comparison, coalesce(ordered.total, 0) AS expected,
           coalesce(sold.total, 0) AS found, 0 AS explained, true AS is_loaded
    FROM ordered FULL JOIN sold USING (local_day, currency)
    UNION ALL
    SELECT local_day, currency, 'orders and payments', total, CASE WHEN has_ledger THEN paid END,
           coalesce(not_due, 0), has_ledger
    FROM ordered CROSS JOIN known
    UNION ALL
    SELECT local_day, currency, 'daily sales and statistics', coalesce(sold.sales, 0),
           CASE WHEN has_statistics THEN coalesce(statistics.sales, 0) END, 0, has_statistics
    FROM sold FULL JOIN statistics USING (local_day, currency) CROSS JOIN known
    UNION ALL
    SELECT local_day, currency, 'fees and statistics',
           CASE WHEN has_ledger AND NOT coalesce(charged.is_mixed, false) THEN coalesce(charged.fees, 0) END,
           CASE WHEN has_statistics THEN coalesce(statistics.fees, 0) END, 0, has_ledger AND has_statistics
    FROM charged FULL JOIN statistics USING (local_day, currency) CROSS JOIN known
    UNION ALL
    SELECT local_day, currency, 'earnings and payouts', earned, amount, coalesce(carried_over, 0), true FROM settled
),
measured AS (
    SELECT *, found - expected AS difference, found - expected - explained AS unexplained,
           greatest(0.01, round(greatest(abs(expected), abs(found)) * %(tolerance_basis_points)s::integer / 10000, 2))
               AS tolerance
    FROM compared
)
SELECT local_day, currency, comparison, expected, found, difference,
       CASE WHEN difference IS NOT NULL THEN explained END, unexplained, tolerance,
       CASE WHEN NOT is_loaded THEN 'not loaded'
            WHEN difference IS NULL THEN 'not comparable'
            WHEN difference = 0 THEN 'equal'
            WHEN abs(unexplained) <= tolerance THEN 'explained'
            ELSE 'unexplained' END
FROM measured
"""

_SUMS = """
SELECT * FROM (
    SELECT sum(expected) FILTER (WHERE comparison = 'orders and daily sales') AS orders,
           sum(expected) FILTER (WHERE comparison = 'orders and payments') AS orders_to_pay,
           sum(found) FILTER (WHERE comparison = 'orders and daily sales') AS daily_sales,
           sum(found) FILTER (WHERE comparison = 'earnings and payouts') AS paid_out
    FROM marts.settlement_reconciliation
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
) AS here
CROSS JOIN (
    SELECT sum(order_total) AS orders_of_input
    FROM seller.orders
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
      AND coalesce(order_status, '') NOT IN ('Cancelled', 'Canceled')
) AS ordered
CROSS JOIN (
    SELECT coalesce(sum(product_sales), 0) + coalesce(sum(taxes), 0) + coalesce(sum(shipping_credits), 0)
           - coalesce(sum(rebates), 0) AS daily_sales_of_input
    FROM seller.daily_product_sales
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
) AS sold
CROSS JOIN (
    SELECT -sum(amount) AS paid_out_of_input
    FROM seller.transactions
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s AND {line} = {payouts}
) AS ledger
WHERE (coalesce(orders, 0), coalesce(orders_to_pay, 0), coalesce(daily_sales, 0), coalesce(paid_out, 0))
   <> (coalesce(orders_of_input, 0), coalesce(orders_of_input, 0), daily_sales_of_input,
       coalesce(paid_out_of_input, 0))
"""

_IMPOSSIBLE = """
SELECT local_day, currency, comparison, expected, found, difference, explained, unexplained, verdict
FROM marts.settlement_reconciliation
WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
  AND ((difference, unexplained) IS DISTINCT FROM (found - expected, found - expected - explained)
       OR tolerance <= 0 OR (verdict LIKE 'not %%') <> (difference IS NULL))
"""

_UNEXPLAINED = """
SELECT local_day, currency, comparison, expected, found, unexplained, tolerance
FROM marts.settlement_reconciliation
WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s AND verdict = 'unexplained'
ORDER BY abs(unexplained) DESC, local_day, comparison
"""

_CHART = """
SELECT local_day AS label, currency, expected AS "Ordered", found AS "Paid by the ledger"
FROM marts.settlement_reconciliation
WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
  AND comparison = 'orders and payments'
ORDER BY local_day
"""

SETTLEMENT_RECONCILIATION = Mart(
    name="settlement_reconciliation",
    doc="What two sources say of the same amount of one day, in one currency, and whether what differs is explained.",
    day="local_day",
    columns=(
        MartColumn(
            "local_day",
            Kind.DATE,
            "The day, in the account's time zone: of the order, for what was sold and paid; of the posting, for fees; "
            "of the payout. What is not paid out yet has the last day of the ledger.",
            ("orders.purchase_date", "daily_product_sales.date", "transactions.posted_date", "sales_by_date.date"),
            key=True,
        ),
        replace(columns.CURRENCY, of=("accounts.currency_code", "orders.currency_code", "transactions.currency")),
        MartColumn(
            "comparison",
            Kind.TEXT,
            "`orders and daily sales` (totals of order lines that are not cancelled; product sales, taxes and shipping "
            "less rebates), `orders and payments` (the same totals; what the ledger paid for these orders within two "
            "months), `daily sales and statistics` (product sales), `fees and statistics` (platform fees), or "
            "`earnings and payouts` (all entries of the ledger between two payouts; the second payout).",
            key=True,
        ),
        columns.nullable(
            "expected",
            Kind.MONEY,
            "What the first source says; null where it is not loaded or in another currency, and of the first payout.",
            _OF_EXPECTED,
        ),
        columns.nullable("found", Kind.MONEY, "What the second source says; null where it is not loaded.", _OF_FOUND),
        columns.nullable("difference", Kind.MONEY, "`found - expected`.", _OF_BOTH),
        columns.nullable(
            "explained",
            Kind.MONEY,
            "The part of the difference that is as it should be: orders outside the marketplace, orders that are not "
            "shipped, and orders so new that the ledger as it is loaded may not know their payment. Of payouts, the "
            "balance carried over: what was posted after the period of the payout had closed, less the same of the "
            "payout before; and what is not paid out yet.",
            (*_OF_ORDERS, "orders.sales_channel", "transactions.posted_date", *columns.OF_LINES),
        ),
        columns.nullable("unexplained", Kind.MONEY, "`difference - explained`.", _OF_BOTH),
        MartColumn(
            "tolerance",
            Kind.MONEY,
            "What may stay unexplained: 0.1 percent of the larger amount (a parameter), and at least 0.01.",
            _OF_BOTH,
        ),
        MartColumn(
            "verdict",
            Kind.TEXT,
            "`equal`, `explained` (what stays unexplained is within the tolerance), `unexplained`, `not loaded` (a "
            "list of the month was never loaded), or `not comparable` (one side is null for another reason).",
            _OF_BOTH,
        ),
    ),
    inputs=(
        Input(ORDERS),
        Input(DAILY_PRODUCT_SALES),
        Input(TRANSACTIONS, required=False, months_before=2, months_after=2),
        Input(SALES_BY_DATE, required=False),
        Input(ACCOUNTS, required=False),
    ),
    parameters=(
        MartParameter("tolerance_basis_points", 10, "Hundredths of a percent that may stay unexplained."),
        MartParameter("settlement_days", 21, "Days from an order until the ledger should have paid for it."),
        MartParameter("closing_days", 7, "Days before a payout within which its period closes.", maximum=28),
        MartParameter("payout_days", 31, "Days from a payout until the next one should have come."),
    ),
    query=sql.SQL(_QUERY).format(
        own=OWN_CURRENCY,
        has_ledger=is_loaded(TRANSACTIONS, "listed.month"),
        has_statistics=is_loaded(SALES_BY_DATE, "%(first_day)s"),
        **_PAYOUTS,
    ),
    checks=(
        MartCheck(
            "sums_agree_with_the_inputs",
            "Orders add up to seller.orders without those cancelled, daily sales to seller.daily_product_sales, "
            "payouts to those of seller.transactions.",
            sql.SQL(_SUMS).format(**_PAYOUTS),
        ),
        MartCheck(
            "values_are_possible", "Differences and verdicts follow from the amounts beside them.", sql.SQL(_IMPOSSIBLE)
        ),
        MartCheck(
            "everything_is_explained",
            "The sources agree, but for what is explained and the tolerance.",
            sql.SQL(_UNEXPLAINED),
            is_warning=True,
        ),
    ),
    chart=Chart(
        "lines",
        "Ordered, and paid by the ledger, by day of the order",
        "{currency} per day",
        sql.SQL(_CHART),
        "Nothing was ordered.",
    ),
)
