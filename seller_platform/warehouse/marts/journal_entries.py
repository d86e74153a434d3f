"""Journal entries: what an accountant books for each payout and month of an account.

An entry posts what the ledger has between two payouts, or until the end of the month, to accounts of the books. What
was earned and not paid out is posted to the balance of the marketplace, so that each entry adds up to nought.

The lines of a month that was closed are those of `platform.booked_lines`. Rows that came or went since then are an
adjusting entry of the open month. Which rows were booked follows from the numbers of loads: the ledger of a month is
booked up to the newest load of the month, and later loads have larger numbers.
"""

import json
from dataclasses import replace

from psycopg import sql

from seller_platform.contract import Kind
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.warehouse.marts import columns
from seller_platform.warehouse.marts.common_queries import NO_CURRENCY, OWN_CURRENCY
from seller_platform.warehouse.marts.declaration import Chart, ChartForm, Input, Mart, MartCheck, MartColumn
from seller_platform.warehouse.marts.rules.formulas import PAYOUTS
from seller_platform.warehouse.marts.rules.journal_accounts import (
    BALANCE,
    DEFAULT_ACCOUNTS,
    UNMAPPED,
    JournalAccounts,
)
from seller_platform.warehouse.schema.currencies import digits_of

PENDING = 2**63 - 1
"""In place of a load: what is not booked yet."""

NOTHING_BOOKED = -1
"""In place of a load: nothing was booked before."""

_NAMES: dict[str, sql.Composable] = {
    "pending": sql.Literal(PENDING),
    "nothing_booked": sql.Literal(NOTHING_BOOKED),
    "payouts": sql.Literal(PAYOUTS),
    "balance": sql.Literal(BALANCE),
    "unmapped": sql.Literal(UNMAPPED),
    "no_currency": sql.Literal(NO_CURRENCY),
    "digits": digits_of(sql.Identifier("currency")),
}

# Rows that came or went after a load (`span.after`) and until another one (`span.upto`), as they were then. A row is
# posted to the account with which it was booked first, also when it is gone.
_ROWS = """
bookings AS MATERIALIZED (
    SELECT load_id, accounts FROM platform.bookings WHERE account = %(account)s AND ledger_month = %(first_day)s
    UNION ALL
    SELECT {pending}, {accounts}
),
moved AS MATERIALIZED (
    SELECT moved.*, coalesce(moved.transaction_type, '') AS type, coalesce(moved.description, '') AS says,
           coalesce(moved.sent_currency, own.currency) AS currency,
           (SELECT min(load_id) FROM bookings WHERE load_id >= moved.load_id) AS booked_load_id
    FROM own CROSS JOIN (
        SELECT posted_date, local_day, transaction_type, description, order_id, sku, quantity, marketplace_name,
               currency AS sent_currency, amount, extra, account, load_id, page, NULL::bigint AS gone_load_id, 1 AS sign
        FROM seller.transactions CROSS JOIN span
        WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
          AND load_id > span.after AND load_id <= span.upto
        UNION ALL
        SELECT posted_date, local_day, transaction_type, description, order_id, sku, quantity, marketplace_name,
               currency, amount, extra, account, load_id, page, gone_load_id,
               CASE WHEN load_id > span.after THEN 1 ELSE -1 END
        FROM history.transactions CROSS JOIN span
        WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
          AND CASE WHEN load_id > span.after THEN load_id <= span.upto AND gone_load_id > span.upto
                   ELSE gone_load_id > span.after AND gone_load_id <= span.upto END
    ) AS moved
),
rules AS MATERIALIZED (
    SELECT load_id, place, listed ->> 'line' AS line, listed ->> 'name' AS account_name,
           listed ->> 'code' AS account_code, listed ->> 'tax_rate' AS tax_rate, pattern ->> 'type' AS type,
           pattern ->> 'description' AS says
    FROM bookings
    CROSS JOIN jsonb_array_elements(accounts -> 'lines') WITH ORDINALITY AS line (listed, place)
    CROSS JOIN jsonb_array_elements(listed -> 'entries') AS pattern
),
kinds AS MATERIALIZED (SELECT DISTINCT booked_load_id, type, says FROM moved),
mapped AS MATERIALIZED (
    SELECT kinds.*, coalesce(rule.line, {unmapped}) AS line, coalesce(rule.account_name, 'Unmapped') AS account_name,
           coalesce(rule.account_code, '') AS account_code, coalesce(rule.tax_rate, '') AS tax_rate
    FROM kinds LEFT JOIN LATERAL (
        SELECT * FROM rules
        WHERE rules.load_id = kinds.booked_load_id AND kinds.type LIKE rules.type AND kinds.says LIKE rules.says
        ORDER BY place LIMIT 1
    ) AS rule ON true
),
named AS MATERIALIZED (SELECT * FROM moved JOIN mapped USING (booked_load_id, type, says)),
payouts AS MATERIALIZED (
    SELECT local_day, currency, max(posted_date) AS moment
    FROM named CROSS JOIN span
    WHERE line = {payouts} AND span.after = {nothing_booked}
    GROUP BY local_day, currency
),
posted AS MATERIALIZED (
    -- What was posted after the last payout of a month has no payout of the month.
    SELECT named.*, (SELECT min(payouts.local_day) FROM payouts
                     WHERE payouts.currency = named.currency AND payouts.moment >= named.posted_date) AS payout_day
    FROM named
)"""

_UNBOOKED = """
WITH span AS MATERIALIZED (
    SELECT coalesce(max(load_id), {nothing_booked}) AS after, {pending} AS upto
    FROM platform.bookings WHERE account = %(account)s AND ledger_month = %(first_day)s
),
{rows}"""

_QUERY = """
{unbooked},
numbered AS (
    SELECT coalesce((SELECT id FROM platform.accounts WHERE key = %(account)s), 0)::text AS id,
           (SELECT CAST(max(month) + interval '1 month' AS date)
            FROM platform.bookings WHERE account = %(account)s) AS open_month
),
listed AS (
    SELECT *, row_number() OVER (
        PARTITION BY payout_day, currency, line, account_name, account_code, tax_rate
        ORDER BY abs(amount) DESC NULLS LAST, posted_date
    ) AS position
    FROM posted
),
summed AS (
    SELECT payout_day, currency, line, account_name, account_code, tax_rate, booked_load_id,
           round(coalesce(sum(sign * amount), 0), {digits}) AS amount, count(*) AS rows,
           string_agg(concat_ws(' ', CASE sign WHEN 1 THEN 'came:' ELSE 'went:' END, local_day,
                                nullif(type, ''), nullif(says, ''), order_id, sku, amount,
                                format('(load %%s)', coalesce(gone_load_id, load_id))), chr(10) ORDER BY position)
               FILTER (WHERE position <= 20) AS causes
    FROM listed
    GROUP BY payout_day, currency, line, account_name, account_code, tax_rate, booked_load_id
),
balanced AS (
    SELECT payout_day, currency, line, account_name, account_code, tax_rate, sum(amount) AS amount, sum(rows) AS rows,
           string_agg(causes, chr(10) ORDER BY booked_load_id DESC) AS causes
    FROM summed
    GROUP BY payout_day, currency, line, account_name, account_code, tax_rate
    UNION ALL
    SELECT payout_day, currency, {balance}, accounts #>> '{{balance,name}}', accounts #>> '{{balance,code}}',
           accounts #>> '{{balance,tax_rate}}', -sum(amount), sum(rows), NULL
    FROM summed JOIN bookings ON load_id = booked_load_id
    GROUP BY 1, 2, 3, 4, 5, 6
)
SELECT ledger_month, month, number, entry_date, kind, currency, line, account_name, account_code, tax_rate, debit,
       credit, rows, causes
FROM platform.booked_lines WHERE account = %(account)s AND ledger_month = %(first_day)s
UNION ALL
SELECT %(first_day)s::date, entry.month,
       CASE WHEN is_adjusting THEN format('%%s-%%sA%%s%%s', id, to_char(%(first_day)s::date, 'YYMM'),
                                          to_char(entry.month, 'YYMM'), currency)
            ELSE format('%%s-%%s%%s%%s', id, to_char(entry_date, 'YYMMDD'),
                        CASE WHEN payout_day IS NULL THEN 'C' ELSE 'P' END, currency) END,
       entry_date, CASE WHEN is_adjusting THEN 'adjusting' WHEN payout_day IS NULL THEN 'month end' ELSE 'payout' END,
       currency, line, account_name, account_code, tax_rate, greatest(-amount, 0), greatest(amount, 0), rows,
       CASE WHEN is_adjusting THEN causes END
FROM balanced CROSS JOIN span CROSS JOIN numbered
CROSS JOIN LATERAL (SELECT span.after <> {nothing_booked} AS is_adjusting) AS state
CROSS JOIN LATERAL (SELECT CASE WHEN is_adjusting THEN open_month ELSE %(first_day)s::date END AS month) AS booked
CROSS JOIN LATERAL (
    SELECT booked.month, coalesce(payout_day, CAST(booked.month + interval '1 month - 1 day' AS date)) AS entry_date
) AS entry
WHERE amount <> 0 OR NOT is_adjusting AND line <> {balance}
"""

# What was booked of a month, and what is to be adjusted, is its ledger as it is now; each sum may be rounded.
_SUMS = """
SELECT * FROM (
    SELECT currency, sum(credit - debit) AS amount, count(*) AS lines
    FROM marts.journal_entries
    WHERE account = %(account)s AND ledger_month >= %(first_day)s AND ledger_month < %(end_day)s AND line <> {balance}
    GROUP BY currency
) AS here
FULL JOIN (
    SELECT coalesce(stored.currency, own.currency) AS currency, sum(stored.amount) AS amount_of_input
    FROM seller.transactions AS stored CROSS JOIN (WITH {own} SELECT currency FROM own) AS own
    WHERE stored.account = %(account)s AND stored.local_day >= %(first_day)s AND stored.local_day < %(end_day)s
    GROUP BY 1
) AS ledger USING (currency)
WHERE abs(coalesce(amount, 0) - coalesce(amount_of_input, 0)) > coalesce(lines, 0) * 0.5 / 10 ^ {digits}
"""

_IMPOSSIBLE = """
SELECT number, currency, sum(debit) AS debits, sum(credit) AS credits, count(DISTINCT entry_date) AS days
FROM marts.journal_entries
WHERE account = %(account)s AND ledger_month >= %(first_day)s AND ledger_month < %(end_day)s
GROUP BY number, currency
HAVING sum(debit) <> sum(credit) OR min(least(debit, credit)) <> 0
    OR count(DISTINCT (entry_date, booked_month, kind)) > 1
"""

_UNBOOKABLE = """
SELECT local_day, transaction_type, description, amount, currency,
       CASE WHEN currency = {no_currency} THEN 'no currency' WHEN amount IS NULL THEN 'no amount' ELSE 'no account' END
           AS problem
FROM ({unbooked} SELECT * FROM posted) AS posted
WHERE line = {unmapped} OR amount IS NULL OR currency = {no_currency}
ORDER BY local_day, transaction_type, description
"""

_CHART = """
SELECT account_name AS label, currency, sum(credit - debit) AS "Credit less debit"
FROM marts.journal_entries
WHERE account = %(account)s AND ledger_month >= %(first_day)s AND ledger_month < %(end_day)s
GROUP BY account_name, currency
ORDER BY 3 DESC
"""


def rows_of_ledger(accounts: JournalAccounts) -> sql.Composed:
    """Return items of WITH that end with `posted`: rows of the ledger, each with its line, account and payout.

    The sign of a row is 1 if it came and -1 if it went, after the load `span.after` and until `span.upto`. They need
    `span`, and are given `account`, `first_day` and `end_day`.

    Args:
        accounts: Those of what is not booked yet.
    """
    document = json.dumps(accounts.document, ensure_ascii=False).replace("%", "%%")
    rows = sql.SQL(_ROWS).format(accounts=sql.SQL("{}::jsonb").format(sql.Literal(document)), **_NAMES)
    return sql.SQL(", ").join([OWN_CURRENCY, rows])


def journal_of(accounts: JournalAccounts) -> Mart:
    """Return the mart that posts to these accounts; its version changes with them."""
    unbooked = sql.SQL(_UNBOOKED).format(rows=rows_of_ledger(accounts), **_NAMES)
    names = {**_NAMES, "own": OWN_CURRENCY, "unbooked": unbooked}
    return replace(
        _JOURNAL,
        query=sql.SQL(_QUERY).format(**names),
        rules=(accounts.content,),
        checks=(
            MartCheck(
                "sums_agree_with_the_inputs",
                "What was booked of the month, and what is yet to be booked, add up to seller.transactions.",
                sql.SQL(_SUMS).format(**names),
            ),
            MartCheck(
                "values_are_possible",
                "Debits and credits of each entry are equal, and its lines have one day and one month.",
                sql.SQL(_IMPOSSIBLE),
            ),
            MartCheck(
                "every_entry_has_an_account",
                "Each entry of the ledger has an amount, a currency, and an account of the books.",
                sql.SQL(_UNBOOKABLE).format(**names),
                repair="name the type in the file of SELLER_PLATFORM_JOURNAL_ACCOUNTS "
                "(`seller-platform docs month-end` shows one)",
            ),
        ),
    )


_OF_ROWS = (*columns.OF_LINES, "transactions.posted_date")

_JOURNAL = Mart(
    name="journal_entries",
    doc="One line of a journal entry: what a payout, the rest of a month or an adjustment posts to an account.",
    day="ledger_month",
    columns=(
        MartColumn(
            "ledger_month",
            Kind.DATE,
            "The first day of the month in which the ledger has the entries that are posted.",
            ("transactions.posted_date",),
            key=True,
        ),
        MartColumn(
            "booked_month",
            Kind.DATE,
            "The first day of the month in which the line is booked: another one for adjusting entries, which are of "
            "the first month that is not closed.",
            ("transactions.posted_date",),
        ),
        MartColumn(
            "number",
            Kind.TEXT,
            "The number of the journal entry: number of the account, day, P for a payout or C for the rest of the "
            "month, currency; of an adjusting entry the month that it adjusts, A, and the month in which it is booked.",
            ("accounts.id", *_OF_ROWS),
            key=True,
        ),
        MartColumn("entry_date", Kind.DATE, "The day of the payout, or the last day of `booked_month`.", _OF_ROWS),
        MartColumn("kind", Kind.TEXT, "`payout`, `month end` or `adjusting`.", _OF_ROWS),
        replace(
            columns.CURRENCY,
            doc="ISO 4217 code of the amounts of the entry (XXX where it is not known). An entry has one currency.",
            key=False,
        ),
        MartColumn(
            "line",
            Kind.TEXT,
            "The line of the accounts: `payouts`, `balance` (what the marketplace owes: a debit is carried forward, a "
            "credit was brought forward), `unmapped` (no line names the entries), or another one.",
            columns.OF_LINES,
            key=True,
        ),
        MartColumn("account_name", Kind.TEXT, "The name of the account of the books.", columns.OF_LINES, key=True),
        MartColumn("account_code", Kind.TEXT, "Its code; empty where it has none.", columns.OF_LINES, key=True),
        MartColumn("tax_rate", Kind.TEXT, "The name of the tax rate of Xero.", columns.OF_LINES, key=True),
        MartColumn(
            "debit", Kind.MONEY, "The amount of a debit, rounded to the minor unit of the currency; else 0.", _OF_ROWS
        ),
        MartColumn("credit", Kind.MONEY, "The amount of a credit, likewise; else 0.", _OF_ROWS),
        MartColumn("rows", Kind.INTEGER, "How many rows of the ledger the line was summed from.", _OF_ROWS),
        MartColumn(
            "causes",
            Kind.TEXT,
            "Of an adjusting entry: the rows that came and went after the month was booked, one a line, the 20 "
            "largest; else null. `seller-platform explain journal_entries NUMBER LINE` has all.",
            ("transactions.order_id", "transactions.sku", *_OF_ROWS),
            nullable=True,
        ),
    ),
    inputs=(Input(TRANSACTIONS), Input(ACCOUNTS, required=False)),
    query=sql.SQL("SELECT").format(),
    checks=(),
    chart=Chart(
        ChartForm.BARS,
        "Posted to the accounts",
        "{currency} in the month",
        sql.SQL(_CHART),
        "Nothing was posted.",
    ),
)

JOURNAL_ENTRIES = journal_of(DEFAULT_ACCOUNTS)
