"""Builds the OpenAPI document from the descriptions of the routes."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from seller_platform.contract import DATASETS
from seller_platform.contract.statistics_views import COMBINED_VIEWS, DATE_VIEWS
from seller_platform.contract.tokens import SCOPES
from seller_platform.contract.wire import API_VERSION, AUTHORIZE, COMPUTED_BY, IDEMPOTENCY_KEY, TOKEN
from seller_platform.service.openapi.operations import row_title
from seller_platform.service.openapi.routes import Route

_ABOUT = (
    "The data of marketplace sellers: orders, sales, transactions, inventory, warehouse stock, shipments, "
    "notifications, product costs and reports.\n\n"
    "Access is by OAuth 2.0, authorization code flow. Parameters are read strictly: numbers are ASCII digits, days are "
    "YYYY-MM-DD, a parameter that is sent twice is refused, an unknown one is ignored, and refused by DELETE. Every "
    "answer carries an X-Request-Id; every error is JSON and says what to mend."
)
_AREAS = {
    "service": "Whether the service works.",
    "oauth": "How an application gets its tokens.",
    "user": "Whose token it is, and their accounts.",
    "sales": "Orders, daily sales, transactions, and statistics computed from them.",
    "inventory": "Stock in the marketplace's fulfilment network.",
    "warehouse": "Stock in the seller's own warehouses, and shipments.",
    "notifications": "What the seller should know about stock and prices.",
    "costs": "What the goods cost, to read and to write.",
    "reports": "Requested, written in the background, then downloaded.",
}
_HEADERS = {
    "X-Request-Id": "Names the request, in our log too; the caller's own, where it sent a usable one.",
    "WWW-Authenticate": "How to authenticate (RFC 6750).",
    "Retry-After": "Seconds after which trying again makes sense.",
    "RateLimit-Policy": "The limits of this token and its user: the requests (`q`) in a window of seconds (`w`). "
    "Absent where the service has none.",
    "RateLimit": "What is left of each limit: the requests (`r`), and the seconds (`t`) until all are available again.",
    "ETag": "Names the page as it is; sent back as `If-None-Match`, it gets status 304 while the page stays so.",
    "Link": 'The next page, with `rel="next"`, if there is one.',
    COMPUTED_BY: "`replica` where an account is a copy of another service's and the rows were computed here, not read "
    "from there; else absent.",
}
_HEADERS_OF = {
    "401": ("WWW-Authenticate",),
    "403": ("WWW-Authenticate",),
    "409": ("Retry-After",),
    "429": ("Retry-After",),
    "503": ("Retry-After",),
}
_RATE_HEADERS = ("RateLimit-Policy", "RateLimit")
_TEXTS = {"date": "2026-03-01", "date-time": "2026-03-01T09:30:00+01:00"}
_SCHEMAS = "#/components/schemas/"
# Fields that are no columns: by the name of the field, or by those of its schema and of the field.
_EXAMPLES: Mapping[str, object] = {
    IDEMPOTENCY_KEY: "8e03978e-40d5-43dd-bc93-6894a57f9324",
    "marketplace_id": "US",
    "group_title": "Europe",
    "start_date": "2026-03-01",
    "end_date": "2026-03-07",
    "product_sku": "MUG-BLUE-350",
    "page": 1,
    "as_of": "bnXkz1SW_7s6jvU2MTc3MjM2ODIwMTAwMDUwMCA2MDAgLTEyLjM0IDc3NCAx",
    "per_page": 500,
    "total": 1,
    "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    "cost_element": "Manufacturing",
    "conversion_rate": "1",
    "provider": "Example Pottery",
    "notes": "net of tax",
    "name": "Ann Example",
    "email": "ann@shop.example",
    "client_id": "CLIENT_ID",
    "client_secret": "CLIENT_SECRET",
    "redirect_uri": "https://app.example/callback",
    "resource": "https://api.example/mcp",
    "code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    "state": "STATE",
    "access_token": "ACCESS_TOKEN",
    "refresh_token": "REFRESH_TOKEN",
    "token": "REFRESH_TOKEN",
    "token_type_hint": "refresh_token",
    "scope": "read costs:write reports",
    "error_description": "the code is unknown, expired or was used before",
    "CodeExchange.code": "CODE",
    "User.status": "active",
    "code": 200,
    "message": "What was done, in a sentence.",
    "periods": 1,
}


def openapi_document(
    routes: Sequence[Route], oauth_paths: Mapping[str, dict[str, Any]], base_url: str
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a service.

    Args:
        oauth_paths: The path items of the OAuth server, which has no routes of its own here.
        base_url: The URL under which the service was reached.
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = route.description.operation
    paths |= oauth_paths
    schemas: dict[str, Any] = {}
    for item in paths.values():
        for name, operation in item.items():
            item[name] = _named(_completed(operation), schemas)
    used = dict.fromkeys(area for item in paths.values() for operation in item.values() for area in operation["tags"])
    return {
        "openapi": "3.1.0",
        "info": {"title": "Seller Analytics API", "version": API_VERSION, "description": _ABOUT},
        "servers": [{"url": base_url}],
        "tags": [{"name": area, "description": _AREAS[area]} for area in _AREAS if area in used],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "headers": {name: {"description": doc, "schema": {"type": "string"}} for name, doc in _HEADERS.items()},
            "securitySchemes": {
                "oauth2": {
                    "type": "oauth2",
                    "description": "Authorization code flow (RFC 6749), with PKCE if you like (RFC 7636).",
                    "flows": {
                        "authorizationCode": {
                            "authorizationUrl": f"{base_url}{AUTHORIZE}",
                            "tokenUrl": f"{base_url}{TOKEN}",
                            "refreshUrl": f"{base_url}{TOKEN}",
                            "scopes": {scope.value: doc for scope, doc in SCOPES.items()},
                        }
                    },
                },
                "bearer": {"type": "http", "scheme": "bearer", "description": "An access token that you have."},
            },
        },
    }


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield method, path and operation of every endpoint of a document."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def without_references(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with every reference to a schema replaced by the schema."""
    schemas = document["components"]["schemas"]

    def inline(described: Any) -> Any:
        if isinstance(described, list):
            return [inline(item) for item in described]
        if not isinstance(described, Mapping):
            return described
        reference = described.get("$ref", "")
        if isinstance(reference, str) and reference.startswith(_SCHEMAS):
            return inline(schemas[reference.removeprefix(_SCHEMAS)])
        return {name: inline(item) for name, item in described.items()}

    inlined: dict[str, Any] = inline(document)
    return inlined


def example_of(schema: Mapping[str, Any], name: str = "", owner: str = "") -> Any:
    """Return a value that a schema allows, for documentation."""
    fixed = [*schema.get("examples", ()), *([schema["const"]] if "const" in schema else ()), *schema.get("enum", ())]
    if fixed:
        return fixed[0]
    if "oneOf" in schema:
        return example_of(schema["oneOf"][0])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        title = schema.get("title", "")
        return {field: example_of(inner, field, title) for field, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [example_of(schema["items"])]
    examples = _examples()
    example = examples.get(f"{owner}.{name}", examples.get(name))
    if isinstance(example, {"integer": int, "string": str}.get(str(kind), ())):
        return example
    return {"integer": 1, "number": 12.5, "boolean": True, "string": _TEXTS.get(schema.get("format", ""), "text")}.get(
        str(kind)
    )


@cache
def _examples() -> Mapping[str, object]:
    """Return the examples of all fields, by `schema.field`, and by name where all columns agree."""
    of_columns: dict[str, object] = {}
    of_names: dict[str, set[object]] = {}
    for dataset in (*DATASETS, *COMBINED_VIEWS, *DATE_VIEWS):
        for column in dataset.columns:
            of_names.setdefault(column.name, set()).add(column.example)
            if column.example is not None:
                of_columns.setdefault(f"{row_title(dataset.name)}.{column.name}", column.example)
    unanimous = {name: examples.pop() for name, examples in of_names.items() if len(examples) == 1}
    return {**of_columns, **unanimous, **_EXAMPLES}


def _completed(operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return an operation with its examples, the headers of its answers, and errors by reference."""
    parameters = [
        {**parameter, "example": example_of(parameter["schema"], parameter["name"])}
        for parameter in operation.get("parameters", ())
    ]
    # Requests are counted by the token that they carry.
    rate_headers = _RATE_HEADERS if {"bearer": []} in operation.get("security", ()) else ()
    responses = {
        status: {
            **response,
            "headers": {
                name: {"$ref": f"#/components/headers/{name}"}
                for name in (
                    "X-Request-Id",
                    *rate_headers,
                    *response.get("headers", ()),
                    *_HEADERS_OF.get(status, ()),
                )
            },
        }
        for status, response in operation["responses"].items()
    }
    return {**operation, **({"parameters": parameters} if parameters else {}), "responses": responses}


def _named(described: Any, schemas: dict[str, Any]) -> Any:
    """Return a description with references in place of titled schemas, which are added to `schemas`."""
    if isinstance(described, list):
        return [_named(item, schemas) for item in described]
    if not isinstance(described, Mapping):
        return described
    inner = {name: _named(item, schemas) for name, item in described.items()}
    title = described.get("title")
    if not isinstance(title, str):  # a field may be called title, too
        return inner
    if schemas.setdefault(title, inner) != inner:
        raise ValueError(f"two schemas are called {title}: {schemas[title]} and {inner}")
    return {"$ref": f"{_SCHEMAS}{title}"}
