"""How the bytes of an answer are framed, encoded, cut, delayed and refused."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from seller_platform_tests.faults.world.bodies import Command, Ending
from seller_platform_tests.support.raw_server import Answer, Fault, drip, html_page, reset_in_the_body, sent, status

Change = Callable[[bytes], bytes]
_EVERY = 1_000_000
_UNAVAILABLE = Ending(4, ("attempts",))
_DATES = {"Date": "Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After": "Sun, 06 Nov 1994 08:49:44 GMT"}
_LOGIN = {"Location": "https://world.example/login?next=x"}
_COUNT = count(1)


@dataclass(frozen=True)
class Transport:
    """How answers are sent.

    Attributes:
        answers: How many answers it concerns; all others have a length and nothing else.
        ending: How the command ends; None where the body arrives in the end.
        pause_seconds: The longest pause before another try is at least this long.
    """

    fault: Fault
    answers: int = _EVERY
    ending: Ending | None = None
    commands: tuple[Command, ...] = tuple(Command)
    pause_seconds: float = 0


def _plain(body: bytes) -> bytes:
    return body


def _sent(framing: str, coding: str = "", encode: Change = _plain, cut: Change = _plain) -> Fault:
    """Send an encoded body with this framing, and perhaps only a part of all bytes."""
    headers = [f"Content-Encoding: {coding}"] if coding else []
    return sent(lambda answer: [cut(answer.framed(encode(answer.body), *headers, framing=framing))])


def _at_a_row(body: bytes) -> bytes:
    return body[: body.rfind(b"\n", 0, len(body) * 3 // 4) + 1]


def _elsewhere(body: bytes) -> bytes:
    return body[: -1 - next(_COUNT) % max(1, len(body) - 1)]


def _half(body: bytes) -> bytes:
    return body[: len(body) // 2]


def _members(body: bytes) -> bytes:
    return gzip.compress(_half(body)) + gzip.compress(body[len(body) // 2 :])


def _empty_as(code: int) -> Fault:
    """Send a page without rows as a status without a body."""
    return sent(lambda answer: [answer.encode() if len(answer.body) > 200 else Answer(code).encode()])


_REPORTS = (Command.LOAD, Command.DOWNLOAD)

TRANSPORTS: dict[str, Transport] = {
    "a length": Transport(_sent("length")),
    "chunks": Transport(_sent("chunked")),
    "to the end": Transport(_sent("close")),
    "slowly": Transport(drip(0.1)),
    "gzip": Transport(_sent("length", "gzip", gzip.compress)),
    "gzip in chunks": Transport(_sent("chunked", "GZip", gzip.compress)),
    "gzip to the end": Transport(_sent("close", "x-gzip", gzip.compress)),
    "gzip in two members": Transport(_sent("length", "gzip", _members)),
    "gzip with zeros after it": Transport(_sent("length", "gzip", lambda body: gzip.compress(body) + bytes(512))),
    "two encodings": Transport(_sent("length", "gzip, gzip", lambda body: gzip.compress(gzip.compress(body)))),
    "no encoding, by name": Transport(_sent("length", "identity")),
    "204 without rows": Transport(_empty_as(204), commands=(Command.SYNC,)),
    "205 without rows": Transport(_empty_as(205), commands=(Command.SYNC,)),
    "once less than its length": Transport(_sent("length", cut=_at_a_row), 1),
    "once without the last chunk": Transport(_sent("chunked", cut=_at_a_row), 1),
    "once to the end, cut at a row": Transport(_sent("close", encode=_at_a_row), 1),
    "once to the end, cut in a cell": Transport(_sent("close", encode=lambda body: body.rstrip()[:-3]), 1),
    "once gzip, cut": Transport(_sent("length", "gzip", lambda body: _half(gzip.compress(body))), 1),
    "once gzip, cut in its second member": Transport(_sent("length", "gzip", lambda body: _members(body)[:-5]), 1),
    "once a reset": Transport(reset_in_the_body(), 1),
    "once a page of HTML": Transport(html_page(), 1),
    "once a redirect to a login": Transport(status(302, headers=_LOGIN), 1, commands=_REPORTS),
    "503 for less than two seconds": Transport(status(503, retry_after="1.2"), 1, pause_seconds=2),
    "503 until a date": Transport(status(503, headers=_DATES), 1, pause_seconds=7),
    "429 with a negative pause": Transport(status(429, retry_after="-5"), 1),
    "429 with a reset": Transport(status(429, headers={"X-RateLimit-Reset": "3"}), 1, pause_seconds=3),
    "503 with a word": Transport(status(503, retry_after="soon"), 1),
    "each time gzip, cut": Transport(
        _sent("length", "gzip", lambda body: _half(gzip.compress(body))), ending=_UNAVAILABLE
    ),
    "each time less than its length": Transport(_sent("length", cut=_at_a_row), ending=_UNAVAILABLE),
    "each time to the end, cut elsewhere": Transport(_sent("close", encode=_elsewhere), ending=_UNAVAILABLE),
    "each time no gzip": Transport(_sent("length", "gzip"), ending=Ending(4, ("unreadable", "no gzip"))),
    "brotli": Transport(_sent("length", "br"), ending=Ending(4, ("'br'", "not asked for"))),
    "zstd in chunks": Transport(_sent("chunked", "gzip, zstd"), ending=Ending(4, ("'zstd'", "not asked for"))),
}
"""How an answer is sent, by name."""
