"""Lists the months of the books: what was paid out, what the marketplace owes, and the payout that comes next."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Annotated

import msgspec
from psycopg import sql
from psycopg.rows import dict_row
from sqlalchemy import Connection

from seller_platform.books.journal_accounts import BALANCE, JournalAccounts
from seller_platform.clocks import utc_now
from seller_platform.contract import Window
from seller_platform.contract.window import read_month
from seller_platform.marts.rules.formulas import PAYOUTS
from seller_platform.marts.rules.payouts import payouts_query
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.currencies import digits_of

_MONTHS = """
WITH closed AS MATERIALIZED (
    SELECT *, month = min(month) OVER (PARTITION BY account) AS is_first FROM platform.bookings
    WHERE ledger_month = month AND (%(accounts)s::text[] IS NULL OR account = ANY (%(accounts)s))
),
{payouts},
posted AS MATERIALIZED (
    SELECT account, month, false AS is_booked, currency, sum(amount) AS amount, CAST(0 AS numeric) AS paid_out
    FROM ledger GROUP BY account, month, currency
    UNION ALL
    SELECT account, month, false, currency, 0, sum(amount) FROM payouts GROUP BY account, month, currency
    UNION ALL
    SELECT account, CASE WHEN is_first THEN month - 1 ELSE month END, true, key, CAST(value AS numeric), 0
    FROM closed CROSS JOIN jsonb_each_text(opening_change)
    UNION ALL
    SELECT account, month, true, currency, sum(debit - credit) FILTER (WHERE line = %(balance)s),
           sum(debit - credit) FILTER (WHERE line = %(payouts)s)
    FROM platform.booked_lines JOIN closed USING (account, month)
    GROUP BY account, month, currency
),
months AS (
    SELECT account, CAST(month AS date) AS month, last_closed, stored_since
    FROM (
        SELECT account, min(closed.month) AS first_closed, max(closed.month) AS last_closed,
               min(posted.month) FILTER (WHERE NOT is_booked) AS stored_since
        FROM posted FULL JOIN closed USING (account) GROUP BY account
    ) AS own
    CROSS JOIN LATERAL generate_series(CAST(coalesce(first_closed, %(last_over)s) AS timestamp),
                                       greatest(last_closed, %(this_month)s), interval '1 month') AS month
),
sums AS (
    SELECT months.account, months.month, currency,
           sum(paid_out) FILTER (WHERE posted.month = months.month) AS paid_out,
           sum(amount) FILTER (WHERE posted.month < months.month) AS opening_balance, sum(amount) AS balance
    FROM months JOIN posted ON posted.account = months.account AND posted.month <= months.month
                           AND is_booked = coalesce(months.month <= last_closed, false)
    GROUP BY months.account, months.month, currency
),
of_currencies AS (
    SELECT account, month, jsonb_object_agg(currency, round(coalesce(paid_out, 0), {digits})::text) AS paid_out,
           jsonb_object_agg(currency, round(coalesce(opening_balance, 0), {digits})::text) AS opening_balance,
           jsonb_object_agg(currency, round(coalesce(balance, 0), {digits})::text) AS balance,
           jsonb_object_agg(currency, jsonb_build_object(
               'amount', round(balance, {digits})::text, 'day', last_day + usual_days
           )) FILTER (WHERE month = %(this_month)s AND usual_days IS NOT NULL AND balance > 0) AS next_payout
    FROM sums LEFT JOIN expected_payouts USING (account, currency) GROUP BY account, month
),
deposits AS (
    SELECT account, month, jsonb_agg(jsonb_build_object(
               'moment', posted_date, 'currency', currency, 'amount', round(amount, {digits})::text
           ) ORDER BY posted_date, currency, amount) AS payouts
    FROM payouts GROUP BY account, month
),
lines AS (
    SELECT account, month, count(DISTINCT number) AS entries,
           count(DISTINCT number) FILTER (WHERE kind = 'adjusting') AS adjusting_entries
    FROM closed LEFT JOIN platform.booked_lines USING (account, month)
    GROUP BY account, month
)
SELECT account, to_char(month, 'YYYY-MM') AS month, booked_at AS closed_at, booked_by AS closed_by,
       entries, adjusting_entries, coalesce(opening_balance, '{{}}') AS opening_balance,
       CASE WHEN NOT is_first THEN opening_change ELSE '{{}}' END AS opening_change,
       coalesce(paid_out, '{{}}') AS paid_out, coalesce(balance, '{{}}') AS balance,
       to_char(CASE WHEN booked_at IS NULL THEN stored_since ELSE ledger_begins END, 'YYYY-MM') AS ledger_begins,
       coalesce(payouts, '[]') AS payouts,
       coalesce(next_payout, '{{}}') AS next_payout
FROM months LEFT JOIN of_currencies USING (account, month) LEFT JOIN lines USING (account, month)
LEFT JOIN closed USING (account, month) LEFT JOIN deposits USING (account, month)
ORDER BY months.account, months.month
"""


class Payout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A deposit, which is one entry of the ledger: two on a day are two.

    Attributes:
        moment: When the ledger posted it.
        amount: What was paid out; negative where a payout was taken back.
    """

    moment: Annotated[datetime, msgspec.Meta(tz=True)]
    currency: str
    amount: str


class NextPayout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payout that is expected next.

    Attributes:
        amount: What the marketplace owes now.
        day: As many days after the newest payout as usually lie between two. One that is over says that the payout is
            late, or is not loaded.
    """

    amount: str
    day: date


class BookMonth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A month of an account in the books; what is owed is there in every currency.

    Attributes:
        month: As 2026-03.
        closed_at: When it was closed; null for a month that is open, which is as the ledger is now.
        entries: How many journal entries were booked, those that adjust earlier months among them; null while the
            month is open.
        opening_balance: What the marketplace owed before the month. Of the first month that is closed it is the sum of
            the whole ledger before it that was stored then: book that as the opening balance.
        opening_change: What the ledger before the first closed month changed by: book it, too. The balance has it.
        paid_out: What was posted to the account of payouts; a debit is positive.
        balance: What the marketplace owes after the month; of the present month, what it owes now.
        ledger_begins: The first month of the stored ledger, of a closed month as it was then: what the marketplace
            owed before it is in no amount. Null where nothing is stored.
        payouts: The deposits of the month, as the ledger has them now.
        next_payout: By currency; of the present month alone, where something is owed and two payouts are known.
    """

    account: str
    month: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}$")]
    closed_at: Annotated[datetime, msgspec.Meta(tz=True)] | None
    closed_by: str | None
    entries: int | None
    adjusting_entries: int | None
    opening_balance: dict[str, str]
    opening_change: dict[str, str]
    paid_out: dict[str, str]
    balance: dict[str, str]
    ledger_begins: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}$")] | None
    payouts: list[Payout]
    next_payout: dict[str, NextPayout]

    @property
    def window(self) -> Window:
        return Window.month_of(read_month(self.month))


def book_months(
    connection: Connection, accounts: JournalAccounts, keys: Sequence[str] | None = None
) -> list[BookMonth]:
    """Return the months of accounts with a ledger from the first closed one to the present, by account and month.

    Of an account that has closed none, they begin with the newest month that is over.

    Args:
        accounts: The accounts of the books, which say what a payout is.
        keys: The keys of the accounts of the marketplace; None for all.
    """
    this_month = Window.month_of(utc_now().date()).start
    bound = {
        "accounts": keys and list(keys),
        "payouts": PAYOUTS,
        "balance": BALANCE,
        "this_month": this_month,
        "last_over": Window.month_of(this_month - timedelta(days=1)).start,
    }
    is_asked = sql.SQL("%(accounts)s::text[] IS NULL OR account = ANY (%(accounts)s)")
    payouts = payouts_query(accounts.is_payout, is_asked)
    query = sql.SQL(_MONTHS).format(digits=digits_of(sql.Identifier("currency")), payouts=payouts)
    with driver_of(connection).cursor(row_factory=dict_row) as cursor:
        return msgspec.convert(cursor.execute(query, bound).fetchall(), list[BookMonth])
