"""Replaces text that PostgreSQL does not store: NUL, lone surrogates, and bytes that are no UTF-8."""

import re
from contextlib import suppress

MARK = "\ufffd"
"""What is stored in the place of text that cannot be."""

_PRIVATE = 0xF0000  # with the character's own number, it is a mark of its own

# A search for one set of characters is faster than one for alternatives.
_CHARACTERS = re.compile(r"[\x00\ud800-\udfff](?:(?<=[\ud800-\udbff])[\udc00-\udfff])?")
_SUSPICIOUS_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
# A pair and any other escape are matched so that no part of them is taken for an escape of its own.
_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<bad>\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2}))|\\.",
    re.DOTALL,
)


def variants(json: bytes) -> list[bytes]:
    """Return the JSON as it can be stored.

    Where text has to be replaced, a second variant has other marks, one for each character: what differs was replaced,
    and what was sent differently stays different.
    """
    storable = storable_json(json)
    other = storable if storable is json else storable_json(json, "")
    return [storable] if storable == other else [storable, other]


def sent_bytes(text: str) -> bytes:
    """Return the bytes of a decoded text, whose surrogates stand for bytes that are none, or for halves of pairs."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def storable_json(body: bytes, mark: str = MARK) -> bytes:
    """Return JSON with a mark in the place of text that cannot be stored; the same object where it has none.

    Args:
        mark: Empty for a mark of each character.
    """
    if b"\0" not in body and not _SUSPICIOUS_ESCAPE.search(body):
        with suppress(UnicodeDecodeError):
            body.decode()
            return body
    text = storable_text(body, mark)
    storable = _ESCAPES.sub(
        lambda escape: (mark or chr(_PRIVATE + int(escape[0][2:], 16))) if escape["bad"] else escape[0], text
    ).encode()
    return body if storable == body else storable


def storable_text(sent: bytes, mark: str = MARK) -> str:
    """Return the text of bytes with a mark in the place of what cannot be stored.

    Surrogates that were encoded one by one are the character that they stand for.
    """
    try:
        text = sent.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = sent.decode("utf-8", "surrogateescape")

    def stored(found: re.Match[str]) -> str:
        if len(found[0]) == 2:
            return found[0].encode("utf-16", "surrogatepass").decode("utf-16")
        return mark or chr(_PRIVATE + ord(found[0]))

    return _CHARACTERS.sub(stored, text)
