"""Sends the messages of the sensors to the webhook, oldest first."""

import logging
from datetime import datetime
from time import monotonic
from typing import Protocol
from urllib.parse import urlsplit

import dagster as dg
from pydantic import SecretStr

from seller_platform.client.endpoints.webhook import post_message
from seller_platform.errors import WebhookError
from seller_platform.orchestration.alerting.causes import PendingMessage, slack_payload
from seller_platform.settings import Settings, read_settings

SECONDS_BETWEEN_TICKS = 30
_DELIVERING_SECONDS = 5.0
_SHORTEST_SECRET = 4

_LOG = logging.getLogger(__name__)


class MessageQueue(Protocol):
    """The cursor of a sensor, which keeps the messages that the webhook has not accepted yet."""

    messages: list[PendingMessage]


class AlertsResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # it is its own value
    """Where alerts are sent.

    Attributes:
        webhook_url: The URL that takes the messages, a secret: give it by `EnvVar`. By default
            SELLER_PLATFORM_ALERT_WEBHOOK_URL.
        dagster_url: The URL of the Dagster UI, for links. By default SELLER_PLATFORM_DAGSTER_URL.
    """

    webhook_url: str | None = None
    dagster_url: str | None = None

    @property
    def settings(self) -> Settings:
        settings = read_settings()
        webhook_url = SecretStr(self.webhook_url) if self.webhook_url else settings.alert_webhook_url
        dagster_url = self.dagster_url or settings.dagster_url
        return settings.model_copy(update={"alert_webhook_url": webhook_url, "dagster_url": dagster_url})


def deliver(queue: MessageQueue, webhook_url: SecretStr | None, now: datetime) -> str | None:
    """Send due messages, oldest first, up to the first failure, and return its reason.

    After a failure the webhook is taken for unreachable, and all other messages wait too.
    """
    if webhook_url is None:
        queue.messages = []
        return None
    began = monotonic()
    while queue.messages and queue.messages[0].is_due(now) and monotonic() - began < _DELIVERING_SECONDS:
        message = queue.messages[0]
        try:
            post_message(webhook_url.get_secret_value(), slack_payload(message.text))
        except WebhookError as error:
            queue.messages[0] = message.put_off(now)
            _LOG.warning("%d messages wait: %s", len(queue.messages), error)
            return str(error)
        queue.messages = queue.messages[1:]
    return None


def secrets_of(settings: Settings) -> list[str]:
    values = (getattr(settings, name) for name in Settings.model_fields)
    secrets = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
    parts = [part for secret in secrets for part in (secret, *secret.split(","), urlsplit(secret).password or "")]
    return [part for part in parts if len(part) >= _SHORTEST_SECRET]
