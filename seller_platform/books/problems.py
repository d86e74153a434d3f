"""What is wrong with the books: the ledger is not the opening balance any more that was booked."""

from psycopg import sql

from seller_platform.marts.common_queries import NO_CURRENCY
from seller_platform.warehouse.schema.currencies import digits_of
from seller_platform.warehouse.schema.problems import ProblemKind, ProblemSource

_DIGITS = digits_of(sql.Identifier("currency")).as_string()

UNBOOKED_OPENING = f"""
SELECT currency, round(sum(amount), {_DIGITS}) AS change
FROM (
    SELECT coalesce(stored.currency, own.currency_code, '{NO_CURRENCY}') AS currency, amount
    FROM seller.transactions AS stored JOIN platform.accounts AS own ON own.key = stored.account
    WHERE stored.account = books.account AND local_day < books.first_closed
    UNION ALL
    SELECT key, -CAST(value AS numeric) FROM platform.bookings AS former, jsonb_each_text(former.opening_change)
    WHERE former.account = books.account
) AS amounts GROUP BY currency HAVING round(sum(amount), {_DIGITS}) <> 0
"""  # noqa: S608  # constants
"""What the ledger before `books.first_closed` has, less what is booked of it: before the first closing, all of it."""

OPENING_LOADS = """
SELECT coalesce(sum(changed_load_id), 0) FROM platform.slices
WHERE dataset = 'transactions' AND slices.account = books.account AND month < books.first_closed
"""
"""A number that each change of that ledger makes larger, as later loads have larger numbers: it is read faster."""

UNBOOKED = ProblemSource(
    (ProblemKind("unbooked", "warning", "The ledger before the first closed month changed.", "The next closing."),),
    f"""
    SELECT 'marts.journal_entries' AS dataset, account, first_closed AS month, 'unbooked' AS kind,
           'warning' AS severity, (SELECT max(started_at) FROM platform.loads WHERE dataset = 'transactions' AND changed
                                   AND loads.account = books.account AND window_start < first_closed) AS since,
           format('After the opening balance was booked, the ledger before the first closed month changed by %s.',
                  string_agg(format('%s %s', change, currency), ', ' ORDER BY currency)) AS message,
           'Book that in the open month, on the accounts of the opening balance; the closing of the month adds it to '
           'what is owed (`seller-platform docs month-end`).' AS next_step
    FROM (
        SELECT account, min(month) AS first_closed, max(opening_loads) AS loads FROM platform.bookings GROUP BY account
    ) AS books CROSS JOIN LATERAL ({UNBOOKED_OPENING}) AS opening
    WHERE loads <> ({OPENING_LOADS}) GROUP BY account, first_closed
    """,  # noqa: S608  # constants
)
