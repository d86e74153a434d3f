"""Profit and net profit of a month, line by line, by the standard formula and by one's own."""

from dataclasses import replace

from psycopg import sql

from seller_platform.contract import Kind
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS
from seller_platform.marts import columns
from seller_platform.marts.common_queries import COST_INPUTS, FIGURES, MONTH_COSTED
from seller_platform.marts.rules.formulas import STANDARD, Formula
from seller_platform.warehouse.derived.declaration import Chart, Input, Mart, MartCheck, MartColumn

# Entries are summed by kind before they are placed: a ledger has few kinds, but the formulas may have many lines.
_QUERY = """
WITH {costed},
places (formula, place, line, part) AS (VALUES {places}),
kinds AS MATERIALIZED (
    SELECT coalesce(stored.currency, own.currency) AS currency, stored.transaction_type, stored.description,
           count(*) AS entries, coalesce(sum(stored.amount), 0) AS amount
    FROM seller.transactions AS stored CROSS JOIN own
    WHERE stored.account = %(account)s AND stored.local_day >= %(first_day)s AND stored.local_day < %(end_day)s
    GROUP BY 1, 2, 3
),
figures AS MATERIALIZED (
    SELECT own.currency, {figures} FROM costed CROSS JOIN own GROUP BY own.currency
),
beside AS (
    SELECT figures.currency, listed.line, listed.amount
    FROM figures
    CROSS JOIN LATERAL (
        VALUES ('product_sales', sales), ('taxes', taxes), ('shipping_credits', shipping_credits),
               ('rebates', -rebates),
               ('product_cost', -CASE WHEN units_without_cost = 0 THEN coalesce(known_cost, 0) ELSE known_cost END)
    ) AS listed (line, amount)
),
placed AS (
    SELECT *, row_number() OVER (
        PARTITION BY formula, line, currency ORDER BY entries DESC, transaction_type, description
    ) AS position
    FROM ({placed}) AS placed
),
summed AS (
    SELECT formula, currency, line, sum(amount) AS amount, sum(entries)::bigint AS entries,
           string_agg(concat_ws(': ', coalesce(transaction_type, 'no type'), description), chr(10) ORDER BY position)
               FILTER (WHERE position <= 20) AS kinds
    FROM placed
    GROUP BY formula, currency, line
    UNION ALL
    SELECT places.formula, beside.currency, beside.line, beside.amount, 0, NULL
    FROM beside JOIN places USING (line)
)
SELECT %(first_day)s::date, currency, formula, line, place, part, amount, entries, kinds
FROM summed
JOIN places USING (formula, line)
"""

_PLACED = """
    SELECT {formula} AS formula, {line} AS line, kinds.* FROM kinds"""

_SUMS = """
SELECT * FROM (
    SELECT formulas.formula, coalesce(sum(bridge.amount), 0) AS amount, coalesce(sum(bridge.entries), 0) AS entries
    FROM (VALUES {formulas}) AS formulas (formula)
    LEFT JOIN marts.profit_bridge_monthly AS bridge
      ON bridge.formula = formulas.formula AND bridge.line <> ALL(ARRAY[{beside}])
     AND bridge.account = %(account)s AND bridge.month >= %(first_day)s AND bridge.month < %(end_day)s
    GROUP BY formulas.formula
) AS here
CROSS JOIN (
    SELECT coalesce(sum(amount), 0) AS amount_of_input, count(*) AS entries_of_input
    FROM seller.transactions
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
) AS ledger
WHERE (amount, entries) <> (amount_of_input, entries_of_input)
"""

# Profit and net profit of the standard formula, computed without it.
_IMPOSSIBLE = """
WITH {costed},
here AS (
    SELECT sum(amount) FILTER (WHERE part = 'profit') AS profit, sum(amount) FILTER (WHERE part = 'step') AS steps
    FROM marts.profit_bridge_monthly
    WHERE account = %(account)s AND month >= %(first_day)s AND month < %(end_day)s AND formula = {standard}
),
margins AS (
    SELECT coalesce(sum(sales), 0) - coalesce(sum(units * unit_cost), 0) AS margin,
           coalesce(sum(shipping_credits - rebates), 0) AS others
    FROM costed
),
charged AS (
    SELECT coalesce(sum(amount) FILTER (WHERE transaction_type = 'Fee'), 0) AS fees,
           coalesce(sum(amount) FILTER (
               WHERE coalesce(transaction_type, '') NOT IN ('Fee', 'Order')
                 AND coalesce(transaction_type, '') !~ '^(Transfer|Payout|Disbursement)'
           ), 0) AS counted
    FROM seller.transactions
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
)
SELECT 'profit' AS figure, profit AS found, margin + fees AS expected
FROM here CROSS JOIN margins CROSS JOIN charged
WHERE coalesce(profit, 0) <> margin + fees
UNION ALL
SELECT 'steps', steps, others + counted FROM here CROSS JOIN margins CROSS JOIN charged
WHERE coalesce(steps, 0) <> others + counted
"""

_UNNAMED = """
SELECT formula, currency, amount, entries, kinds
FROM marts.profit_bridge_monthly
WHERE account = %(account)s AND month >= %(first_day)s AND month < %(end_day)s AND line = 'other'
"""

_CHART = """
SELECT line AS label, currency, amount AS "Amount"
FROM marts.profit_bridge_monthly
WHERE account = %(account)s AND month >= %(first_day)s AND month < %(end_day)s AND formula = {formula}
  AND part <> 'not counted'
ORDER BY place
"""

_OF_AMOUNT = (*columns.OF_NET_PROFIT, "daily_product_sales.taxes")

_COLUMNS = (
    replace(columns.MONTH, of=("daily_product_sales.date", "transactions.posted_date")),
    columns.CURRENCY,
    MartColumn(
        "formula", Kind.TEXT, "`standard`, or the name in the file of SELLER_PLATFORM_PROFIT_FORMULA.", key=True
    ),
    MartColumn(
        "line",
        Kind.TEXT,
        "The line: entries of the ledger by type and description, or an amount beside the ledger (`product_sales`, "
        "`product_cost`, `shipping_credits`, `rebates`, `taxes`). `other` has the entries that no line names.",
        columns.OF_LINES,
        key=True,
    ),
    MartColumn("place", Kind.INTEGER, "Place of the line in its formula, from 1."),
    MartColumn(
        "part",
        Kind.TEXT,
        "Of the standard formula: `profit` (a part of profit, as the API computes it), `step` (between profit and "
        "net profit) or `not counted`; of one's own: `counted` or `not counted`.",
    ),
    columns.nullable(
        "amount",
        Kind.MONEY,
        "The sum of the line, negative where it lowers the profit; null for `product_cost` where no unit sold has "
        "a cost.",
        _OF_AMOUNT,
    ),
    MartColumn("entries", Kind.INTEGER, "Entries of the ledger; 0 for an amount beside it.", columns.OF_LINES),
    columns.nullable(
        "kinds",
        Kind.TEXT,
        "Types and descriptions of these entries, one a line, the 20 most frequent; null beside the ledger.",
        columns.OF_LINES,
    ),
)


def bridge_of(*formulas: Formula) -> Mart:
    """Return the mart with the lines of these formulas; its version changes with them."""
    names = sql.SQL(", ").join(sql.SQL("({})").format(sql.Literal(each.name)) for each in formulas)
    placed = sql.SQL(" UNION ALL ").join(
        sql.SQL(_PLACED).format(formula=sql.Literal(each.name), line=each.line_of_entry) for each in formulas
    )
    places = sql.SQL(", ").join(
        sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, (each.name, place, line, part.value))))
        for each in formulas
        for place, (line, part) in enumerate(each.places, start=1)
    )
    beside = sql.SQL(", ").join(map(sql.Literal, STANDARD.beside))
    chart = sql.SQL(_CHART).format(formula=sql.Literal(formulas[-1].name))
    empty = "Nothing was sold and nothing was posted."
    return Mart(
        name="profit_bridge_monthly",
        doc="One line of a profit formula for one month and currency: what it adds to profit or net profit.",
        day="month",
        columns=_COLUMNS,
        inputs=(Input(DAILY_PRODUCT_SALES), Input(TRANSACTIONS), *COST_INPUTS),
        query=sql.SQL(_QUERY).format(costed=MONTH_COSTED, figures=FIGURES, placed=placed, places=places),
        checks=(
            MartCheck(
                "sums_agree_with_the_inputs",
                "The lines of each formula add up to the entries of seller.transactions, and have all of them.",
                sql.SQL(_SUMS).format(formulas=names, beside=beside),
            ),
            MartCheck(
                "values_are_possible",
                "Profit and the steps to net profit are those computed from sales, costs and ledger without a formula.",
                sql.SQL(_IMPOSSIBLE).format(costed=MONTH_COSTED, standard=sql.Literal(STANDARD.name)),
            ),
            MartCheck(
                "every_entry_is_named",
                "Each entry of the ledger belongs to a line that names it, not to `other`.",
                sql.SQL(_UNNAMED),
                is_warning=True,
            ),
        ),
        chart=Chart("bars", "From sales to net profit", "{currency} in the month", chart, empty),
        rules=tuple(each.content for each in formulas),
    )


PROFIT_BRIDGE_MONTHLY = bridge_of(STANDARD)
