"""The endpoints of reports: request, status, download.

A report is read with a selection of accounts that has all of the report's among it.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from seller_platform.clocks import Clock
from seller_platform.contract.wire import REPORT_DOWNLOAD, REPORT_REQUEST, REPORT_STATUS
from seller_platform.errors import InvalidParametersError, ReportNotReadyError
from seller_platform.service.access import (
    SELECTION,
    SelectedAccounts,
    authenticate,
    read_selector,
    select_accounts,
)
from seller_platform.service.http.bodies import read_json
from seller_platform.service.http.parameters import (
    Parameter,
    Query,
    choice_parameter,
    count_parameter,
    day_parameter,
    text_parameter,
)
from seller_platform.service.http.responses import JSON, json_answer
from seller_platform.service.lists.endpoints import keeps_own_currency
from seller_platform.service.lists.products import SKU, ProductSelector, find_skus
from seller_platform.service.lists.replica import Need, require_read
from seller_platform.service.metrics import note_rows
from seller_platform.service.openapi.operations import Description, row_schema
from seller_platform.service.openapi.routes import Route
from seller_platform.service.pool import Store
from seller_platform.service.reports.csv import csv_parts
from seller_platform.service.reports.jobs import (
    COMPLETED,
    FAILED,
    PROCESSING,
    RETENTION_DAYS,
    ReportRequest,
    ReportRequestJob,
    find_report,
    read_chunks,
    request_report,
)
from seller_platform.service.reports.writing import DATASET_OF, DPS_DATE, LAST_UPDATED_DATE, PRODUCT_SKU, chosen_rows

_DPS_DATE = day_parameter(DPS_DATE, "The daily product sales of that day.")
_PRODUCT_SKU = text_parameter(
    PRODUCT_SKU, "The daily product sales of that SKU, on all days; of a copy, on all since the first that was read."
)
_LAST_UPDATED_DATE = day_parameter(
    LAST_UPDATED_DATE, "The orders updated on that day or later; an order counts as updated on the day it was placed."
)
_SELECTORS: tuple[Parameter[Any], ...] = (_DPS_DATE, _PRODUCT_SKU, _LAST_UPDATED_DATE)
_REPORT_ID = count_parameter("report_id", "Number of the report.")
_FORMAT = choice_parameter("format", "The form of the rows; by default json.", ("csv", "json"), required=False)

_RETRY_SECONDS = 2
_MESSAGES = {
    PROCESSING: "The report is being written. Ask for its status again in a few seconds.",
    COMPLETED: f"The report is ready. Download it within {RETENTION_DAYS} days of its request.",
}
_CSV = "text/csv; charset=utf-8; header=present"
_MESSAGE = {"type": "string", "description": "How far the report is, and what to do next, in a sentence."}
_STATUS_FIELDS = {
    "status": {
        "enum": [PROCESSING, COMPLETED, FAILED],
        "description": "How the report is: still being written, ready for download, or given up.",
    },
    "progress": {
        "type": "integer",
        "minimum": 0,
        "maximum": 100,
        "description": "How much of it is written, in percent; never falls.",
    },
    "message": _MESSAGE,
}

_REQUEST = {
    "title": "ReportRequest",
    "type": "object",
    "examples": [{"account_title": "Shop US", "dps_date": "2026-03-01"}],
}


def report_routes(store: Store, clock: Clock) -> tuple[Route, ...]:
    """Return the endpoints of reports."""

    async def answer_request(request: Request) -> Response:
        async with store.connection() as connection:
            caller = await authenticate(connection, request.headers)
        query = Query(request.scope["query_string"])
        query.join(await read_json(request), (*SELECTION, *_SELECTORS))
        selector, asked = read_selector(query), _read_request(query)
        query.check()
        async with store.connection() as connection:
            selected = await select_accounts(connection, caller, selector)
            _refuse_mixed_currencies(selected, asked)
            await require_read(connection, selected, [_need(asked, selected)], clock())
            if asked.selector == PRODUCT_SKU:
                await find_skus(connection, selected, ProductSelector(SKU.name, asked.value))
            report_id = await request_report(connection, caller, selector, selected, asked)
        return json_answer({"report_id": str(report_id), "status": PROCESSING, "message": _MESSAGES[PROCESSING]})

    async def answer_status(request: Request) -> Response:
        _, job = await _find(store, request)
        message = job.problem or _MESSAGES.get(job.state, "The report failed.")
        return json_answer({"status": job.state, "progress": job.progress, "message": message})

    async def answer_download(request: Request) -> Response:
        form, job = await _find(store, request)
        if job.state == FAILED:
            raise ReportNotReadyError(f"report {job.id} failed: {job.problem}")
        if job.state != COMPLETED:
            raise ReportNotReadyError(
                f"report {job.id} is being written ({job.progress} percent); try again in {_RETRY_SECONDS} seconds",
                retry_after_seconds=_RETRY_SECONDS,
            )
        content = _counted(request, job, read_chunks(store, job))
        if form == "csv":
            headers = {"Content-Disposition": f'attachment; filename="report-{job.id}.csv"'}
            columns = [column.name for column in DATASET_OF[job.selector].columns]
            return StreamingResponse(csv_parts(columns, content), media_type=_CSV, headers=headers)
        return StreamingResponse(_as_json(content), media_type=JSON)

    return (
        Route(REPORT_REQUEST, answer_request, _request_description(), "POST"),
        Route(REPORT_STATUS, answer_status, _status_description()),
        Route(REPORT_DOWNLOAD, answer_download, _download_description()),
    )


def _read_request(query: Query) -> ReportRequest:
    sent = [parameter for parameter in _SELECTORS if query.has(parameter)]
    values = [query.value(parameter) for parameter in sent]
    if len(sent) != 1:
        names = ", ".join(parameter.name for parameter in sent) or "none of them"
        allowed = ", ".join(parameter.name for parameter in _SELECTORS)
        query.refuse("selector", f"must be exactly one of {allowed}; {names} was sent")
        return ReportRequest(DPS_DATE, "")
    return ReportRequest(sent[0].name, str(values[0]))


def _need(asked: ReportRequest, selected: SelectedAccounts) -> Need:
    """Return what a report is made of; of a copy nobody knows what lies before the first day that was read."""
    chosen = chosen_rows(asked.selector, asked.value)
    days = None if chosen.sku is not None else [chosen.days] * len(selected.accounts)
    return Need(DATASET_OF[asked.selector], asked.selector, days)


def _refuse_mixed_currencies(selected: SelectedAccounts, asked: ReportRequest) -> None:
    """Return if nobody can mistake one currency in the report for another: its rows may not name theirs."""
    kept = sorted({account.currency_code or "an unknown currency" for account in selected.accounts})
    if len(kept) > 1 and keeps_own_currency(DATASET_OF[asked.selector]):
        problem = f"selects accounts that keep {', '.join(kept)}; request a report for each currency"
        raise InvalidParametersError({"group_title": [problem]})


async def _find(store: Store, request: Request) -> tuple[str, ReportRequestJob]:
    """Return the report that a request names, and the form that it asks for."""
    async with store.connection() as connection:
        caller = await authenticate(connection, request.headers)
        query = Query(request.scope["query_string"])
        selector, report_id, form = read_selector(query), query.value(_REPORT_ID), query.value(_FORMAT)
        if not query.has(_REPORT_ID):
            query.refuse(_REPORT_ID.name, "is required; POST /reports/request answers it")
        query.check()
        selected = await select_accounts(connection, caller, selector)
        return form or "json", await find_report(connection, caller, selected, report_id or 0)


async def _counted(request: Request, job: ReportRequestJob, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks, and note their rows once the last is taken."""
    async for chunk in chunks:
        yield chunk
    note_rows(request, job.rows or 0)


async def _as_json(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    separator = b"["
    async for chunk in chunks:
        yield separator + chunk
        separator = b",\n"
    yield b"]" if separator == b",\n" else b"[]"


def _request_description() -> Description:
    fields = (*SELECTION, *_SELECTORS)
    properties = {parameter.name: {**parameter.schema, "description": parameter.doc} for parameter in fields}
    return Description(
        "request_report",
        "reports",
        "Request a report: parameters in the query or as fields of a JSON body.",
        "Exactly one of `dps_date`, `product_sku` and `last_updated_date` says what the report holds. It is "
        f"written in the background; ask for its status, download it when it is completed, within {RETENTION_DAYS} "
        "days of the request. Its rows are those of one moment and never change. A request is not repeated by "
        "itself: sent twice, it makes two reports.\n\nAmounts are not converted: a group whose accounts keep "
        "several currencies can have a report only of rows that name theirs, the orders.",
        {
            "type": "object",
            "required": ["report_id", "status", "message"],
            "properties": {
                "report_id": {
                    "type": "string",
                    "pattern": "^[0-9]+$",
                    "description": "Number of the report, for its status and its download.",
                },
                "status": {"const": PROCESSING, "description": "Always `processing`."},
                "message": _MESSAGE,
            },
        },
        fields,
        (401, 404, 413, 415, 422, 503),
        extra={"requestBody": {"content": {JSON: {"schema": {**_REQUEST, "properties": properties}}}}},
    )


def _status_description() -> Description:
    return Description(
        "read_report_status",
        "reports",
        "Tell how far a report is.",
        "The accounts selected must be those of the request, or more. A report that failed stays failed: the "
        "message says why, and a new request makes another. A report that is another user's, or expired, is not "
        "found.",
        {"type": "object", "required": list(_STATUS_FIELDS), "properties": _STATUS_FIELDS},
        (*SELECTION, replace(_REPORT_ID, required=True)),
        (401, 404, 422, 503),
    )


def _download_description() -> Description:
    kinds = (row_schema(dataset.name, dataset.columns) for dataset in dict.fromkeys(DATASET_OF.values()))
    described = Description(
        "download_report",
        "reports",
        "Download a completed report.",
        "The rows come as they are in the lists: as one JSON array, or with `format=csv` as CSV (RFC 4180, UTF-8, "
        "with a header), in which a cell that a spreadsheet would run as a formula begins with an apostrophe. While "
        "the report is being written the answer is 409, with `Retry-After`; without it the report failed. A "
        "download may be repeated as long as the report is kept. The accounts selected must be those of the "
        "request, or more.",
        {"type": "array", "items": {"oneOf": list(kinds)}},
        (*SELECTION, replace(_REPORT_ID, required=True), _FORMAT),
        (401, 404, 409, 422, 503),
    )
    responses = dict(described.operation["responses"])
    content = {**responses["200"]["content"], "text/csv": {"schema": {"type": "string"}}}
    responses["200"] = {**responses["200"], "content": content}
    return replace(described, extra={"responses": responses})
