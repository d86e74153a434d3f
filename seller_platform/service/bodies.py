"""Form bodies, read strictly."""

from starlette.requests import Request

from seller_platform.errors import ApiError, BodyTooLargeError, WrongContentTypeError
from seller_platform.service.parameters import is_storable, parse_form, shown

FORM = "application/x-www-form-urlencoded"
_LARGEST_FORM_BYTES = 64 << 10


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form body; those without a value are left out (RFC 6749 section 3.2).

    Raises:
        WrongContentTypeError: The body is no form.
        BodyTooLargeError: It is longer than any form of ours.
        ApiError: A field was sent twice, or holds what no text may hold.
    """
    found = request.headers.get("content-type", "")
    if found.partition(";")[0].strip().lower() != FORM:
        raise WrongContentTypeError(found[:100], FORM)
    body = await read_body(request, _LARGEST_FORM_BYTES)
    try:
        pairs = parse_form(body)
    except ValueError as error:
        raise ApiError(f"the form {error}") from None
    fields: dict[str, str] = {}
    for name, text in pairs:
        if name in fields:
            raise ApiError(f"the field {shown(name)} was sent more than once")
        if not is_storable(text):
            raise ApiError(f"the field {shown(name)} must be UTF-8 without NUL characters")
        fields[name] = text
    return {name: text for name, text in fields.items() if text}


async def read_body(request: Request, largest: int) -> bytes:
    """Return the body of a request.

    Raises:
        BodyTooLargeError: It is larger than `largest` bytes; the rest of it is not read.
    """
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > largest:
            raise BodyTooLargeError(largest)
        chunks.append(chunk)
    return b"".join(chunks)
