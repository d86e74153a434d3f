"""The view `platform.problems`: what is wrong now, one row for each thing, and what it is made of.

It is created anew after each upgrade, because it follows from the contract.
"""

from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import REFRESHED
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.comments import comment_on_view

READ_WITHIN_HOURS = 26
"""The refresh reads every account once a day; two hours are for its runs."""

# Days count as missing when a daily refresh should have brought them. Not every upstream offers what upstreams compute.
_UNREAD = sql.SQL("""
CREATE FUNCTION platform.unread_slices (moment timestamptz, since date)
RETURNS TABLE (dataset text, account text, month date, kind text) LANGUAGE sql STABLE AS $$
    WITH listed AS (
        SELECT key AS account FROM platform.accounts WHERE retired_at IS NULL
    ),
    declared AS (
        SELECT * FROM (VALUES {datasets}) AS declared (dataset, is_dated, is_computed)
        WHERE NOT is_computed OR EXISTS (
            SELECT FROM platform.slices WHERE slices.dataset = declared.dataset AND load_id IS NOT NULL)
    ),
    due AS (
        SELECT month, first, first + days - 1 AS last
        FROM (SELECT moment AT TIME ZONE 'UTC' AS today, CAST(since AS timestamp) AS begin) AS history,
             generate_series(date_trunc('month', begin), greatest(today, begin), interval '1 month') AS series,
             LATERAL (SELECT CAST(series AS date) AS month, CAST(series + interval '1 month' AS date) AS after,
                             CAST(today - interval '{hours} hours' AS date) AS until) AS days_of,
             LATERAL (SELECT greatest(month, since) AS start) AS begun,
             LATERAL (SELECT CAST(extract(day FROM start) AS integer) AS first,
                             least(after, until) - start AS days) AS counted
        WHERE days > 0
    )
    SELECT dataset, account, month,
           CASE WHEN load_id IS NULL THEN 'missing'
                WHEN array_position(days_read[first:last], NULL) IS NOT NULL THEN 'incomplete' END AS kind
    FROM (SELECT dataset FROM declared WHERE is_dated) AS dated CROSS JOIN listed
    CROSS JOIN due
    LEFT JOIN platform.slices USING (dataset, account, month)
    WHERE load_id IS NULL OR array_position(days_read[first:last], NULL) IS NOT NULL
    UNION ALL
    SELECT dataset, listed.account, NULL, CASE WHEN load_id IS NULL THEN 'missing' ELSE 'late' END
    FROM (SELECT dataset FROM declared WHERE NOT is_dated) AS undated CROSS JOIN listed
    LEFT JOIN platform.slices USING (dataset, account)
    WHERE load_id IS NULL OR read_at < moment - interval '{hours} hours'
$$
""")

_PROBLEMS = sql.SQL("""
CREATE VIEW platform.problems AS
SELECT dataset, account, month,
       CASE WHEN error = 'RequestsUsedUpError' THEN 'postponed' ELSE 'failed' END AS kind, failed_since AS since,
       CAST(NULL AS bigint) AS load_id, message
FROM platform.slices
WHERE error IS NOT NULL AND (error <> 'ReadingHeldError' OR held_load_ids = '{{}}')
UNION ALL
SELECT slice.dataset, slice.account, month, 'held', held.started_at, held.id, held.notes #>> '{{held,reason}}'
FROM platform.slices AS slice JOIN platform.loads AS held ON held.id = ANY (held_load_ids)
WHERE held_load_ids <> '{{}}'
UNION ALL
SELECT slice.dataset, slice.account, month, 'mismatched', load.started_at, load.id,
       format('The list announced %s rows, and %s were read.', announced, load.rows)
FROM platform.slices AS slice JOIN platform.loads AS load ON load.id = ANY (mismatched_load_ids)
WHERE mismatched_load_ids <> '{{}}'
UNION ALL
SELECT dataset, account, month, kind, NULL, NULL,
       CASE kind WHEN 'missing' THEN 'It was never loaded.' WHEN 'incomplete' THEN 'Days of it were never loaded.'
            ELSE 'It was not read for more than {hours} hours.' END
FROM platform.unread_slices(now(), coalesce((SELECT first_day FROM platform.history_start),
                                            (SELECT min(month) FROM platform.slices), current_date))
UNION ALL
SELECT 'accounts', connection, NULL, 'refused', NULL, NULL, refused
FROM platform.grants WHERE refused IS NOT NULL
""")

_COLUMNS = {
    "dataset": "The table in schema seller.",
    "account": "Key of the account; of the dataset accounts the connection.",
    "month": "The first day of the month; null where the list has no days.",
    "kind": "failed, postponed, held, mismatched, missing, incomplete, late; of a grant refused.",
    "since": "Since when, where that is known.",
    "load_id": "The load that shows it, where there is one: platform.loads.id.",
    "message": "What happened.",
}


def create_problems(connection: Connection) -> None:
    """Create the view and its function anew."""
    driver = driver_of(connection)
    driver.execute("DROP VIEW IF EXISTS platform.problems")
    driver.execute("DROP FUNCTION IF EXISTS platform.unread_slices")
    datasets = [
        sql.SQL("({}, {}, {})").format(dataset.name, dataset.is_dated, dataset.is_computed) for dataset in REFRESHED
    ]
    hours = sql.SQL(str(READ_WITHIN_HOURS))
    driver.execute(_UNREAD.format(datasets=sql.SQL(", ").join(datasets), hours=hours))
    driver.execute("COMMENT ON FUNCTION platform.unread_slices IS 'Slices that should have been read until a moment.'")
    driver.execute(_PROBLEMS.format(hours=hours))
    comment_on_view(driver, "problems", "What is wrong with slices and grants now, one row for each thing.", _COLUMNS)
