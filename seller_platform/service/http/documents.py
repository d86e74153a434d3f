"""Documents that are the same for everybody, and kept by caches for an hour."""

from collections.abc import Mapping
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

MOST_BASE_URLS = 16
"""For how many base URLs documents are kept. Without a public URL, each port of the loopback is one."""


class PublicDocument:
    """A document with its ETag (RFC 9110 section 8.8.3)."""

    def __init__(self, body: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> None:
        self._body, self._media_type = body, media_type
        self.digest = sha256(body).hexdigest()
        # The tag is weak, because a compressed answer has the same.
        self._tag = f'W/"{self.digest[:32]}"'
        caching = {"Cache-Control": "public, max-age=3600", "ETag": self._tag}
        self._headers = {**(headers or {}), **caching}

    def answer(self, request: Request) -> Response:
        """Return the document, or 304 to a client that has it."""
        tags = ",".join(request.headers.getlist("if-none-match")).split(",")
        if any(tag.strip().removeprefix("W/") in ("*", self._tag.removeprefix("W/")) for tag in tags):
            return Response(None, 304, self._headers)
        return Response(self._body, 200, self._headers, media_type=self._media_type)
