"""Sensors that report failed runs and failed checks to a webhook and to the log.

Each cause is reported once, until it is resolved. A sensor reads Dagster's event log from where it stopped. It keeps
the open causes and the undelivered messages in its cursor, so that a webhook that is away delays a message and loses
none. Three kinds of failures are not reported:

- a run that Dagster starts again by itself;
- a check that failed only because its slice could not be stored, which its run reports;
- a run that failed for lack of an authorisation, once the check of the connections reports that.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta
from time import monotonic
from urllib.parse import urlsplit

import dagster as dg
import msgspec
from pydantic import SecretStr

from seller_platform.client.endpoints.webhook import post_message
from seller_platform.clocks import Clock, utc_now
from seller_platform.errors import WebhookError
from seller_platform.orchestration.alerting.causes import Alerts, failure_text, more_text, resolved_text, slack_payload
from seller_platform.orchestration.alerting.event_log import (
    EventReader,
    newest_evaluation,
    newest_run_failure,
    read_checks,
    read_runs,
)
from seller_platform.orchestration.partitions import account_partitions
from seller_platform.settings import Settings, read_settings

_SECONDS_BETWEEN_TICKS = 30
_MESSAGES_PER_TICK = 10
_DELIVERING_SECONDS = 5.0
# Processes side by side may store events in another order than their numbers, and Dagster notes that it starts a run
# again a moment after the run's failure: younger events are left to the next tick.
_SETTLES_AFTER = timedelta(seconds=3)
_SHORTEST_SECRET = 4

_LOG = logging.getLogger(__name__)


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


Read = Callable[[EventReader, Alerts], None]


def alert_definitions(*, clock: Clock = utc_now) -> dg.Definitions:
    """Return the sensors that report failures, and their resource `alerts`."""
    targets = "once for each cause, to SELLER_PLATFORM_ALERT_WEBHOOK_URL and to the log."
    return dg.Definitions(
        sensors=[
            _sensor("run_failures", f"Reports failed runs, {targets}", newest_run_failure, read_runs, clock),
            _sensor("check_failures", f"Reports failed checks, {targets}", newest_evaluation, read_checks, clock),
        ],
        resources={"alerts": AlertsResource()},
    )


def _sensor(
    name: str, description: str, newest: Callable[[dg.DagsterInstance], int], read: Read, clock: Clock
) -> dg.SensorDefinition:
    @dg.sensor(
        name=name,
        description=description,
        minimum_interval_seconds=_SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def evaluate(context: dg.SensorEvaluationContext, alerts: AlertsResource) -> dg.SensorResult:
        now, settings, instance = clock(), alerts.settings, context.instance
        latest = newest(instance)
        stored = _stored_alerts(context.cursor) or Alerts(latest)
        stored.read_to = min(stored.read_to, latest)  # the numbers of deleted events may come again
        open_before = list(stored.causes)
        accounts = frozenset(account_partitions(instance))
        read(EventReader(instance, now - _SETTLES_AFTER, accounts, _secrets(settings)), stored)
        for level, text in _messages(stored, open_before, settings.dagster_url):
            _LOG.log(level, "%s", text)
            if settings.alert_webhook_url is not None:
                for dropped in stored.add_message(text, now):
                    _LOG.error("too many messages wait for the webhook; this one is not sent: %s", dropped.text)
        stored.forget(now)
        problem = _deliver(stored, settings.alert_webhook_url, now)
        causes = f"{len(stored.causes)} causes are open" if stored.causes else "no cause is open"
        waiting = f"; {len(stored.messages)} messages wait for the webhook" if stored.messages else ""
        return dg.SensorResult(
            cursor=stored.cursor, skip_reason=f"{causes}{waiting}" + (f": {problem}" if problem else "")
        )

    return evaluate


def _stored_alerts(cursor: str | None) -> Alerts | None:
    if not cursor:
        return None
    try:
        return Alerts.read(cursor)
    except msgspec.DecodeError as error:
        _LOG.error("the cursor of the sensor cannot be read, and only new failures are reported: %s", error)
        return None


def _messages(alerts: Alerts, open_before: Collection[str], dagster_url: str | None) -> Iterator[tuple[int, str]]:
    """Yield the messages of new and of resolved causes with their levels in the log."""
    new = [cause for key, cause in alerts.causes.items() if key not in open_before and not cause.is_resolved]
    for cause in new[:_MESSAGES_PER_TICK]:
        # An evaluation of a sensor has no run.
        run_url = f"{dagster_url}/runs/{cause.run_id}" if dagster_url and cause.run_id else None
        yield logging.ERROR, failure_text(cause, run_url=run_url)
    if len(new) > _MESSAGES_PER_TICK:
        yield logging.ERROR, more_text(new[_MESSAGES_PER_TICK:])
    for key in open_before:
        if alerts.causes[key].is_resolved:
            yield logging.INFO, resolved_text(alerts.causes[key])


def _deliver(alerts: Alerts, webhook_url: SecretStr | None, now: datetime) -> str | None:
    """Send due messages, oldest first, up to the first failure, and return its reason.

    After a failure the webhook is taken for unreachable, and all other messages wait too.
    """
    if webhook_url is None:
        alerts.messages = []
        return None
    began = monotonic()
    while alerts.messages and alerts.messages[0].is_due(now) and monotonic() - began < _DELIVERING_SECONDS:
        message = alerts.messages[0]
        try:
            post_message(webhook_url.get_secret_value(), slack_payload(message.text))
        except WebhookError as error:
            alerts.messages[0] = message.put_off(now)
            _LOG.warning("%d messages wait: %s", len(alerts.messages), error)
            return str(error)
        alerts.messages = alerts.messages[1:]
    return None


def _secrets(settings: Settings) -> list[str]:
    values = (getattr(settings, name) for name in Settings.model_fields)
    secrets = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
    parts = [part for secret in secrets for part in (secret, *secret.split(","), urlsplit(secret).password or "")]
    return [part for part in parts if len(part) >= _SHORTEST_SECRET]
