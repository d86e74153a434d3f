"""The endpoints of reports: request, status, download.

Status and download need a selection that includes all accounts of the report.
"""

from collections.abc import AsyncIterator
from datetime import date
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from seller_platform.clocks import Clock
from seller_platform.contract import Column, Kind
from seller_platform.contract.wire import REPORT_DOWNLOAD, REPORT_REQUEST, REPORT_STATUS
from seller_platform.counts import count_of
from seller_platform.service.access import SELECTION, Scope, authenticate, read_selector, select_accounts
from seller_platform.service.errors import ApiError
from seller_platform.service.http.bodies import read_json
from seller_platform.service.http.idempotency import KEY, answer_once
from seller_platform.service.http.parameters import Count, Parameter, Query, SentParameter, Text, about, choice_of
from seller_platform.service.http.responses import JSON, json_answer
from seller_platform.service.limits import Limits
from seller_platform.service.lists.endpoints import keeps_own_currency
from seller_platform.service.lists.page_queries import Need
from seller_platform.service.lists.products import SKU, find_skus
from seller_platform.service.lists.replica import require_read
from seller_platform.service.metrics import notes_of
from seller_platform.service.openapi import Cost, Operation, Route, body_type, row_type
from seller_platform.service.pool import Connection, Store
from seller_platform.service.reports.csv import csv_parts
from seller_platform.service.reports.jobs import ReportRequestJob, find_report, read_chunks, request_report
from seller_platform.service.reports.writing import DATASET_OF, DPS_DATE, LAST_UPDATED_DATE, PRODUCT_SKU, chosen_rows

SELECTORS: tuple[Parameter[Any], ...] = (
    Parameter[date](DPS_DATE, "The daily product sales of that day.", date),
    Parameter[str](
        PRODUCT_SKU,
        "The daily product sales of that SKU, on all days; of a copy, on all since the first that was read.",
        Text,
        example="MUG-BLUE-350",
    ),
    Parameter[date](
        LAST_UPDATED_DATE,
        "The orders that were placed or changed on that day or later, in the account's time zone.",
        date,
    ),
)
REPORT_ID = Parameter[int]("report_id", "Number of the report.", Count, required=True)
FORMAT = Parameter[str]("format", "The form of the rows; by default json.", choice_of("csv", "json"))

_FIELDS = (*SELECTION, *SELECTORS)
_EXAMPLE = {"account_title": "Shop US", "dps_date": "2026-03-01"}
_Message = Annotated[
    str,
    about(
        "How far the report is, and what to do next, in a sentence.",
        "The report is being written. Ask for its status again in a few seconds.",
    ),
]


class AcceptedReport(Struct):
    """A report that was requested."""

    report_id: Annotated[str, about("Number of the report, for its status and its download.", "17", pattern="^[0-9]+$")]
    status: Literal["processing"]
    message: _Message


class ReportProgress(Struct):
    """How far a report is."""

    status: Annotated[
        Literal["processing", "completed", "failed"],
        about("How the report is: still being written, ready for download, or given up."),
    ]
    progress: Annotated[int, Meta(ge=0, le=100, description="How much of it is written, in percent; never falls.")]
    message: _Message


STATUS = Operation(
    REPORT_STATUS,
    "read_report_status",
    "reports",
    "Tell how far a report is.",
    "The accounts selected must be those of the request, or more. A report that failed stays failed: the message says "
    "why, and a new request makes another. A report that is another user's, or expired, is not found.",
    ReportProgress,
    (*SELECTION, REPORT_ID),
    (401, 404, 422, 503),
)

_CURRENCY = Column("currency", Kind.TEXT, "ISO 4217 code of the amounts; of groups that keep several only.")
_ROWS = tuple(
    row_type(f"{dataset.name}_of_report", (*dataset.columns, _CURRENCY), optional={_CURRENCY.name})
    if keeps_own_currency(dataset)
    else row_type(dataset.name, dataset.columns)
    for dataset in dict.fromkeys(DATASET_OF.values())
)
DOWNLOAD = Operation(
    REPORT_DOWNLOAD,
    "download_report",
    "reports",
    "Download a completed report.",
    "The rows come as they are in the lists: as one JSON array, or with `format=csv` as CSV (RFC 4180, UTF-8, with a "
    "header), in which a cell that a spreadsheet would run as a formula begins with an apostrophe. While the report "
    "is being written the answer is 409, with `Retry-After`; without it the report failed. A download may be repeated "
    "as long as the report is kept. The accounts selected must be those of the request, or more.",
    parameters=(*SELECTION, REPORT_ID, FORMAT),
    refusals=(401, 404, 409, 422, 503),
    others={200: ("Success.", {JSON: _ROWS, "text/csv": str})},
)


def request_operation(limits: Limits) -> Operation:
    """Return the operation that takes requests for reports."""
    return Operation(
        REPORT_REQUEST,
        "request_report",
        "reports",
        "Request a report: parameters in the query or as fields of a JSON body.",
        "Exactly one of `dps_date`, `product_sku` and `last_updated_date` says what the report holds. It is written "
        "in the background; ask for its status, download it when it is completed, within "
        f"{count_of(limits.report_days, 'day')} of the request. Its rows are those of one moment and never change. A "
        "request that is sent twice makes two reports, unless both have the same `Idempotency-Key`.\n\nA user may "
        f"have {count_of(limits.open_reports, 'report')} under way, and {limits.report_bytes >> 20} MiB of stored "
        "ones; a request beyond is answered 429. Users take turns: one with many reports does not keep others "
        "waiting.\n\nAmounts are not converted. Where the accounts of a group keep several currencies, each row of "
        "daily product sales has `currency`, too.",
        AcceptedReport,
        (*_FIELDS, KEY),
        (401, 403, 404, 409, 413, 415, 422, 503),
        method="POST",
        scope=Scope.REPORTS,
        body={JSON: Annotated[body_type("ReportRequest", _FIELDS), Meta(examples=[_EXAMPLE])]},
        needs_body=False,
    )


_RETRY_SECONDS = 2
_CSV = "text/csv; charset=utf-8; header=present"


def report_routes(store: Store, clock: Clock, limits: Limits) -> tuple[Route, ...]:
    """Return the endpoints of reports."""
    kept_days = limits.report_days
    messages = {
        "processing": "The report is being written. Ask for its status again in a few seconds.",
        "completed": f"The report is ready. Download it within {count_of(kept_days, 'day')} of its request.",
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
            report_id = await request_report(connection, caller, selected, report=report, limits=limits)
            return json_answer(AcceptedReport(str(report_id), "processing", messages["processing"]))

        return await answer_once(
            store, request, body, store_request, user_id=caller.id, accounts=caller.consented_accounts
        )

    async def answer_status(request: Request) -> Response:
        _, job = await _find(store, request, kept_days)
        message = job.problem or messages.get(job.state, "The report failed.")
        return json_answer(ReportProgress(job.state, job.progress, message))

    async def answer_download(request: Request) -> Response:
        form, job = await _find(store, request, kept_days)
        if job.state == "failed":
            raise ApiError(f"report {job.id} failed: {job.problem}", status=409)
        if job.state != "completed":
            raise ApiError(
                f"report {job.id} is being written ({job.progress} percent); try again in {_RETRY_SECONDS} seconds",
                status=409,
                retry_after_seconds=_RETRY_SECONDS,
            )
        notes_of(request.scope).rows += job.rows or 0
        content = read_chunks(store, job)
        if form == "csv":
            headers = {"Content-Disposition": f'attachment; filename="report-{job.id}.csv"'}
            columns = [column.name for column in DATASET_OF[job.selector].columns]
            return StreamingResponse(csv_parts(columns, content), media_type=_CSV, headers=headers)
        return StreamingResponse(_as_json(content), media_type=JSON)

    return (
        Route(request_operation(limits), answer_request),
        Route(STATUS, answer_status, Cost.QUICK),
        Route(DOWNLOAD, answer_download, Cost.QUICK),
    )


async def _find(store: Store, request: Request, kept_days: int) -> tuple[str, ReportRequestJob]:
    """Return the requested format, and the report."""
    async with store.connection() as connection:
        caller = await authenticate(connection, request)
        query = Query(request.scope["query_string"])
        selector, report_id, form = read_selector(query), query.value(REPORT_ID), query.value(FORMAT)
        query.check()
        selected = await select_accounts(connection, caller, selector)
        return form or "json", await find_report(connection, caller, selected, report_id or 0, kept_days=kept_days)


async def _as_json(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    separator = b"["
    async for chunk in chunks:
        yield separator + chunk
        separator = b",\n"
    yield b"]" if separator == b",\n" else b"[]"
