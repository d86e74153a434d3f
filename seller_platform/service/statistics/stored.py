"""Answers statistics of a replica from the rows that its upstream computed.

Products by month and days are datasets of their own, so that a replica has the upstream's rows. They answer a request
where the receipts say that exactly its days were read, and that the upstream did not compute them as a replica of
another one. All other statistics are computed from other datasets.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from seller_platform.contract import Dataset, Window
from seller_platform.contract.datasets.sales import SALES_BY_DATE, SALES_BY_PRODUCT
from seller_platform.service.lists.endpoints import START
from seller_platform.service.lists.page_queries import Need, PageQuery, RowPage, read_page
from seller_platform.service.lists.replica import find_gaps
from seller_platform.service.pool import Connection
from seller_platform.service.statistics.plan import Grouping, StatisticsRequest

_DATASETS: Mapping[Grouping, Dataset] = {
    Grouping("sku", "Month"): SALES_BY_PRODUCT,
    Grouping(None, "Date"): SALES_BY_DATE,
}

# Receipts and rows are of one moment, and a load in between changes neither.
_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

# An upstream that is a replica itself says which of its rows it computed.
_IS_EXACT = """
SELECT NOT EXISTS (
    SELECT FROM platform.published_loads AS load
    WHERE load.dataset = %(dataset)s AND load.account = %(account)s AND load.notes ? 'computed_by'
      AND load.window_start <= %(last_day)s AND load.window_end > %(first_day)s
) AND NOT EXISTS (
    SELECT FROM unnest(%(first_days)s::date[], %(end_days)s::date[]) AS part (first_day, end_day)
    LEFT JOIN LATERAL (
        SELECT load.window_start, load.window_end
        FROM platform.published_loads AS load
        WHERE load.dataset = %(dataset)s AND load.account = %(account)s
          AND load.window_start < part.end_day AND load.window_end > part.first_day
        ORDER BY load.id DESC
        LIMIT 1
    ) AS newest ON true
    WHERE (newest.window_start, newest.window_end) IS DISTINCT FROM (part.first_day, part.end_day)
)
"""


async def read_stored_statistics(connection: Connection, request: StatisticsRequest) -> RowPage | None:
    """Return a page of the upstream's own rows, in the account's currency; None where they are no answer."""
    dataset, selected = _DATASETS.get(request.grouping), request.selected
    if dataset is None or len(selected.accounts) != 1 or not selected.has_replicas:
        return None
    async with connection.transaction():
        await connection.execute(_ONE_MOMENT)
        if not await _is_stored(connection, dataset, request):
            return None
        query = PageQuery(dataset, replace(request.page, currency=None), request.days)
        page, _ = await read_page(connection, selected, query)
    return page


async def _is_stored(connection: Connection, dataset: Dataset, request: StatisticsRequest) -> bool:
    """Return whether the rows of a dataset are those of exactly the requested days, up to today.

    Rows that sum up their window count only for that window: the newest load that shares a day with it must have read
    the same days.
    """
    (account,), (requested,) = request.selected.accounts, request.days
    today = account.today(request.now)
    if requested.first > today:
        return False
    parts: list[Window] = []
    if not dataset.is_divisible:
        parts = list(Window(requested.first, min(requested.last, today) + timedelta(days=1)).months())
    values = {
        "dataset": dataset.name,
        "account": account.key,
        "first_day": requested.first,
        "last_day": requested.last,
        "first_days": [part.start for part in parts],
        "end_days": [part.end for part in parts],
    }
    if await (await connection.execute(_IS_EXACT, values)).fetchone() != (True,):
        return False
    needs = [Need(dataset, START.name, request.days)] if dataset.is_divisible else []
    return not await find_gaps(connection, request.selected, needs, request.now)
