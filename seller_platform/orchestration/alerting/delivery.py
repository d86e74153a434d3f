"""Sends the messages of the sensors to the webhook, oldest first, without secrets."""

import logging
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from time import monotonic
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from pydantic import SecretStr

from seller_platform.client.endpoints.webhook import post_message
from seller_platform.clocks import is_past
from seller_platform.counts import count_of
from seller_platform.errors import WebhookError
from seller_platform.settings import Settings

SECONDS_BETWEEN_TICKS = 30
_DELIVERING_SECONDS = 5.0
_MOST_MESSAGES = 100
_SHORTEST_SECRET = 4
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=30), timedelta(minutes=30)
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?<=[Bb]earer )[\w.~+/\-]+=*")

_LOG = logging.getLogger(__name__)


class PendingMessage(msgspec.Struct, frozen=True):
    """A message that the webhook has not accepted yet."""

    text: str
    written_at: datetime
    attempts: int = 0
    not_before: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Return whether to send it."""
        return self.not_before is None or is_past(self.not_before, now, _LONGEST_PAUSE)

    def put_off(self, now: datetime) -> "PendingMessage":
        """Return the message with one more failed attempt and the time of the next."""
        pause = min(_FIRST_PAUSE * 2 ** min(self.attempts, 10), _LONGEST_PAUSE)
        return PendingMessage(self.text, self.written_at, self.attempts + 1, now + pause)


class Outbox(msgspec.Struct, kw_only=True):
    """The part of a sensor's cursor that keeps the messages which the webhook has not accepted yet."""

    messages: list[PendingMessage] = msgspec.field(default_factory=list)

    def add_message(self, text: str, now: datetime) -> list[PendingMessage]:
        """Add a message and return the oldest ones that had to be dropped for it."""
        messages = [*self.messages, PendingMessage(text, now)]
        self.messages = messages[-_MOST_MESSAGES:]
        return messages[:-_MOST_MESSAGES]


Cursor = TypeVar("Cursor", bound=Outbox)


def read_cursor(cursor: str | None, type_: type[Cursor]) -> Cursor | None:
    """Return the cursor of a sensor; None before its first evaluation, or if it cannot be read."""
    try:
        return msgspec.json.decode(cursor, type=type_) if cursor else None
    except msgspec.DecodeError as error:
        _LOG.error("the cursor of the sensor cannot be read, and only new failures are reported: %s", error)
        return None


def publish(outbox: Outbox, messages: Iterable[tuple[int, str]], settings: Settings, now: datetime) -> str:
    """Log messages with their levels, send those that are due, and return how many wait and why.

    Messages are sent oldest first. After a failure the webhook is taken for unreachable, and all others wait, too.
    """
    secrets, webhook_url, problem = secrets_of(settings), settings.alert_webhook_url, ""
    for level, text in messages:
        message = redacted(text, secrets)
        _LOG.log(level, "%s", message)
        for dropped in outbox.add_message(message, now) if webhook_url is not None else ():
            _LOG.error("too many messages wait for the webhook; this one is not sent: %s", dropped.text)
    began = monotonic()
    while webhook_url is not None and outbox.messages and not problem and monotonic() - began < _DELIVERING_SECONDS:
        first = outbox.messages[0]
        if not first.is_due(now):
            break
        try:
            post_message(webhook_url.get_secret_value(), slack_payload(first.text))
            outbox.messages = outbox.messages[1:]
        except WebhookError as error:
            outbox.messages[0] = first.put_off(now)
            problem = f": {error}"
            _LOG.warning("%d messages wait%s", len(outbox.messages), problem)
    if webhook_url is None:
        outbox.messages = []
    return f"; {count_of(len(outbox.messages), 'message', 'waits')} for the webhook{problem}" if outbox.messages else ""


def secrets_of(settings: Settings) -> list[str]:
    values = (getattr(settings, name) for name in Settings.model_fields)
    secrets = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
    parts = [part for secret in secrets for part in (secret, *secret.split(","), urlsplit(secret).password or "")]
    return [part for part in parts if len(part) >= _SHORTEST_SECRET]


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return a text without these secrets, without credentials in URLs, and without bearer tokens."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return _CREDENTIALS.sub("***", text)


def slack_payload(text: str) -> dict[str, object]:
    """Return a message as the body of a request to a Slack incoming webhook."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    title, _, rest = escaped.partition("\n")
    body = f"*{title}*" + (f"\n{rest}" if rest else "")
    return {"text": escaped, "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": body[:3_000]}}]}
