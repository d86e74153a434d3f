"""Counts the stored rows of slices again, so that a change by another program is seen without another load."""

from psycopg import sql

from seller_platform.contract import Dataset, Slicing, Source
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.tables import SELLER

# A load that ends meanwhile has changed `load_id`; its slice is left to the next recount.
_RECOUNT = """
UPDATE platform.slices AS slice SET recounted_rows = nullif(counted.rows, slice.rows)
FROM (
    SELECT kept.account, kept.month, kept.load_id, (SELECT count(*) FROM {table} AS stored WHERE {inside}) AS rows
    FROM platform.slices AS kept LEFT JOIN platform.loads AS newest ON newest.id = kept.load_id
    WHERE kept.dataset = %(dataset)s
) AS counted
WHERE slice.dataset = %(dataset)s AND slice.account = counted.account
  AND slice.month IS NOT DISTINCT FROM counted.month AND slice.load_id IS NOT DISTINCT FROM counted.load_id
  AND slice.recounted_rows IS DISTINCT FROM nullif(counted.rows, slice.rows)
"""
_OF_NO_LOAD = """
INSERT INTO platform.slices (dataset, account, month, recounted_rows)
SELECT %(dataset)s, account, first_day, count(*)
FROM {table} AS stored
CROSS JOIN LATERAL (SELECT CAST(date_trunc('month', CAST({day} AS timestamp)) AS date) AS first_day) AS of_day
WHERE NOT EXISTS (SELECT FROM platform.slices AS kept
                  WHERE (dataset, kept.account, month) = (%(dataset)s, stored.account, first_day))
GROUP BY account, first_day ON CONFLICT DO NOTHING
"""
_OF_MONTH = """
stored.account = kept.account AND stored.{day} >= kept.month AND stored.{day} < kept.month + interval '1 month'
"""
_OF_LOAD = """
stored.account = kept.account AND stored.{day} >= newest.window_start AND stored.{day} < newest.window_end
"""


def recount(database: Database, dataset: Dataset) -> None:
    """Store in `platform.slices` how many rows are stored of each slice, where these are not those of its loads.

    So are the rows of a month that was never loaded.
    Of a list without days, the rows of its newest load are counted; of reports those of the newest one.
    """
    day = sql.Identifier(dataset.slice_column)
    if dataset.slicing is Slicing.CONNECTION:
        inside: sql.Composable = sql.SQL("stored.{} = kept.account").format(day)
    else:
        inside = sql.SQL(_OF_MONTH if dataset.is_dated else _OF_LOAD).format(day=day)
    if dataset.source is Source.REPORT:
        inside += sql.SQL(" AND stored.report_id = newest.notes ->> 'report_id'")
    parts = {"table": sql.Identifier(SELLER, dataset.name), "inside": inside, "day": day}
    with database.begin() as connection:
        for statement in (_OF_NO_LOAD, _RECOUNT) if dataset.is_dated else (_RECOUNT,):
            driver_of(connection).execute(sql.SQL(statement).format(**parts), {"dataset": dataset.name})
