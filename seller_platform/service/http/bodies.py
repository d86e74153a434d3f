"""Reads the bodies of requests, forms and JSON, strictly."""

import json
import re
from decimal import Decimal

import msgspec
from starlette.requests import Request

from seller_platform.service.errors import ApiError, InvalidParametersError
from seller_platform.service.http.parameters import MOST_FIELDS, parse_fields, shown
from seller_platform.service.http.responses import JSON

FORM = "application/x-www-form-urlencoded"
LARGEST_JSON_BYTES = 1 << 20
LARGEST_FORM_BYTES = 64 << 10
# The problem as msgspec names it, or a type of ours: the field in backticks, the problem, the path.
_PROBLEM = re.compile(r"(?:Object missing required field )?(?:`(\w+)`)?\s*(.*?)\s*(?:- at `\$(.*)`)?", re.DOTALL)
_WORDS = {"str": "text", "decimal": "number", "array": "list"}
_SEND_PLAIN = "send the body uncompressed, in UTF-8"


async def read_form(request: Request, *, most_fields: int = MOST_FIELDS) -> dict[str, str]:
    """Return the fields of a form body.

    Fields without a value are left out (RFC 6749 section 3.2).

    Raises:
        ApiError: The body is no form, is larger than 64 KiB, is compressed or not in UTF-8; or a field was sent twice,
            or has a NUL character.
    """
    _check_type(request, FORM)
    body = await _read_body(request, LARGEST_FORM_BYTES)
    try:
        fields = parse_fields(body, most_fields)
    except ValueError as error:
        raise ApiError(f"the form {error}") from None
    return {name: text for name, text in fields.items() if text}


async def read_json(request: Request) -> dict[str, object]:
    """Return the object of a JSON body; without a body, an empty one.

    Numbers are exact decimals.

    Raises:
        ApiError: The body is of another type, is larger than 1 MiB, is compressed or not in UTF-8.
        InvalidParametersError: The body is not JSON, or not an object.
    """
    body = await _read_body(request, LARGEST_JSON_BYTES)
    if not body:
        return {}
    _check_type(request, JSON)
    try:
        sent = parse_json(body)
    except ValueError as error:
        raise InvalidParametersError({"body": [str(error)]}) from None
    if not isinstance(sent, dict):
        raise InvalidParametersError({"body": ["must be a JSON object"]})
    return sent


def _check_type(request: Request, expected: str) -> None:
    """Return if the body has the expected type, and neither a compression nor a charset other than UTF-8."""
    content_type = request.headers.get("content-type", "")
    essence, *parameters = content_type.split(";")
    if essence.strip().lower() != expected:
        raise ApiError(f"the content type is {content_type[:100]!r}; send {expected}", status=415)
    coding = request.headers.get("content-encoding", "identity").strip()
    if coding.lower() != "identity":
        raise ApiError(f"the content encoding is {coding[:100]!r}; {_SEND_PLAIN}", status=415)
    for parameter in parameters:
        name, _, charset = (part.strip(' "') for part in parameter.partition("="))
        if name.lower() == "charset" and charset.lower() not in ("utf-8", "utf8", "us-ascii"):
            raise ApiError(f"the charset is {charset[:100]!r}; {_SEND_PLAIN}", status=415)


def parse_json(body: bytes) -> object:
    """Return the value of a JSON text.

    Raises:
        ValueError: The text is not JSON or not UTF-8, is nested too deeply, or names a field of an object twice.
    """
    try:
        return json.loads(
            body.decode(), parse_float=_exact, parse_int=_exact, parse_constant=_exact, object_pairs_hook=_object
        )
    except UnicodeDecodeError:
        raise ValueError("must be UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _exact(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except ArithmeticError:
        raise ValueError(f"holds a number beyond all bounds: {shown(text)}") from None
    if not number.is_finite():
        raise ValueError(f"is not JSON: {text} is not a number")
    return number


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"names {shown(name)} twice in one object")
        fields[name] = value
    return fields


def problem_of(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the path of what is wrong in a body, such as `.dates.from_date`, and the problem in words."""
    match = _PROBLEM.fullmatch(str(error))
    assert match is not None  # every text matches
    field, problem, path = match.groups("")
    problem = problem.replace("Invalid RFC3339 encoded date", "must be a day, written YYYY-MM-DD")
    problem = re.sub(
        r"\b(str|decimal|array)\b", lambda word: _WORDS[word[0]], problem.replace("`", "").replace(" | null", "")
    )
    return f"{path}.{field}" if field else path, problem.replace("Expected", "must be") or "is required"


async def _read_body(request: Request, largest: int) -> bytes:
    """Return the body of a request, which may have at most `largest` bytes."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > largest:
            raise ApiError(f"the body is larger than {largest} bytes; send less", status=413)
    return body
