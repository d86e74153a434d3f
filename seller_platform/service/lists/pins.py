"""Pins: the parameter `as_of`, which makes all pages of a walk those of one moment.

The first page is answered with a link to the second (RFC 8288). Its `as_of` names the snapshot of PostgreSQL that the
first page was read in. It is no secret, and gives access to nothing: it belongs to one list of one database.
"""

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct

from seller_platform.contract import Dataset
from seller_platform.contract.wire import AS_OF
from seller_platform.service.access import SelectedAccounts
from seller_platform.service.errors import ApiError, InvalidParametersError
from seller_platform.service.http.parameters import Parameter, parse_form
from seller_platform.service.lists.page_queries import ListRequest

PIN_HOURS = 24
_PAGE = "page"
_LONGEST_TOKEN = 900
_CHECK_BYTES = 12
_TOKEN = Meta(
    min_length=24,
    max_length=_LONGEST_TOKEN,
    pattern="^[A-Za-z0-9_-]+$",
    description="sent as in the link to the next page; begin again without it",
)

AS_OF_MOMENT = Parameter[str](
    AS_OF,
    f"Reads the list as it was when a walk over its pages began, at most {PIN_HOURS} hours ago. The link of each page "
    "to the next carries it; without it, a page is of the present list.",
    Annotated[str, _TOKEN],
    example="bnXkz1SW_7s6jvU2MTc3MjM2ODIwMTAwMDUwMCA2MDAgLTEyLjM0IDc3NCAx",
)


class Pin(Struct, frozen=True, array_like=True):
    """The moment that a list is pinned to.

    Attributes:
        now: The time at that moment, which decides what today is.
        total: The rows of the list.
        others: What `ListState.others` was.
        snapshot: The snapshot of PostgreSQL, as PostgreSQL writes it.
    """

    now: datetime
    total: int
    others: str
    snapshot: str


def subject_of(dataset: Dataset, selected: SelectedAccounts, list_request: ListRequest) -> bytes:
    """Return what a pin belongs to: the accounts and parameters of a list, but for the page."""
    accounts = [(account.key, account.zone_name, account.currency_code) for account in selected.accounts]
    sent = (list_request.start, list_request.end, list_request.part, list_request.currency, list_request.per_page)
    return repr((dataset.name, accounts, sent, sorted(list_request.own_days.items()))).encode()


def write_pin(pin: Pin, subject: bytes, database: str) -> str | None:
    """Return the text of a pin; None where so many transactions are open that it would be too long."""
    payload = zlib.compress(msgspec.json.encode(pin))
    token = urlsafe_b64encode(_check(payload, subject, database) + payload).decode().rstrip("=")
    return token if len(token) <= _LONGEST_TOKEN else None


def read_pin(token: str, subject: bytes, database: str, now: datetime) -> Pin:
    """Return the pin that a text is.

    Raises:
        InvalidParametersError: The text is no pin, or that of another list or database.
        ApiError: The pin is too old.
    """
    content = urlsafe_b64decode(token + "=" * (-len(token) % 4)) if len(token) % 4 != 1 else b""
    check, payload = content[:_CHECK_BYTES], content[_CHECK_BYTES:]
    if check != _check(payload, subject, database):
        problem = "belongs to other parameters, to other accounts or to another database; begin again without it"
        raise InvalidParametersError({AS_OF: [problem]})
    pin = msgspec.json.decode(zlib.decompress(payload), type=Pin)
    if now - pin.now > timedelta(hours=PIN_HOURS):
        raise moved_on(f"the walk began at {pin.now:%Y-%m-%d %H:%M} UTC, more than {PIN_HOURS} hours ago")
    return pin


def moved_on(problem: str) -> ApiError:
    """Return the refusal to read a list as it was when the walk began."""
    return ApiError(f"{problem}; begin again with the first page, without as_of", status=410)


def next_link(url: str, query: bytes, list_request: ListRequest, total: int, token: str | None) -> Mapping[str, str]:
    """Return the header with the link to the next page of a list, if there is one that can be pinned."""
    if token is None or list_request.page * list_request.per_page >= total:
        return {}
    kept = [(name, text) for name, text in parse_form(query) if name not in (_PAGE, AS_OF)]
    pairs = [*kept, (_PAGE, str(list_request.page + 1)), (AS_OF, token)]
    return {"Link": f'<{url}?{urlencode(pairs, errors="surrogateescape")}>; rel="next"'}


def _check(payload: bytes, subject: bytes, database: str) -> bytes:
    return blake2b(b"\0".join((payload, subject, database.encode())), digest_size=_CHECK_BYTES).digest()
