"""A host of client ID metadata documents, whose certificate is trusted."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import pytest

from seller_platform_tests.support.raw_server import Answer, Request, serving
from seller_platform_tests.support.tls_proxy import tls_proxy, write_certificate
from seller_platform_tests.support.waiting import PATIENCE_SECONDS


@dataclass
class Documents:
    """A host of documents: what it answers by path, and the paths that were requested.

    Attributes:
        released: Until this is set, the answer `slow` is not sent.
    """

    url: str
    answers: dict[str, dict[str, Any] | bytes] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)
    released: Event = field(default_factory=Event)

    def publish(self, path: str = "/client", **changed: object) -> str:
        """Publish a document and return the client id."""
        client_id = f"{self.url}{path}"
        document = {
            "client_id": client_id,
            "client_name": "Desk",
            "redirect_uris": ["http://localhost/callback", "desk://callback"],
            **changed,
        }
        self.answers[path] = {name: value for name, value in document.items() if value is not None}
        return client_id


@contextmanager
def hosted_documents(folder: Path) -> Iterator[Documents]:
    """Serve documents on the loopback until the block ends; the folder gets the certificate."""
    certificate = write_certificate(folder, days=1)

    def answer(request: Request) -> Answer:
        published.requested.append(request.target)
        document = published.answers.get(request.target)
        if document == b"redirect":
            return Answer(302, headers={"Location": f"{published.url}/client"})
        if document == b"slow":
            published.released.wait(PATIENCE_SECONDS)
        if document == b"compressed":
            return Answer(headers={"Content-Encoding": "gzip"})
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return Answer(404 if document is None else 200, body)

    with serving(answer) as plain, tls_proxy(certificate) as (port, targets), pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(certificate))
        targets.append(urlsplit(plain.url).port or 0)
        published = Documents(f"https://localhost:{port}")
        yield published
