"""Writes a report: its rows, read at one moment, become chunks that never change.

A report of daily product sales holds the rows of that list, a report of orders those of the list of orders. The API
does not say when an order was updated. It counts as updated on the day it was placed, and on the day of the load that
brought its row, unless that load was the first of its day.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import date

from seller_platform.contract import Dataset
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, ORDERS
from seller_platform.service.access import Caller, Selector, select_accounts
from seller_platform.service.errors import NotAdmittedError, NotFoundError
from seller_platform.service.lists.endpoints import keeps_own_currency
from seller_platform.service.lists.page_queries import ChosenRows, Days, open_rows
from seller_platform.service.pool import Connection, Store, fetch_record
from seller_platform.service.reports.jobs import ReportRequestJob, stored_reports

DPS_DATE, PRODUCT_SKU, LAST_UPDATED_DATE = "dps_date", "product_sku", "last_updated_date"

DATASET_OF: Mapping[str, Dataset] = {
    DPS_DATE: DAILY_PRODUCT_SALES,
    PRODUCT_SKU: DAILY_PRODUCT_SALES,
    LAST_UPDATED_DATE: ORDERS,
}
"""The dataset whose rows a report holds, by the parameter that requests it."""

_OWNER = "SELECT id, name, email, status FROM service.users WHERE id = %s AND status = 'active'"
# At most 99: only a completed report has 100.
_PROGRESS = """
UPDATE service.report_jobs SET progress = greatest(progress, least(%s, 99)) WHERE id = %s AND state = 'processing'
"""
_CHUNK = "INSERT INTO service.report_chunks (report_id, position, rows) VALUES (%s, %s, %b)"
_COMPLETE = """
UPDATE service.report_jobs
SET state = 'completed', progress = 100, rows = %s, chunks = %s, bytes = %s, finished_at = now()
WHERE id = %s
"""


async def write_report(store: Store, connection: Connection, job: ReportRequestJob, *, most_bytes: int) -> None:
    """Write a reserved report chunk by chunk, in the transaction of the connection.

    Progress is stored on other connections, because it must be visible before the transaction ends.

    Args:
        most_bytes: How many bytes the reports of one user may take.

    Raises:
        ApiError: The report can never be written.
    """
    owner = await fetch_record(connection, Caller, _OWNER, (job.user_id,))
    if owner is None:
        raise NotFoundError("the user who requested the report may no longer use the service")
    # The token that requested it may have been for some of the user's accounts only.
    caller = replace(owner, consented_accounts=job.accounts)
    selected = await select_accounts(connection, caller, Selector(**job.selection))
    if sorted(selected.keys) != sorted(job.accounts):
        raise NotFoundError("the accounts selected are no longer those of the request; request the report again")
    dataset = DATASET_OF[job.selector]
    has_several = len(selected.currencies) > 1 and keeps_own_currency(dataset)
    chosen = replace(chosen_rows(job.selector, job.value), with_currency=has_several)
    position, written, size, noted = 0, 0, 0, time.monotonic()
    room = most_bytes - (await stored_reports(connection, owner.id))[1]  # less the bytes of the others
    async with open_rows(connection, dataset, selected, chosen) as cursor:
        while rows := await cursor.fetchmany(250):
            written += len(rows)
            position += 1
            text = ",".join(row for row, _ in rows).encode()
            await connection.execute(_CHUNK, (job.id, position, text))
            size += len(text)
            if size > room:
                raise NotAdmittedError(
                    f"the report is larger than the {max(0, room)} bytes that your other reports leave of "
                    f"{most_bytes}; request it again when they are deleted, or request less"
                )
            if time.monotonic() - noted > 0.25:
                noted = time.monotonic()
                async with store.connection() as other:
                    await other.execute(_PROGRESS, (written * 100 // rows[0][1], job.id))
    await connection.execute(_COMPLETE, (written, position, size, job.id))


def chosen_rows(selector: str, value: str) -> ChosenRows:
    """Return the rows that a report holds."""
    match selector:
        case "dps_date":
            day = date.fromisoformat(value)
            return ChosenRows(Days(day, day))
        case "product_sku":
            return ChosenRows(Days(date.min, date.max), sku=value)
        case _:
            return ChosenRows(Days(date.fromisoformat(value), date.max), with_changes=True)
