"""Counts the stored rows of slices again, so that a change by another program is seen without another load."""

from psycopg import sql

from seller_platform.contract import Dataset, Slicing, Source, Window
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.tables import SELLER

Part = tuple[str, Window | None]
"""An account with its month, or without one where the slices are no months; of accounts the connection."""

# A load that ends meanwhile has changed `load_id`; its slice is left to the next recount.
_RECOUNT = """
UPDATE platform.slices AS slice SET recounted_rows = nullif(counted.rows, slice.rows)
FROM (
    SELECT kept.account, kept.month, kept.load_id, (SELECT count(*) FROM {table} AS stored WHERE {inside}) AS rows
    FROM platform.slices AS kept JOIN platform.loads AS newest ON newest.id = kept.load_id
    WHERE kept.dataset = %(dataset)s
) AS counted
WHERE slice.dataset = %(dataset)s AND slice.account = counted.account
  AND slice.month IS NOT DISTINCT FROM counted.month AND slice.load_id = counted.load_id
  AND slice.recounted_rows IS DISTINCT FROM nullif(counted.rows, slice.rows)
"""
_OF_MONTH = """
stored.account = kept.account AND stored.{day} >= kept.month AND stored.{day} < kept.month + interval '1 month'
"""
_OF_LOAD = """
stored.account = kept.account AND stored.{day} >= newest.window_start AND stored.{day} < newest.window_end
"""


def recount(database: Database, dataset: Dataset) -> None:
    """Store in `platform.slices` how many rows are stored of each slice, where these are not those of its loads.

    Of a list without days, the rows of its newest load are counted; of reports those of the newest one.
    """
    day = sql.Identifier(dataset.slice_column)
    if dataset.slicing is Slicing.CONNECTION:
        inside: sql.Composable = sql.SQL("stored.{} = kept.account").format(day)
    else:
        inside = sql.SQL(_OF_MONTH if dataset.is_dated else _OF_LOAD).format(day=day)
    if dataset.source is Source.REPORT:
        inside += sql.SQL(" AND stored.report_id = newest.notes ->> 'report_id'")
    statement = sql.SQL(_RECOUNT).format(table=sql.Identifier(SELLER, dataset.name), inside=inside)
    with database.begin() as connection:
        driver_of(connection).execute(statement, {"dataset": dataset.name})
