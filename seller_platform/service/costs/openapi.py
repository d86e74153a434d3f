"""Describes the endpoints of cost periods for the OpenAPI document."""

from seller_platform.contract.cost_periods import LARGEST_AMOUNT
from seller_platform.contract.tokens import Scope
from seller_platform.service.access import SELECTION
from seller_platform.service.http.idempotency import KEY
from seller_platform.service.http.parameters import day_parameter, flag_parameter
from seller_platform.service.http.responses import JSON
from seller_platform.service.lists.products import PRODUCT, SKU
from seller_platform.service.openapi.operations import INTEGER, TEXT, Description, object_schema, success_schema

FROM_DATE = day_parameter("from_date", "First day of the one period to delete; goes with `to_date`.")
TO_DATE = day_parameter("to_date", "Last day of the one period to delete; goes with `from_date`.")
DRY_RUN = flag_parameter("dry_run", "Delete nothing, and answer how many periods would be deleted.")

_DAY = {"type": "string", "format": "date"}
_MONEY = {"type": ["number", "null"], "minimum": 0, "exclusiveMaximum": int(LARGEST_AMOUNT)}
_RATE = {"type": ["string", "null"]}
_UNITS = {"type": ["number", "null"], "exclusiveMinimum": 0}
_TEXT = {"type": ["string", "null"], "maxLength": 1000}
_NAME = {"type": "string", "minLength": 1, "maxLength": 1000}
_CURRENCY = {"type": "string", "pattern": "^[A-Z]{3}$"}
_DOCS = {
    "cost_element": "A cost category, such as Manufacturing.",
    "currency": "ISO 4217 code of `amount`.",
    "total_currency": "ISO 4217 code of `total_amount`; with a `conversion_rate` of 1, also of `amount`.",
    "provider": "Who is paid.",
    "notes": "Anything worth remembering.",
    "cost_elements": "What the costs are made of.",
}
_ELEMENT = object_schema(
    "CostElement",
    {
        "cost_element": (TEXT, _DOCS["cost_element"]),
        "amount": ({"type": "number"}, "What it costs for one unit."),
        "currency": (TEXT, _DOCS["currency"]),
        "provider": (_TEXT, _DOCS["provider"]),
        "notes": (_TEXT, _DOCS["notes"]),
    },
    required=(),
)
_PERIOD = object_schema(
    "CostPeriod",
    {
        "from_date": (_DAY, "First day on which the costs hold."),
        "to_date": ({**_DAY, "type": ["string", "null"]}, "Last day on which they hold."),
        "cost_elements": ({"type": "array", "items": _ELEMENT}, _DOCS["cost_elements"]),
        "account_title": (TEXT, "Title of the account; of a group only."),
        "seller_id": (_TEXT, "Seller of the account; of a group only."),
        "marketplace_id": (_TEXT, "Marketplace of the account; of a group only."),
        "sku": (TEXT, "The product; of a group, or where an ASIN names the product."),
    },
    required=("from_date", "to_date", "cost_elements"),
)
_PERIODS = object_schema(
    "", {"data": {"type": "array", "description": "The periods of each product, by their days.", "items": _PERIOD}}
)
_ELEMENT_INPUT = object_schema(
    "CostElementInput",
    {
        "cost_element": (_NAME, _DOCS["cost_element"]),
        "provider": (_TEXT, _DOCS["provider"]),
        "notes": (_TEXT, _DOCS["notes"]),
        "currency": (_CURRENCY, _DOCS["total_currency"]),
        "total_amount": (_MONEY, "What all units cost; from it follows `amount`."),
        "conversion_rate": (
            _RATE,
            'What `total_amount` is multiplied by: a positive decimal number; by default "1". With any other, `amount` '
            "is in the account's currency.",
        ),
        "units": (_UNITS, "How many units `total_amount` is for; by default 1."),
        "amount": (
            _MONEY,
            "total_amount * conversion_rate / units, in cents; sent with it, both must agree to the cent.",
        ),
    },
    required=("cost_element", "currency"),
)
_DATES = {"from_date": (_DAY, "The first of them."), "to_date": (_DAY, "The last of them, inclusive.")}
_PERIOD_INPUT = object_schema(
    "CostPeriodInput",
    {
        "dates": object_schema("", _DATES, description="The days on which the costs hold."),
        "cost_elements": ({"type": "array", "minItems": 1, "items": _ELEMENT_INPUT}, _DOCS["cost_elements"]),
    },
)
_EXAMPLE = {
    "account_title": "Shop US",
    "sku": "MUG-BLUE-350",
    "data": [
        {
            "dates": {"from_date": "2026-03-01", "to_date": "2026-03-31"},
            "cost_elements": [
                {
                    "cost_element": "Manufacturing",
                    "provider": "Example Pottery",
                    "total_amount": 1250,
                    "conversion_rate": "1.08",
                    "units": 500,
                    "currency": "USD",
                },
                {"cost_element": "Freight", "amount": 0.45, "currency": "USD"},
            ],
        }
    ],
}
_INPUT = object_schema(
    "CostPeriods",
    {
        **{parameter.name: (TEXT, parameter.doc) for parameter in (*SELECTION, SKU)},
        "data": {
            "type": "array",
            "minItems": 1,
            "description": "The periods, no two of which may have a day in common.",
            "items": _PERIOD_INPUT,
        },
    },
    required=("data",),
    examples=[_EXAMPLE],
)
_DONE = "What was done, in a sentence."

READ = Description(
    "list_cost_periods",
    "costs",
    "List the cost periods of a product.",
    "The product is named by exactly one of `sku`, `asin` and `parent_asin`; an ASIN stands for every SKU that "
    "offers it. Its cost on a day is the sum of the elements of the periods that hold on that day, for one unit. "
    "There are no pages. A group answers with the periods of all its accounts, each with its account and its SKU; a "
    "product named by an ASIN with the SKU of each.",
    _PERIODS,
    (*SELECTION, *PRODUCT),
    (401, 404, 422, 503),
)
WRITE = Description(
    "write_cost_periods",
    "costs",
    "Store cost periods of a product, all or none; those with the same dates are replaced.",
    "Everything in the body is stored or nothing. Both ends of a period are included. A period with the same dates "
    "as a stored one replaces it; one that overlaps another with other dates is refused, and the answer names both. "
    "Periods that the body does not name stay. A group stores in all of its accounts, or in none. Statistics follow "
    "at once.\n\n`amount` is for one unit, and rounded to the cent. Where it is not sent it is `total_amount` * "
    "`conversion_rate` / `units`; where both are sent they must agree to the cent. `currency` is that of "
    "`total_amount`. With a `conversion_rate` other than 1 the amount is in the account's currency, and is read back "
    "with it; a group whose accounts keep several currencies is then refused.\n\n"
    "The product must be known to the account. An account whose rows are copied from another service takes no costs "
    "(403): the next copy would undo them.",
    success_schema(
        _DONE,
        {
            "sku": (TEXT, "The product."),
            "periods": (INTEGER, "How many periods were stored, in all accounts together."),
        },
    ),
    (*SELECTION, SKU, KEY),
    (401, 403, 404, 409, 413, 415, 422, 503),
    scope=Scope.COSTS_WRITE,
    extra={"requestBody": {"required": True, "content": {JSON: {"schema": _INPUT}}}},
)
DELETE = Description(
    "delete_cost_periods",
    "costs",
    "Delete the cost periods of a product, or the one with the given dates.",
    "The product is named by exactly one of `sku`, `asin` and `parent_asin`. `from_date` and `to_date` go together "
    "and name one period by exactly its dates; without them all periods of the product are deleted. A parameter or "
    "a field of the body that is not listed here is refused. Where no period is "
    "found the answer is 404, and nothing was deleted. Statistics follow at once. An account whose rows are copied "
    "from another service keeps its costs (403).",
    success_schema(_DONE, {"deleted": (INTEGER, "How many periods were deleted, or with `dry_run` would be.")}),
    (*SELECTION, *PRODUCT, FROM_DATE, TO_DATE, DRY_RUN),
    (401, 403, 404, 413, 415, 422, 503),
    scope=Scope.COSTS_WRITE,
)
