"""What should have been read, and was not: the view `platform.offered_slices`, and problems of slices that are unread.

They are created anew after each upgrade, because they follow from the contract.
"""

from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import REFRESHED
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.creation import create_view
from seller_platform.warehouse.schema.problems import ProblemKind, ProblemSource

READ_WITHIN_HOURS = 26
"""The refresh reads every account once a day; two hours are for its runs."""

# An upstream need not offer what upstreams compute. It does if it has answered for any account.
_OFFERED = sql.SQL("""
SELECT declared.dataset, declared.is_dated, listed.key AS account, listed.retired_at
FROM platform.accounts AS listed
JOIN platform.connections AS own ON own.name = listed.connection
CROSS JOIN (VALUES {datasets}) AS declared (dataset, is_dated, is_computed)
WHERE NOT is_computed OR (dataset, own.base_url) IN (
    SELECT slices.dataset, base_url
    FROM platform.slices
    JOIN platform.accounts AS readers ON readers.key = slices.account
    JOIN platform.connections ON connections.name = readers.connection
    WHERE load_id IS NOT NULL AND slices.dataset = ANY ({computed}))
""")
_COLUMNS_OF_OFFERED = {
    "dataset": "The table in schema seller.",
    "is_dated": "Whether its slices are months.",
    "account": "Key of the account.",
    "retired_at": "When the account was first missing; null while it is listed.",
}

UNUSABLE_ACCOUNTS = """
    SELECT jsonb_object_keys(notes -> 'unusable_accounts')
    FROM platform.slices JOIN platform.loads ON id = load_id WHERE slices.dataset = 'accounts'
"""
"""The query of the accounts that cannot be read: the list of accounts names them, so nothing else does."""

_IS_UNTROUBLED = """
    coalesce(error, 'RequestsUsedUpError') IN ('RequestsUsedUpError', 'NotOfferedError', 'ReadingHeldError')
    AND coalesce(held_load_ids, '{}') = '{}'
"""

# Days count as missing when a daily refresh should have brought them, unless their slice failed or is held. Accounts
# that lack nothing, mostly all, are left out first: to join their months takes five times as long.
_UNREAD = f"""
CREATE OR REPLACE FUNCTION platform.unread_slices (moment timestamptz, since date)
RETURNS TABLE (dataset text, account text, month date, kind text, read_at timestamptz) LANGUAGE sql STABLE
SET enable_nestloop = off SET jit = off AS $$
    WITH listed AS (
        SELECT dataset, account, is_dated FROM platform.offered_slices
        WHERE retired_at IS NULL AND account NOT IN ({UNUSABLE_ACCOUNTS})
    ),
    due AS (
        SELECT month, first, first + days - 1 AS last
        FROM (SELECT moment AT TIME ZONE 'UTC' AS today, CAST(since AS timestamp) AS begin) AS history,
             generate_series(date_trunc('month', begin), greatest(today, begin), interval '1 month') AS series,
             LATERAL (SELECT CAST(series AS date) AS month, CAST(series + interval '1 month' AS date) AS after,
                             CAST(today - interval '{READ_WITHIN_HOURS} hours' AS date) AS until) AS days_of,
             LATERAL (SELECT greatest(month, since) AS start) AS begun,
             LATERAL (SELECT CAST(extract(day FROM start) AS integer) AS first,
                             least(after, until) - start AS days) AS counted
        WHERE days > 0
    ),
    complete AS (
        SELECT dataset, account
        FROM platform.slices JOIN due USING (month)
        WHERE load_id IS NOT NULL
          AND (read_after_days IS NOT NULL OR array_position(days_read[first:last], NULL) IS NULL)
        GROUP BY dataset, account
        HAVING count(*) = (SELECT count(*) FROM due)
    )
    SELECT dataset, account, month, CASE WHEN load_id IS NULL THEN 'missing' ELSE 'incomplete' END, read_at
    FROM (SELECT dataset, account FROM listed WHERE is_dated EXCEPT SELECT dataset, account FROM complete) AS dated
    CROSS JOIN due
    LEFT JOIN platform.slices USING (dataset, account, month)
    WHERE (load_id IS NULL OR array_position(days_read[first:last], NULL) IS NOT NULL) AND {_IS_UNTROUBLED}
    UNION ALL
    SELECT dataset, account, NULL, CASE WHEN load_id IS NULL THEN 'missing' ELSE 'late' END, read_at
    FROM (SELECT dataset, account FROM listed WHERE NOT is_dated) AS undated
    LEFT JOIN platform.slices USING (dataset, account)
    WHERE (load_id IS NULL OR read_at < moment - interval '{READ_WITHIN_HOURS} hours') AND {_IS_UNTROUBLED}
    UNION ALL
    SELECT dataset, account, NULL, 'late', max(current_at)
    FROM platform.slices JOIN listed USING (dataset, account)
    WHERE is_dated AND month > moment - interval '62 days'
    GROUP BY dataset, account
    HAVING count(load_id) > 0
       AND coalesce(max(current_at), '-infinity') < moment - interval '{READ_WITHIN_HOURS} hours'
       AND NOT bool_or(month > moment - interval '32 days' AND NOT ({_IS_UNTROUBLED}))
$$;
COMMENT ON FUNCTION platform.unread_slices IS 'Slices that should have been read until a moment.'
"""  # noqa: S608  # constants

_DAILY = "A refresh that reads the days."
UNREAD_SLICES = ProblemSource(
    (
        ProblemKind("missing", "error, note", "A slice was never loaded.", _DAILY),
        ProblemKind("incomplete", "error, note", "Days of a month were never loaded.", _DAILY),
        ProblemKind("late", "error, note", f"A list was not read for more than {READ_WITHIN_HOURS} hours.", _DAILY),
    ),
    # New accounts have a day for their first loads. A list that was never tried of any account was not chosen.
    f"""
    SELECT unread.*, coalesce(read_at, greatest(first_seen_at, month)) AS since,
           CASE WHEN first_seen_at > now() - interval '{READ_WITHIN_HOURS} hours'
                     OR kind = 'missing' AND dataset NOT IN (SELECT dataset FROM platform.slices)
                        AND EXISTS (SELECT FROM platform.slices WHERE slices.dataset <> 'accounts')
                THEN 'note' ELSE 'error' END AS severity,
           CASE kind WHEN 'missing' THEN 'It was never loaded.' WHEN 'incomplete' THEN 'Days of it were never loaded.'
                ELSE 'It was not read up to the present day for more than {READ_WITHIN_HOURS} hours.' END AS message,
           'Check that the schedules and the daemon run; then launch the job refresh_now, '
           'or run `seller-platform sync`.' AS next_step
    FROM platform.unread_slices(now(), coalesce((SELECT first_day FROM platform.history_start), (
        SELECT min(slices.month) FROM platform.slices), current_date)) AS unread
    JOIN platform.accounts ON key = account
    """,  # noqa: S608  # constants
)


def create_unread_slices(connection: Connection) -> None:
    """Create the view of what is offered, and the function that returns what is unread, anew."""
    driver = driver_of(connection)
    declared = sql.SQL("({}, {}, {})")
    datasets = [declared.format(each.name, each.is_dated, each.is_computed) for each in REFRESHED]
    computed = [dataset.name for dataset in REFRESHED if dataset.is_computed]
    query = _OFFERED.format(datasets=sql.SQL(", ").join(datasets), computed=sql.Literal(computed))
    comment = "What each upstream offers of each account."
    create_view(driver, "platform.offered_slices", query, comment, _COLUMNS_OF_OFFERED)
    driver.execute(_UNREAD)
