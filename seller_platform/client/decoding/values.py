"""Values of columns: reads every form that upstreams may send; nothing is guessed."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo

import msgspec

from seller_platform.client.decoding.local_days import checked_date, checked_timestamp
from seller_platform.client.http.responses import shortened
from seller_platform.contract import Kind
from seller_platform.counts import count_of

LEAST_BIGINT, LARGEST_BIGINT = -(2**63), 2**63 - 1
LEAST_EXPONENT, LARGEST_EXPONENT = -16_383, 131_071
"""The bounds of PostgreSQL's numeric."""

_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)?(\.\d*)?([eE][+-]?\d{1,6})?", re.ASCII)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}

_LONGEST_TEXT = 60

_STRING = msgspec.json.Decoder(str)

Value = str | int | Decimal | bool
Reader = Callable[[bytes], Value]


def reader_of(kind: Kind, zone: ZoneInfo) -> Reader:
    """Return the function that reads the JSON text of a value of that kind.

    The function raises ValueError where the text is no such value, or a value that cannot be stored.

    Args:
        zone: The zone of timestamps without an offset.
    """
    if kind is Kind.TIMESTAMP:
        return lambda sent: checked_timestamp(_STRING.decode(sent), zone)
    return _READERS[kind]


def shape_of(sent: bytes) -> str:
    """Return the type of a piece of JSON in words, without its content."""
    match sent[:1]:
        case b'"':
            return f"a string of {count_of(len(_STRING.decode(sent)), 'character')}"
        case b"{":
            return "an object"
        case b"[":
            return "an array"
        case b"t" | b"f":
            return "a boolean"
        case b"n":
            return "null"
    return "a number"


def text_of(sent: bytes) -> str:
    """Return a piece of JSON as a person reads it, cut after some characters."""
    text = shortened(sent.decode())
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def exact_number(text: str) -> Decimal:
    """Return the exact number that a text holds, with or without thousands separators.

    Raises:
        ValueError: The text is no number, or one that PostgreSQL cannot store.
    """
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        raise ValueError("not a number")
    try:
        number = Decimal(text.replace(",", ""))
    except InvalidOperation as error:
        raise ValueError("not a number") from error
    if number.adjusted() > LARGEST_EXPONENT or int(number.as_tuple().exponent) < LEAST_EXPONENT:
        raise ValueError("beyond numeric")
    return number


def whole_number(text: str) -> int:
    """Return the integer that a text holds.

    Raises:
        ValueError: The text is no integer, or one beyond PostgreSQL's bigint.
    """
    number = exact_number(text)
    if number != number.to_integral_value():
        raise ValueError("not an integer")
    if not LEAST_BIGINT <= number <= LARGEST_BIGINT:
        raise ValueError("beyond bigint")
    return int(number)


def _scalar(sent: bytes) -> str:
    if sent.startswith(b'"'):
        return _STRING.decode(sent)
    if sent[:1] not in b"-0123456789":
        raise ValueError("neither a string nor a number")
    return sent.decode()


def _boolean(sent: bytes) -> bool:
    text = _STRING.decode(sent) if sent.startswith(b'"') else sent.decode()
    if text.lower() not in _BOOLEANS:
        raise ValueError("not a boolean")
    return _BOOLEANS[text.lower()]


_READERS: Mapping[Kind, Reader] = {
    Kind.TEXT: _scalar,
    Kind.INTEGER: lambda sent: whole_number(_scalar(sent)),
    Kind.MONEY: lambda sent: exact_number(_scalar(sent)),
    Kind.NUMBER: lambda sent: exact_number(_scalar(sent)),
    Kind.BOOLEAN: _boolean,
    Kind.DATE: lambda sent: checked_date(_STRING.decode(sent)),
    Kind.JSON: bytes.decode,
}
