"""Journal entries: what an accountant books for each payout and month of an account.

An entry posts what the ledger has between two payouts, or until the end of the month, to accounts of the books. What
was earned and not paid out is posted to the balance of the marketplace, so that each entry adds up to nought.

The lines of a month that was closed are those of `platform.booked_lines`. What its ledger has now, less what was booked
of it, is an adjusting entry of the open month. The rows that came or went since are its causes: a month is booked up to
its newest load, and later loads have larger numbers.
"""

import json
from dataclasses import replace

from psycopg import sql

from seller_platform.books.journal_accounts import BALANCE, DEFAULT_ACCOUNTS, UNMAPPED, JournalAccounts, accounts_of
from seller_platform.books.settings import BooksSettings
from seller_platform.contract import Kind
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.marts import columns
from seller_platform.marts.common_queries import NO_CURRENCY, OWN_CURRENCY
from seller_platform.marts.rules.formulas import PAYOUTS
from seller_platform.settings import Settings
from seller_platform.warehouse.derived.declaration import Chart, Input, Mart, MartCheck, MartColumn
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

# The ledger as it was at a load (`span.upto`). The sign of a row is 1 if it came after another load (`span.after`), and
# 0 if not; -1 is that of one that went in between. A row is posted to the account with which it was booked first; the
# last document is for what is not booked yet, and for what the others do not name.
_ROWS = """
documents AS MATERIALIZED (
    (SELECT DISTINCT ON (load_id) load_id, accounts FROM platform.bookings
     WHERE account = %(account)s AND ledger_month = %(first_day)s ORDER BY load_id, month)
    UNION ALL
    SELECT {pending}, {accounts}
),
repairs AS MATERIALIZED (
    SELECT id FROM platform.loads WHERE dataset = 'transactions' AND account = %(account)s AND notes ? 'repaired'
),
moved AS MATERIALIZED (
    SELECT moved.*, coalesce(moved.transaction_type, '') AS type, coalesce(moved.description, '') AS says,
           coalesce(moved.sent_currency, own.currency) AS currency,
           (SELECT min(load_id) FROM documents
            WHERE load_id >= moved.load_id OR moved.load_id IN (SELECT id FROM repairs)) AS booked_load_id
    FROM own CROSS JOIN (
        SELECT posted_date, local_day, transaction_type, description, order_id, sku, quantity, marketplace_name,
               currency AS sent_currency, amount, extra, account, load_id, page, NULL::bigint AS gone_load_id,
               CAST(load_id > span.after AS integer) AS sign
        FROM seller.transactions CROSS JOIN span
        WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
          AND load_id <= span.upto
        UNION ALL
        SELECT posted_date, local_day, transaction_type, description, order_id, sku, quantity, marketplace_name,
               currency, amount, extra, account, load_id, page, gone_load_id,
               CASE WHEN gone_load_id <= span.upto THEN -1 ELSE CAST(load_id > span.after AS integer) END
        FROM history.transactions CROSS JOIN span
        WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
          AND load_id <= span.upto AND gone_load_id > span.after AND (load_id <= span.after OR gone_load_id > span.upto)
    ) AS moved
),
rules AS MATERIALIZED (
    SELECT load_id, place, listed ->> 'line' AS line, listed ->> 'name' AS account_name,
           listed ->> 'code' AS account_code, listed ->> 'tax_rate' AS tax_rate, pattern ->> 'type' AS type,
           pattern ->> 'description' AS says
    FROM documents
    CROSS JOIN jsonb_array_elements(accounts -> 'lines') WITH ORDINALITY AS line (listed, place)
    CROSS JOIN jsonb_array_elements(listed -> 'entries') AS pattern
),
kinds AS MATERIALIZED (SELECT DISTINCT booked_load_id, type, says FROM moved),
mapped AS MATERIALIZED (
    SELECT kinds.*, coalesce(rule.line, {unmapped}) AS line, coalesce(rule.account_name, 'Unmapped') AS account_name,
           coalesce(rule.account_code, '') AS account_code, coalesce(rule.tax_rate, '') AS tax_rate
    FROM kinds LEFT JOIN LATERAL (
        SELECT * FROM rules
        WHERE load_id IN (booked_load_id, {pending}) AND kinds.type LIKE rules.type AND kinds.says LIKE rules.says
        ORDER BY load_id, place LIMIT 1
    ) AS rule ON true
),
placed AS MATERIALIZED (
    SELECT *, CASE WHEN is_payout THEN row_number() OVER (
                       PARTITION BY currency, is_payout ORDER BY posted_date, amount, order_id, says, load_id, page
                   ) END AS place
    FROM (
        SELECT *, line = {payouts} AND sign >= 0 AS is_payout FROM moved JOIN mapped USING (booked_load_id, type, says)
    ) AS named
),
payouts AS MATERIALIZED (
    SELECT currency, place, local_day AS payout_day,
           concat(to_char(local_day, 'YYMMDD'), 'P', nullif(row_number() OVER of_day, 1)) AS payout
    FROM placed WHERE is_payout WINDOW of_day AS (PARTITION BY currency, local_day ORDER BY place)
),
posted AS MATERIALIZED (
    -- What was posted after the last payout of a month has no payout of the month.
    SELECT * FROM (
        SELECT placed.*,
               coalesce(place, min(place) OVER (PARTITION BY currency ORDER BY posted_date DESC)) AS of_payout
        FROM placed
    ) AS timed LEFT JOIN (SELECT currency, place AS of_payout, payout_day, payout FROM payouts) AS payouts
        USING (currency, of_payout)
)"""

_UNBOOKED = """
WITH span AS MATERIALIZED (
    SELECT coalesce(max(load_id), {nothing_booked}) AS after, {pending} AS upto
    FROM platform.bookings WHERE account = %(account)s AND ledger_month = %(first_day)s
),
{rows}"""

# The sums of a closed month are rounded payout by payout, too, as they were when it was booked.
_QUERY = """
{unbooked},
state AS (
    SELECT span.after <> {nothing_booked} AS is_adjusting,
           coalesce((SELECT id FROM platform.accounts WHERE key = %(account)s), 0)::text AS id,
           CASE WHEN span.after = {nothing_booked} THEN %(first_day)s::date
                ELSE (SELECT CAST(max(month) + interval '1 month' AS date)
                      FROM platform.bookings WHERE account = %(account)s) END AS month
    FROM span
),
listed AS (
    SELECT posted.*, row_number() OVER (
        PARTITION BY CASE WHEN NOT is_adjusting THEN payout END, currency, line, account_name, account_code, tax_rate,
                     sign <> 0
        ORDER BY abs(amount) DESC NULLS LAST, posted_date
    ) AS position
    FROM posted CROSS JOIN state
),
summed AS (
    SELECT payout, payout_day, currency, line, account_name, account_code, tax_rate,
           round(coalesce(sum(amount) FILTER (WHERE sign >= 0), 0), {digits}) AS amount,
           count(*) FILTER (WHERE sign <> 0) AS rows,
           string_agg(concat_ws(' ', CASE WHEN coalesce(gone_load_id, load_id) IN (SELECT id FROM repairs)
                                     THEN 'repaired,' END, CASE sign WHEN 1 THEN 'came:' ELSE 'went:' END, local_day,
                                nullif(type, ''), nullif(says, ''), order_id, sku, amount,
                                format('(load %%s)', coalesce(gone_load_id, load_id))), chr(10) ORDER BY position)
               FILTER (WHERE sign <> 0 AND position <= 20) AS causes
    FROM listed
    GROUP BY payout, payout_day, currency, line, account_name, account_code, tax_rate
),
parts AS (
    SELECT * FROM summed
    UNION ALL
    SELECT payout, payout_day, currency, {balance}, accounts #>> '{{balance,name}}', accounts #>> '{{balance,code}}',
           accounts #>> '{{balance,tax_rate}}', -sum(amount), sum(rows), NULL
    FROM summed CROSS JOIN (SELECT accounts FROM documents ORDER BY load_id LIMIT 1) AS first
    GROUP BY payout, payout_day, currency, accounts
    UNION ALL
    SELECT NULL, NULL, currency, line, account_name, account_code, tax_rate, debit - credit, 0, NULL
    FROM platform.booked_lines WHERE account = %(account)s AND ledger_month = %(first_day)s
),
entries AS (
    SELECT is_adjusting, id, month, currency, line, account_name, account_code, tax_rate,
           CASE WHEN NOT is_adjusting THEN payout END AS payout,
           CASE WHEN NOT is_adjusting THEN payout_day END AS payout_day,
           CAST(month + interval '1 month - 1 day' AS date) AS last_day,
           sum(amount) AS amount, CAST(sum(rows) AS bigint) AS rows,
           CASE WHEN is_adjusting AND line <> {balance}
                THEN coalesce(string_agg(causes, chr(10)), 'no load: another program changed the table') END AS causes
    FROM parts CROSS JOIN state
    GROUP BY is_adjusting, id, month, currency, line, account_name, account_code, tax_rate, 9, 10
)
SELECT ledger_month, month, number, entry_date, kind, currency, line, account_name, account_code, tax_rate, debit,
       credit, rows, causes
FROM platform.booked_lines WHERE account = %(account)s AND ledger_month = %(first_day)s
UNION ALL
SELECT %(first_day)s::date, month,
       CASE WHEN is_adjusting THEN format('%%s-%%sA%%s%%s', id, to_char(%(first_day)s::date, 'YYMM'),
                                          to_char(month, 'YYMM'), currency)
            ELSE format('%%s-%%s%%s', id, coalesce(payout, to_char(last_day, 'YYMMDD') || 'C'), currency) END,
       coalesce(payout_day, last_day),
       CASE WHEN is_adjusting THEN 'adjusting' WHEN payout IS NULL THEN 'month end' ELSE 'payout' END,
       currency, line, account_name, account_code, tax_rate, greatest(-amount, 0), greatest(amount, 0), rows, causes
FROM entries
WHERE amount <> 0 OR NOT is_adjusting AND line <> {balance}
"""

# What was booked of a month, and what is to be adjusted, is its ledger as it is now, but for what rounding leaves.
_SUMS = """
SELECT currency, amount, amount_of_input FROM (
    SELECT currency, sum(credit - debit) AS amount
    FROM marts.journal_entries
    WHERE account = %(account)s AND ledger_month >= %(first_day)s AND ledger_month < %(end_day)s AND line <> {balance}
    GROUP BY currency
) AS here
FULL JOIN (
    SELECT currency, sum(amount) AS amount_of_input, sum(abs(amount - round(amount, {digits}))) AS rounded
    FROM (
        SELECT coalesce(stored.currency, own.currency) AS currency, amount
        FROM seller.transactions AS stored CROSS JOIN (WITH {own} SELECT currency FROM own) AS own
        WHERE stored.account = %(account)s AND stored.local_day >= %(first_day)s AND stored.local_day < %(end_day)s
    ) AS stored GROUP BY currency
) AS ledger USING (currency)
WHERE abs(coalesce(amount, 0) - coalesce(amount_of_input, 0)) > coalesce(rounded, 0)
"""

_IMPOSSIBLE = """
SELECT number, currency, sum(debit) AS debits, sum(credit) AS credits, count(DISTINCT entry_date) AS days
FROM marts.journal_entries
WHERE account = %(account)s AND ledger_month >= %(first_day)s AND ledger_month < %(end_day)s
GROUP BY number, currency
HAVING sum(debit) <> sum(credit) OR min(least(debit, credit)) <> 0
    OR count(DISTINCT (entry_date, booked_month, kind)) > 1
"""

# The first row of each type that no line names has the line to paste; it stands before other rows of the type.
_UNBOOKABLE = """
SELECT local_day, transaction_type, description, amount, currency,
       CASE WHEN currency = {no_currency} THEN 'no currency' WHEN amount IS NULL THEN 'no amount' ELSE 'no account' END
           AS problem,
       CASE WHEN line = {unmapped} AND nth = 1 THEN
           format('`- {{line: type_%%s, name: Other marketplace entries, code: "6090", entries: [{{type: %%s}}]}}`',
                  left(coalesce(nullif(btrim(regexp_replace(lower(type), '[^a-z0-9]+', '_', 'g'), '_'), ''),
                                left(md5(type), 6)), 58),
                  to_json(type))
       END AS paste
FROM (
    SELECT *, row_number() OVER (PARTITION BY line, type ORDER BY local_day, description) AS nth
    FROM ({unbooked} SELECT * FROM posted WHERE sign >= 0) AS posted
    WHERE line = {unmapped} OR amount IS NULL OR currency = {no_currency}
) AS numbered
ORDER BY nth, local_day, transaction_type, description
"""

_CHART = """
SELECT account_name AS label, currency, sum(credit - debit) AS "Credit less debit"
FROM marts.journal_entries
WHERE account = %(account)s AND ledger_month >= %(first_day)s AND ledger_month < %(end_day)s
GROUP BY account_name, currency
ORDER BY 3 DESC
"""

_OF_ROWS = (*columns.OF_LINES, "transactions.posted_date")

_COLUMNS = (
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
        "The number of the journal entry: number of the account, day, P for a payout (P2 is the second one) or C "
        "for the rest of the month, currency; of an adjusting entry the month that it adjusts, A, and the month in "
        "which it is booked.",
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
    columns.nullable(
        "causes",
        Kind.TEXT,
        "Of an adjusting entry: the rows that came and went after the month was booked, one a line, the 20 "
        "largest; else null. `seller-platform explain journal_entries NUMBER LINE` has all.",
        ("transactions.order_id", "transactions.sku", *_OF_ROWS),
    ),
)


def rows_of_ledger(accounts: JournalAccounts) -> sql.Composed:
    """Return items of WITH that end with `posted`: rows of the ledger, each with its line, account and payout.

    They have the rows at the load `span.upto`, those that came after `span.after` with the sign 1, and those that went
    since with -1. They need `span`, and are given `account`, `first_day` and `end_day`.

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
    return Mart(
        name="journal_entries",
        doc="One line of a journal entry: what a payout, the rest of a month or an adjustment posts to an account.",
        day="ledger_month",
        columns=_COLUMNS,
        inputs=(Input(TRANSACTIONS), Input(ACCOUNTS, required=False)),
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
                repair="paste the line below `lines:` of the file of SELLER_PLATFORM_JOURNAL_ACCOUNTS, with an account "
                "of yours (`seller-platform docs month-end` shows a whole file); have the upstream correct a missing "
                "amount or currency, and load the month",
            ),
        ),
        chart=Chart(
            "bars", "Posted to the accounts", "{currency} in the month", sql.SQL(_CHART), "Nothing was posted."
        ),
    )


JOURNAL_ENTRIES = journal_of(DEFAULT_ACCOUNTS)


def declared(settings: Settings | None) -> tuple[Mart, ...]:
    """Return the mart, with the accounts of the books that the settings name a file of.

    Raises:
        SettingsError: The file cannot be used.
    """
    accounts = settings and settings.of(BooksSettings).journal_accounts
    return (journal_of(accounts_of(accounts)) if accounts else JOURNAL_ENTRIES,)
