"""A webhook on a loopback port that keeps the documents posted to it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from seller_platform_tests.support.raw_server import Answer, Request, serving


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

    def answer(request: Request) -> Answer:
        status = receiver.answers.pop(0) if receiver.answers else 200
        if status == 200:
            receiver.documents.append(json.loads(request.body))
        else:
            receiver.refused += 1
        return Answer(status)

    with serving(answer) as server:
        receiver.url = f"{server.url}/services/T000/canary-secret"
        yield receiver
