"""The endpoints of reports: request, status, download.

Status and download need a selection that includes all accounts of the report.
"""

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from seller_platform.clocks import Clock
from seller_platform.contract.tokens import Scope
from seller_platform.contract.wire import REPORT_DOWNLOAD, REPORT_REQUEST, REPORT_STATUS
from seller_platform.counts import count_of
from seller_platform.errors import ApiError
from seller_platform.service.access import SELECTION, authenticate, read_selector, select_accounts
from seller_platform.service.http.bodies import read_json
from seller_platform.service.http.idempotency import answer_once
from seller_platform.service.http.parameters import Query, SentParameter
from seller_platform.service.http.responses import JSON, json_answer
from seller_platform.service.limits.policy import ReportLimits
from seller_platform.service.lists.products import SKU, find_skus
from seller_platform.service.lists.replica import Need, require_read
from seller_platform.service.metrics import note_rows
from seller_platform.service.openapi.routes import Cost, Route
from seller_platform.service.pool import Connection, Store
from seller_platform.service.reports.csv import csv_parts
from seller_platform.service.reports.jobs import (
    COMPLETED,
    FAILED,
    PROCESSING,
    ReportRequestJob,
    find_report,
    read_chunks,
    request_report,
)
from seller_platform.service.reports.openapi import DOWNLOAD, FORMAT, REPORT_ID, SELECTORS, STATUS, request_description
from seller_platform.service.reports.writing import DATASET_OF, chosen_rows

_RETRY_SECONDS = 2
_CSV = "text/csv; charset=utf-8; header=present"


def report_routes(store: Store, clock: Clock, limits: ReportLimits) -> tuple[Route, ...]:
    """Return the endpoints of reports."""
    kept_days = limits.kept_days
    messages = {
        PROCESSING: "The report is being written. Ask for its status again in a few seconds.",
        COMPLETED: f"The report is ready. Download it within {count_of(kept_days, 'day')} of its request.",
    }

    async def answer_request(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request, Scope.REPORTS)
        body, query = await read_json(request), Query(request.scope["query_string"])

        async def store_request(connection: Connection) -> Response:
            query.join(body, (*SELECTION, *SELECTORS))
            selector, report = read_selector(query), query.only_one(SELECTORS, "selector")
            query.check()
            dataset, chosen = DATASET_OF[report.name], chosen_rows(report.name, report.value)
            selected = await select_accounts(connection, caller, selector)
            # Of a product, all days since the first that was read are needed; earlier days are unknown.
            days = None if chosen.sku is not None else [chosen.days] * len(selected.accounts)
            await require_read(connection, selected, [Need(dataset, report.name, days)], clock())
            if chosen.sku is not None:
                await find_skus(connection, selected, SentParameter(SKU.name, chosen.sku))
            report_id = await request_report(connection, caller, selector, selected, report=report, limits=limits)
            message = messages[PROCESSING]
            return json_answer({"report_id": str(report_id), "status": PROCESSING, "message": message})

        return await answer_once(
            store, request, body, store_request, user_id=caller.id, accounts=caller.consented_accounts
        )

    async def answer_status(request: Request) -> Response:
        _, job = await _find(store, request, kept_days)
        message = job.problem or messages.get(job.state, "The report failed.")
        return json_answer({"status": job.state, "progress": job.progress, "message": message})

    async def answer_download(request: Request) -> Response:
        form, job = await _find(store, request, kept_days)
        if job.state == FAILED:
            raise ApiError(f"report {job.id} failed: {job.problem}", status=409)
        if job.state != COMPLETED:
            raise ApiError(
                f"report {job.id} is being written ({job.progress} percent); try again in {_RETRY_SECONDS} seconds",
                status=409,
                retry_after_seconds=_RETRY_SECONDS,
            )
        content = _counted(request, job, read_chunks(store, job))
        if form == "csv":
            headers = {"Content-Disposition": f'attachment; filename="report-{job.id}.csv"'}
            columns = [column.name for column in DATASET_OF[job.selector].columns]
            return StreamingResponse(csv_parts(columns, content), media_type=_CSV, headers=headers)
        return StreamingResponse(_as_json(content), media_type=JSON)

    return (
        Route(REPORT_REQUEST, answer_request, request_description(limits), "POST"),
        Route(REPORT_STATUS, answer_status, STATUS, cost=Cost.QUICK),
        Route(REPORT_DOWNLOAD, answer_download, DOWNLOAD, cost=Cost.QUICK),
    )


async def _find(store: Store, request: Request, kept_days: int) -> tuple[str, ReportRequestJob]:
    """Return the requested format, and the report."""
    async with store.connection() as connection:
        caller = await authenticate(connection, request)
        query = Query(request.scope["query_string"])
        selector, report_id, form = read_selector(query), query.value(REPORT_ID), query.value(FORMAT)
        if not query.has(REPORT_ID):
            query.refuse(REPORT_ID.name, "is required; POST /reports/request answers it")
        query.check()
        selected = await select_accounts(connection, caller, selector)
        return form or "json", await find_report(connection, caller, selected, report_id or 0, kept_days=kept_days)


async def _counted(request: Request, job: ReportRequestJob, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks, then note the number of their rows."""
    async for chunk in chunks:
        yield chunk
    note_rows(request, job.rows or 0)


async def _as_json(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    separator = b"["
    async for chunk in chunks:
        yield separator + chunk
        separator = b",\n"
    yield b"]" if separator == b",\n" else b"[]"
