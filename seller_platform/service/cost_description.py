"""What the OpenAPI document says of the endpoints of cost periods."""

from collections.abc import Mapping

from seller_platform.service.access import SELECTION
from seller_platform.service.answers import JSON
from seller_platform.service.cost_bodies import LARGEST_AMOUNT
from seller_platform.service.description import Description
from seller_platform.service.parameters import day_parameter
from seller_platform.service.products import PRODUCT, SKU

FROM_DATE = day_parameter("from_date", "First day of the one period to delete; goes with `to_date`.")
TO_DATE = day_parameter("to_date", "Last day of the one period to delete; goes with `from_date`.")

_DAY = {"type": "string", "format": "date"}
_MONEY = {"type": ["number", "null"], "minimum": 0, "exclusiveMaximum": int(LARGEST_AMOUNT)}
_TEXT = {"type": ["string", "null"], "maxLength": 1000}
_NAME = {"type": "string", "minLength": 1, "maxLength": 1000}
_ELEMENT = {
    "type": "object",
    "properties": {
        "cost_element": {"type": "string", "description": "A cost category, such as Manufacturing."},
        "amount": {"type": "number", "description": "What it costs for one unit."},
        "currency": {"type": "string", "description": "ISO 4217 code of `amount`."},
        "provider": {**_TEXT, "description": "Who is paid."},
        "notes": {**_TEXT, "description": "Anything worth remembering."},
    },
}
_PERIODS = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["from_date", "to_date", "cost_elements"],
                "properties": {
                    "from_date": {**_DAY, "description": "First day on which the costs hold."},
                    "to_date": {**_DAY, "type": ["string", "null"], "description": "Last day on which they hold."},
                    "cost_elements": {"type": "array", "items": _ELEMENT},
                },
            },
        }
    },
}
_ELEMENT_INPUT = {
    "type": "object",
    "required": ["cost_element", "currency"],
    "properties": {
        "cost_element": _NAME,
        "provider": _TEXT,
        "notes": _TEXT,
        "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "total_amount": {**_MONEY, "description": "What all units cost; from it follows `amount`."},
        "conversion_rate": {"type": ["string", "null"], "description": 'A positive decimal number; by default "1".'},
        "units": {"type": ["number", "null"], "exclusiveMinimum": 0, "description": "By default 1."},
        "amount": {
            **_MONEY,
            "description": "total_amount * conversion_rate / units; sent with it, both must agree to the cent.",
        },
    },
}
_INPUT = {
    "type": "object",
    "required": ["data"],
    "properties": {
        **{parameter.name: {"type": "string", "description": parameter.doc} for parameter in (*SELECTION, SKU)},
        "data": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["dates", "cost_elements"],
                "properties": {
                    "dates": {
                        "type": "object",
                        "required": ["from_date", "to_date"],
                        "properties": {"from_date": _DAY, "to_date": _DAY},
                    },
                    "cost_elements": {"type": "array", "minItems": 1, "items": _ELEMENT_INPUT},
                },
            },
        },
    },
}


def _done_schema(facts: Mapping[str, object]) -> dict[str, object]:
    told = {"status": {"const": "success"}, "code": {"type": "integer"}, "message": {"type": "string"}}
    properties = {**told, **facts}
    return {"type": "object", "required": list(properties), "properties": properties}


READ = Description(
    "list_cost_periods",
    "costs",
    "List the cost periods of a product.",
    _PERIODS,
    (*SELECTION, *PRODUCT),
    (401, 404, 422, 503),
)
WRITE = Description(
    "write_cost_periods",
    "costs",
    "Store cost periods of a product, all or none; those with the same dates are replaced.",
    _done_schema({"sku": {"type": "string"}, "periods": {"type": "integer"}}),
    (*SELECTION, SKU),
    (401, 403, 404, 413, 415, 422, 503),
    extra={"requestBody": {"required": True, "content": {JSON: {"schema": _INPUT}}}},
)
DELETE = Description(
    "delete_cost_periods",
    "costs",
    "Delete the cost periods of a product, or the one with the given dates.",
    _done_schema({"deleted": {"type": "integer"}}),
    (*SELECTION, *PRODUCT, FROM_DATE, TO_DATE),
    (401, 403, 404, 413, 415, 422, 503),
)
