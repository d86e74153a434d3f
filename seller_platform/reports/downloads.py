"""Downloads the body of a report into a file, until its end is certain."""

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TypeVar

import httpx
from xxhash import xxh3_128

from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.bodies import LARGEST_JSON_BYTES, BodyLimits, decoded_pieces, encoding_of, utf_8_of
from seller_platform.client.http.responses import WITHOUT_BODY, PassingFault
from seller_platform.client.http.retries import RequestClock
from seller_platform.errors import ContractViolationError, ErrorAnswerError, UnreadableBodyError

_LIMITS = BodyLimits(16 << 30, 3600)
_PIECE, _LARGEST_LINE = 1 << 16, 16 << 20
_JSON = (b"[", b"{")
_MARKS_AND_BLANKS = b"\xef\xbb\xbf\xfe\xff\0 \t\r\n"

Decoded = TypeVar("Decoded")


@dataclass(frozen=True)
class StoredBody:
    """A body in a file.

    Attributes:
        name: The request, for messages.
        digest: That of its bytes.
        has_body: Whether an answer of its status has one.
        start: Its first byte that is neither blank nor part of a mark of an encoding.
        is_whole: Whether its end is certain; that of JSON is in its syntax.
    """

    name: str
    file: IO[bytes]
    size: int
    digest: bytes
    charset: str | None
    has_body: bool
    start: bytes
    is_whole: bool

    @property
    def is_json(self) -> bool:
        """Whether it begins like JSON."""
        return self.start in _JSON

    def lines(self) -> Iterator[str]:
        """Yield the lines of its text. Bytes that are no text become surrogates, which `sent_bytes` turns back.

        Raises:
            ContractViolationError: Its charset is unknown.
            UnreadableBodyError: It is no text, or has a line that is too long.
        """
        encoding, errors = encoding_of(self._pieces, self.charset, self.name)
        self.file.seek(0)
        text = io.TextIOWrapper(self.file, encoding, errors, newline="\n")
        try:
            while line := text.readline(_LARGEST_LINE + 1):
                if len(line) > _LARGEST_LINE:
                    raise UnreadableBodyError(f"a body that is not CSV, or has a line beyond {_LARGEST_LINE >> 20} MiB")
                yield line
        finally:
            if not self.file.closed:  # else the wrapper would close it
                text.detach()

    def utf_8(self) -> bytes:
        """Return its text in UTF-8 without a byte order mark; bytes that are no text stay as they are.

        Raises:
            ContractViolationError: It is too large to be read at once. It raises what `lines` raises, too.
        """
        if self.size > LARGEST_JSON_BYTES:
            problem = f"its JSON is larger than {LARGEST_JSON_BYTES >> 20} MiB; CSV may be larger"
            raise ContractViolationError(self.name, problem)
        return utf_8_of(b"".join(self._pieces()), self.charset, self.name)

    def _pieces(self) -> Iterator[bytes]:
        self.file.seek(0)
        while piece := self.file.read(_PIECE):
            yield piece


def download(
    api: SellerApi,
    path: str,
    params: Mapping[str, str],
    file: IO[bytes],
    read: Callable[[StoredBody], Decoded],
    *,
    accept: str,
) -> tuple[int, Decoded]:
    """Return how many requests a download took, and the result of `read`; it raises what `SellerApi.request` raises.

    A body whose end is not certain is requested until two bodies in a row are the same.

    Args:
        file: Receives the body.
        read: Reads the body, which is empty for a status without one. With `UnreadableBodyError` it asks for
            another; the same one is then refused.
        accept: The media types that are accepted.
    """
    digest = b""

    def store(response: httpx.Response, name: str, clock: RequestClock) -> StoredBody:
        hashed, start, end = xxh3_128(), b"", b""
        file.seek(0)
        file.truncate()
        for piece in decoded_pieces(response, name, _LIMITS, clock):
            hashed.update(piece)
            file.write(piece)
            start, end = start or piece.lstrip(_MARKS_AND_BLANKS)[:1], (end + piece[-4:])[-4:]
        is_framed = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
        is_whole = start in _JSON or (is_framed and end.rstrip(b"\0").endswith((b"\n", b"\r")))
        has_body, charset = response.status_code not in WITHOUT_BODY, response.charset_encoding
        return StoredBody(name, file, file.tell(), hashed.digest(), charset, has_body, start, is_whole)

    def read_whole(body: StoredBody) -> Decoded:
        nonlocal digest
        former = digest
        if body.start == b"<":
            raise PassingFault("an HTML page instead of a report")
        digest = body.digest
        if body.has_body and not body.start:
            raise PassingFault("an empty body", digest=digest)
        if body.has_body and not body.is_whole and digest != former:
            problem = "a body whose end is not certain, and which did not come twice in a row"
            raise PassingFault(problem, digest=digest)
        try:
            if body.start == b"\x1f":
                raise UnreadableBodyError("a gzip file without the Content-Encoding that says so")
            return read(body)
        except UnreadableBodyError as error:
            is_error = isinstance(error, ErrorAnswerError)
            raise PassingFault(error.problem, digest=b"" if is_error else digest) from None

    return api.download(path, params, store, read_whole, accept=accept)
