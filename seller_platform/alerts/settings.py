"""The settings of alerts."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field, SecretStr, field_validator

from seller_platform.settings import Settings, http_url


class AlertsSettings(Settings):
    """Where alerts are sent."""

    project: ClassVar[Sequence[str]] = ("alerts",)

    alerts: bool = Field(True, description="whether Dagster's sensors send alerts")
    alert_webhook_url: SecretStr | None = Field(
        None, description="the webhook for alerts, in Slack's form; without it they go to the log alone"
    )

    @field_validator("alert_webhook_url")
    @classmethod
    def _webhook(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            http_url(url.get_secret_value())
        return url
