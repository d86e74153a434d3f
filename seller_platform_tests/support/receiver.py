"""A webhook on a loopback port that keeps the documents posted to it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """The documents that a webhook received, and its next answers.

    Attributes:
        url: Its path is the secret, as Slack's are.
        answers: The statuses of the next answers; 200 when there are none left.
    """

    url: str = ""
    answers: list[int] = field(default_factory=list)
    documents: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0

    @property
    def texts(self) -> list[str]:
        return [document["text"] for document in self.documents]


@contextmanager
def webhook_receiver() -> Iterator[Receiver]:
    """Run a webhook until the block ends."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.answers.pop(0) if receiver.answers else 200
            if status == 200:
                receiver.documents.append(json.loads(body))
            else:
                receiver.refused += 1
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/services/T000/canary-secret"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
