"""Describes the endpoints of reports for the OpenAPI document."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from seller_platform.contract import Dataset
from seller_platform.contract.tokens import Scope
from seller_platform.counts import count_of
from seller_platform.service.access import SELECTION
from seller_platform.service.http.idempotency import KEY
from seller_platform.service.http.parameters import (
    Parameter,
    choice_parameter,
    count_parameter,
    day_parameter,
    text_parameter,
)
from seller_platform.service.http.responses import JSON
from seller_platform.service.limits.policy import ReportLimits
from seller_platform.service.lists.endpoints import keeps_own_currency
from seller_platform.service.openapi.operations import INTEGER, TEXT, Description, object_schema, row_schema
from seller_platform.service.reports.jobs import COMPLETED, FAILED, PROCESSING
from seller_platform.service.reports.writing import DATASET_OF, DPS_DATE, LAST_UPDATED_DATE, PRODUCT_SKU

_DPS_DATE = day_parameter(DPS_DATE, "The daily product sales of that day.")
_PRODUCT_SKU = text_parameter(
    PRODUCT_SKU, "The daily product sales of that SKU, on all days; of a copy, on all since the first that was read."
)
_LAST_UPDATED_DATE = day_parameter(
    LAST_UPDATED_DATE, "The orders that were placed or changed on that day or later, in the account's time zone."
)
SELECTORS: tuple[Parameter[Any], ...] = (_DPS_DATE, _PRODUCT_SKU, _LAST_UPDATED_DATE)
REPORT_ID = count_parameter("report_id", "Number of the report.")
FORMAT = choice_parameter("format", "The form of the rows; by default json.", ("csv", "json"), required=False)

_MESSAGE = (TEXT, "How far the report is, and what to do next, in a sentence.")
_PERCENT = {**INTEGER, "minimum": 0, "maximum": 100}
_STATE = {"enum": [PROCESSING, COMPLETED, FAILED]}

_FIELDS = (*SELECTION, *SELECTORS)
_REQUEST = object_schema(
    "ReportRequest",
    {parameter.name: (parameter.schema, parameter.doc) for parameter in _FIELDS},
    required=(),
    examples=[{"account_title": "Shop US", "dps_date": "2026-03-01"}],
)

STATUS = Description(
    "read_report_status",
    "reports",
    "Tell how far a report is.",
    "The accounts selected must be those of the request, or more. A report that failed stays failed: the "
    "message says why, and a new request makes another. A report that is another user's, or expired, is not "
    "found.",
    object_schema(
        "",
        {
            "status": (_STATE, "How the report is: still being written, ready for download, or given up."),
            "progress": (_PERCENT, "How much of it is written, in percent; never falls."),
            "message": _MESSAGE,
        },
    ),
    (*SELECTION, replace(REPORT_ID, required=True)),
    (401, 404, 422, 503),
)

_CURRENCY = ({"type": ["string", "null"]}, "ISO 4217 code of the amounts; of groups that keep several only.")


def _report_row(dataset: Dataset) -> Mapping[str, object]:
    row: dict[str, Any] = dict(row_schema(dataset.name, dataset.columns))
    if not keeps_own_currency(dataset):
        return row
    named = object_schema("", {"currency": _CURRENCY})["properties"]
    return {**row, "title": f"{row['title']}OfReport", "properties": {**row["properties"], **named}}


_ROWS = [_report_row(dataset) for dataset in dict.fromkeys(DATASET_OF.values())]
_IN_JSON = Description(
    "download_report",
    "reports",
    "Download a completed report.",
    "The rows come as they are in the lists: as one JSON array, or with `format=csv` as CSV (RFC 4180, UTF-8, "
    "with a header), in which a cell that a spreadsheet would run as a formula begins with an apostrophe. While "
    "the report is being written the answer is 409, with `Retry-After`; without it the report failed. A "
    "download may be repeated as long as the report is kept. The accounts selected must be those of the "
    "request, or more.",
    {"type": "array", "items": {"oneOf": _ROWS}},
    (*SELECTION, replace(REPORT_ID, required=True), FORMAT),
    (401, 404, 409, 422, 503),
)
_RESPONSES = dict(_IN_JSON.operation["responses"])
_CONTENT = {**_RESPONSES["200"]["content"], "text/csv": {"schema": {"type": "string"}}}
_RESPONSES["200"] = {**_RESPONSES["200"], "content": _CONTENT}
DOWNLOAD = replace(_IN_JSON, extra={"responses": _RESPONSES})


def request_description(limits: ReportLimits) -> Description:
    """Return the description of the endpoint that takes requests for reports."""
    return Description(
        "request_report",
        "reports",
        "Request a report: parameters in the query or as fields of a JSON body.",
        "Exactly one of `dps_date`, `product_sku` and `last_updated_date` says what the report holds. It is "
        "written in the background; ask for its status, download it when it is completed, within "
        f"{count_of(limits.kept_days, 'day')} of the request. Its rows are those of one moment and never change. A "
        "request that is sent "
        "twice makes two reports, unless both have the same `Idempotency-Key`.\n\n"
        f"A user may have {count_of(limits.open_reports, 'report')} under way, and "
        f"{limits.stored_bytes >> 20} MiB of stored ones; a request beyond is answered 429. Users take turns: one with "
        "many reports does not keep others waiting.\n\nAmounts are not converted. Where the "
        "accounts of a group keep several currencies, each row of daily product sales has `currency`, too.",
        object_schema(
            "",
            {
                "report_id": (
                    {**TEXT, "pattern": "^[0-9]+$"},
                    "Number of the report, for its status and its download.",
                ),
                "status": ({"const": PROCESSING}, "Always `processing`."),
                "message": _MESSAGE,
            },
        ),
        (*_FIELDS, KEY),
        (401, 403, 404, 409, 413, 415, 422, 503),
        scope=Scope.REPORTS,
        extra={"requestBody": {"content": {JSON: {"schema": _REQUEST}}}},
    )
