"""Bodies of answers: decoded to their end within limits, as text of their charset."""

import codecs
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import httpx
from xxhash import xxh3_128

from seller_platform.client.http.characters import sent_bytes
from seller_platform.client.http.responses import PassingFault, RawAnswer, answered_by
from seller_platform.client.http.retries import RequestClock
from seller_platform.errors import ContractViolationError, CutBodyError, UnreadableBodyError

ACCEPT_ENCODING = "gzip"
LARGEST_JSON_BYTES = 512 << 20

_NO_CODINGS = ("", "identity", "none", "binary", "8bit")
_PIECE = 1 << 20
_GZIP_START = 0x1F

# Those of UTF-32 begin like those of UTF-16.
_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_UTF_8 = (None, "utf-8", "utf8", "us-ascii", "ascii")
_NAMES = {"windows-31j": "cp932", "x-sjis": "shift_jis", "ks_c_5601-1987": "cp949"}
"""Registered names that Python lacks."""
_WIDER = {"shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "big5": "cp950"}
"""Encodings, by Python's names, that are often sent under the name of a narrower one."""


@dataclass(frozen=True)
class BodyLimits:
    """How large a body may be, and how many seconds it may take to arrive."""

    bytes: int
    seconds: float


def read_answer(response: httpx.Response, name: str, limits: BodyLimits, clock: RequestClock) -> RawAnswer:
    """Return the answer with its whole body, in UTF-8 without a byte order mark.

    The body of a refusal is empty where it cannot be read, for its status is what counts.

    Raises:
        ContractViolationError: The body is too large, or has an encoding that was not asked for.
        PassingFault: The body takes too long, was cut or damaged, or is no text.
    """
    body = b""
    try:
        body = b"".join(decoded_pieces(response, name, limits, clock))
        body = utf_8_of(body, response.charset_encoding, name)
    except (ContractViolationError, PassingFault, UnreadableBodyError) as error:
        if response.is_success:
            raise PassingFault.of(error, body) if isinstance(error, UnreadableBodyError) else error from None
        body = b""
    through = "" if response.is_success else answered_by(response, response.request.url)
    return RawAnswer(response.status_code, response.headers, body, through)


def decoded_pieces(response: httpx.Response, name: str, limits: BodyLimits, clock: RequestClock) -> Iterator[bytes]:
    """Yield the pieces of a body without its content encodings (RFC 9110 section 8.4)."""
    began, sent = clock.monotonic(), xxh3_128()

    def bounded(pieces: Iterable[bytes], digest: xxh3_128 | None = None) -> Iterator[bytes]:
        size = 0
        for piece in pieces:
            size += len(piece)
            if digest is not None:
                digest.update(piece)
            if size > limits.bytes:
                raise ContractViolationError(name, f"the body is larger than {limits.bytes >> 20} MiB")
            if clock.monotonic() - began > limits.seconds:
                raise PassingFault("a body that would not end")
            yield piece

    assert isinstance(response.stream, httpx.SyncByteStream), "every client of this floor is synchronous"
    pieces = received = bounded(response.stream, sent)
    for coding in map(str.strip, reversed(response.headers.get("Content-Encoding", "").lower().split(","))):
        if coding in ("gzip", "x-gzip"):
            pieces = bounded(_inflated(pieces))
        elif coding not in _NO_CODINGS and not _is_charset(coding):  # some name a charset there
            problem = f"its body has the Content-Encoding {coding!r}, which was not asked for: only {ACCEPT_ENCODING}"
            raise ContractViolationError(name, problem)
    try:
        yield from pieces
    except CutBodyError as error:
        raise PassingFault(error.problem) from None
    except UnreadableBodyError as error:
        for _ in received:  # to its end, so that the digest is that of the whole body
            pass
        raise PassingFault(error.problem, digest=sent.digest()) from None


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what compressed pieces contain: members of gzip (RFC 1952), and zeros after them, which are ignored.

    Raises:
        UnreadableBodyError: They are damaged, cut, or followed by something else.
    """
    inflater = None
    for compressed in pieces:
        data, is_full = compressed, False
        while data or is_full:
            if inflater is not None and inflater.eof:
                data = data.lstrip(b"\0")
                if not data:
                    break
                if data[0] != _GZIP_START:
                    raise UnreadableBodyError("a gzip body with something after its end")
                inflater = None
            if inflater is None:
                inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
            try:
                piece = inflater.decompress(data, _PIECE)
            except zlib.error:
                problem = "a body that is no gzip, as its Content-Encoding says, or is damaged"
                raise UnreadableBodyError(problem) from None
            yield piece
            is_full = len(piece) == _PIECE and not inflater.eof
            data = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
    if inflater is not None and not inflater.eof:
        raise CutBodyError("a gzip body that was cut")


def utf_8_of(body: bytes, charset: str | None, name: str) -> bytes:
    """Return the text of a body in UTF-8 without a byte order mark; bytes that are no text stay as they are."""
    if charset in _UTF_8 and b"\0" not in body[:2] and body[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return body.removeprefix(codecs.BOM_UTF8)
    return sent_bytes(body.decode(*encoding_of(lambda: [body], charset, name)))


def encoding_of(pieces: Callable[[], Iterable[bytes]], charset: str | None, name: str) -> tuple[str, str]:
    """Return the encoding of a body, and how what it cannot decode is handled.

    It is the declared one where it decodes the body, else UTF-8 or a wider one. Marks and zeros at the start, which no
    other encoding has, count more.
    """
    start = next(iter(pieces()), b"")[:4]
    sniffed = next((encoding for mark, encoding in _ENCODINGS.items() if start.startswith(mark)), None)
    if sniffed is None and b"\0" in start[:2]:
        sniffed = "utf-16-be" if start[:1] == b"\0" else "utf-16-le"
    charset = sniffed or charset
    if charset in (*_UTF_8, "utf-8-sig"):
        return charset or "utf-8", "surrogateescape"
    charset = _NAMES.get(charset or "", charset)
    known = codecs.lookup(charset).name if charset and _is_charset(charset) else ""
    # Of the bytes that ISO 8859-1 has as control characters, nearly all are meant as those of Windows.
    declared = ("cp1252", charset) if known == "iso8859-1" else (charset, "utf-8", _WIDER.get(known))
    attempts = [(encoding, "strict") for encoding in declared if encoding is not None]
    # UTF-16 may have halves of pairs, and all others bytes that are no text.
    for encoding, errors in (*attempts, (charset, "surrogatepass"), (charset, "surrogateescape")):
        if _is_charset(encoding):
            with suppress(UnicodeError):
                for _ in codecs.iterdecode(pieces(), encoding, errors):
                    pass
                return encoding, errors
    if not _is_charset(charset):
        raise ContractViolationError(name, f"its charset {charset!r} is unknown, and its body is not UTF-8 either")
    raise UnreadableBodyError(f"a body that is not {charset}, as its Content-Type says")


def _is_charset(name: str) -> bool:
    try:
        return isinstance(b"x".decode(name, "replace"), str)
    except (LookupError, ValueError):
        return False
