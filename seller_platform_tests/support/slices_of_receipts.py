"""Computes every slice from its receipts with one statement, beside the trigger that writes them one by one."""

from typing import Any

import psycopg
from psycopg import sql

from seller_platform.contract import DATASETS
from seller_platform.warehouse.schema.tables import SELLER

_FILL = sql.SQL("""
WITH receipt AS MATERIALIZED (
    SELECT *, platform.month_of_slice(dataset, window_start) IS NULL AND verdict <> 'held' AND EXISTS (
                  SELECT FROM platform.loads AS newer
                  WHERE newer.dataset = load.dataset AND newer.account = load.account AND newer.id < load.id
                    AND newer.verdict <> 'held' AND newer.window_start > load.window_start) AS is_older
    FROM platform.loads AS load
),
load AS MATERIALIZED (
    SELECT is_older, verdict <> 'held' AND NOT is_older AS is_newest,
           id, dataset, account, platform.month_of_slice(dataset, window_start) AS month, window_start, window_end,
           rows, verdict, changed, started_at, time_zone, currency, verdict = 'held' AS is_held,
           platform.noted_kinds(notes, restatement) <> '{{}}' AS is_noted,
           verdict <> 'held' AND NOT is_older AND notes -> 'reverts_load' IS NULL AS is_reading,
           window_end > CAST(started_at AT TIME ZONE coalesce(time_zone, 'UTC') AS date) AS has_today
    FROM receipt
),
slice AS MATERIALIZED (
    SELECT dataset, account, month, max(id) FILTER (WHERE is_newest) AS load_id,
           max(id) FILTER (WHERE NOT is_held AND changed) AS changed_load_id,
           min(window_start) FILTER (WHERE NOT is_held AND month IS NULL) AS first_day,
           max(window_start) FILTER (WHERE NOT is_held AND month IS NULL) AS newest_day,
           (array_agg(started_at ORDER BY id DESC) FILTER (WHERE is_reading))[1] AS read_at,
           (array_agg(started_at ORDER BY id DESC) FILTER (WHERE is_reading AND has_today))[1] AS current_at,
           (array_agg(time_zone ORDER BY id DESC) FILTER (WHERE is_newest AND time_zone IS NOT NULL))[1] AS time_zone,
           (array_agg(currency ORDER BY id DESC) FILTER (WHERE is_newest AND currency IS NOT NULL))[1] AS currency,
           array_agg(id) FILTER (WHERE verdict = 'mismatch' AND NOT is_older) AS mismatches,
           array_agg(id) FILTER (WHERE is_held) AS holds,
           array_agg(id) FILTER (WHERE is_noted AND is_newest) AS notes
    FROM load
    GROUP BY dataset, account, month
),
reading AS (
    SELECT load.*, coalesce(load.time_zone <> slice.time_zone OR load.currency <> slice.currency, false) AS is_of_other
    FROM load JOIN slice USING (dataset, account, month)
    WHERE is_reading AND month IS NOT NULL
),
day_read AS (
    SELECT DISTINCT ON (dataset, account, month, day) dataset, account, month, day, started_at
    FROM (SELECT *, max(id) FILTER (WHERE is_of_other) OVER (PARTITION BY dataset, account, month) AS stale_to
          FROM reading) AS reading,
         generate_series(CAST(extract(day FROM window_start) AS integer),
                         CAST(extract(day FROM window_end - 1) AS integer)) AS day
    WHERE id > coalesce(stale_to, 0)
    ORDER BY dataset, account, month, day, id DESC
),
days AS (
    SELECT dataset, account, month, array_agg(started_at ORDER BY number) AS days_read
    FROM (SELECT DISTINCT dataset, account, month FROM day_read) AS slice
    CROSS JOIN generate_series(1, 31) AS number
    LEFT JOIN (SELECT dataset, account, month, day AS number, started_at FROM day_read) AS day
              USING (dataset, account, month, number)
    GROUP BY dataset, account, month
)
INSERT INTO platform.slices (dataset, account, month, load_id, changed_load_id, verdict, first_day, newest_day, rows,
                             read_at, current_at, days_read, time_zone, currency, mismatched_load_ids, held_load_ids,
                             noted_load_ids)
SELECT slice.dataset, slice.account, slice.month, load_id, changed_load_id, verdict, first_day, newest_day,
       CASE WHEN load.id IS NULL THEN 0
            WHEN slice.month IS NULL OR load.window_start = slice.month
                                    AND load.window_end = slice.month + interval '1 month' THEN load.rows
            ELSE CASE slice.dataset {counts} ELSE 0 END END,
       read_at, current_at, days_read, slice.time_zone, slice.currency,
       platform.open_loads(mismatches), platform.open_loads(holds), platform.open_loads(slice.notes)
FROM slice
LEFT JOIN days USING (dataset, account, month)
LEFT JOIN load ON load.id = slice.load_id
ON CONFLICT (dataset, account, month) DO UPDATE SET
    load_id = excluded.load_id, changed_load_id = excluded.changed_load_id, verdict = excluded.verdict,
    first_day = excluded.first_day, newest_day = excluded.newest_day, rows = excluded.rows,
    read_at = excluded.read_at, current_at = excluded.current_at, days_read = excluded.days_read,
    time_zone = excluded.time_zone, currency = excluded.currency,
    mismatched_load_ids = excluded.mismatched_load_ids, held_load_ids = excluded.held_load_ids,
    noted_load_ids = excluded.noted_load_ids
""")

_COUNT = sql.SQL(
    "WHEN {dataset} THEN (SELECT count(*) FROM {table} WHERE account = slice.account AND {day} >= slice.month "
    "AND {day} < slice.month + interval '1 month')"
)


def fill_slices(driver: psycopg.Connection[Any]) -> None:
    """Write the row of every slice from its receipts, with one statement. Why slices failed stays as it is."""
    counts = [
        _COUNT.format(
            dataset=sql.Literal(dataset.name),
            table=sql.Identifier(SELLER, dataset.name),
            day=sql.Identifier(dataset.slice_column),
        )
        for dataset in DATASETS
        if dataset.is_dated
    ]
    driver.execute(_FILL.format(counts=sql.SQL(" ").join(counts)))
