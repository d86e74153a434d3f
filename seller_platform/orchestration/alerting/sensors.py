"""Alerts: sensors that tell of failed runs and failed checks, once for each cause, to a webhook and to the log.

A sensor reads Dagster's event log from where it stopped, and keeps the open causes and the messages that were not
delivered yet in its cursor: a webhook that is away delays a message and loses none. Runs that Dagster starts again by
itself are not told of; neither is a check that failed only because its slice could not be stored, for its run says so,
nor a run that failed for want of an authorisation, once the check of the connections says so.
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
from seller_platform.orchestration.alerting.causes import (
    Alerts,
    Cause,
    failure_text,
    more_text,
    resolved_text,
    slack_payload,
)
from seller_platform.orchestration.alerting.event_log import (
    EventReader,
    newest_evaluation,
    newest_run_failure,
    read_checks,
    read_runs,
)
from seller_platform.orchestration.partitions import ACCOUNT_PARTITIONS
from seller_platform.settings import Settings, read_settings

_SECONDS_BETWEEN_TICKS = 30
_MESSAGES_PER_TICK = 10
_DELIVERING_SECONDS = 5.0
# Events of processes side by side may be stored in another order than they are numbered, and whether Dagster starts a
# run again is noted a moment after its failure: what is younger is left to the next tick.
_SETTLES_AFTER = timedelta(seconds=3)
_SHORTEST_SECRET = 4

_LOG = logging.getLogger(__name__)


class AlertsResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # it is its own value
    """Where alerts go.

    Attributes:
        webhook_url: What takes the messages, a secret: give it by `EnvVar`. SELLER_PLATFORM_ALERT_WEBHOOK_URL without.
        dagster_url: Where the Dagster UI lies, for links. SELLER_PLATFORM_DAGSTER_URL without.
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
    """Return the sensors that tell of failures, and their resource `alerts`."""
    told = "once for each cause, to SELLER_PLATFORM_ALERT_WEBHOOK_URL and to the log."
    return dg.Definitions(
        sensors=[
            _sensor("run_failures", f"Tells of failed runs, {told}", newest_run_failure, read_runs, clock),
            _sensor("check_failures", f"Tells of failed checks, {told}", newest_evaluation, read_checks, clock),
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
        known = _remembered(context.cursor) or Alerts(latest)
        known.read_to = min(known.read_to, latest)  # where events were deleted, their numbers may come again
        open_before = list(known.causes)
        accounts = frozenset(instance.get_dynamic_partitions(ACCOUNT_PARTITIONS.name or ""))
        read(EventReader(instance, now - _SETTLES_AFTER, accounts, _secrets(settings)), known)
        for level, text in _messages(known, open_before, settings):
            _tell(known, text, level, settings, now)
        known.forget(now)
        problem = _deliver(known, settings, now)
        return dg.SensorResult(cursor=known.cursor, skip_reason=_summary(known, problem))

    return evaluate


def _remembered(cursor: str | None) -> Alerts | None:
    if not cursor:
        return None
    try:
        return Alerts.read(cursor)
    except msgspec.DecodeError as error:
        _LOG.error("what the sensor remembered cannot be read, and it begins with the present: %s", error)
        return None


def _messages(known: Alerts, open_before: Collection[str], settings: Settings) -> Iterator[tuple[int, str]]:
    """Yield what is to be told, with its level in the log."""
    new = [cause for key, cause in known.causes.items() if key not in open_before and not cause.is_resolved]
    for cause in new[:_MESSAGES_PER_TICK]:
        yield logging.ERROR, failure_text(cause, run_url=_run_url(settings, cause))
    if len(new) > _MESSAGES_PER_TICK:
        yield logging.ERROR, more_text(new[_MESSAGES_PER_TICK:])
    for key in open_before:
        if known.causes[key].is_resolved:
            yield logging.INFO, resolved_text(known.causes[key])


def _tell(known: Alerts, text: str, level: int, settings: Settings, now: datetime) -> None:
    _LOG.log(level, "%s", text)
    if settings.alert_webhook_url is not None:
        for dropped in known.write(text, now):
            _LOG.error("too many messages wait for the webhook; this one is not sent: %s", dropped.text)


def _deliver(known: Alerts, settings: Settings, now: datetime) -> str | None:
    """Send what is due, oldest first, and return what kept the webhook from taking it.

    The first that fails ends it: the webhook is away, and all the others wait with it.
    """
    if settings.alert_webhook_url is None:
        known.letters = []
    began = monotonic()
    while known.letters and known.letters[0].is_due(now) and monotonic() - began < _DELIVERING_SECONDS:
        assert settings.alert_webhook_url is not None
        letter = known.letters[0]
        try:
            post_message(settings.alert_webhook_url.get_secret_value(), slack_payload(letter.text))
        except WebhookError as error:
            known.letters[0] = letter.put_off(now)
            _LOG.warning("%d messages wait: %s", len(known.letters), error)
            return str(error)
        known.letters = known.letters[1:]
    return None


def _summary(known: Alerts, problem: str | None) -> str:
    waiting = f"; {len(known.letters)} messages wait for the webhook" if known.letters else ""
    causes = f"{len(known.causes)} causes are open" if known.causes else "all is well"
    return f"{causes}{waiting}" + (f": {problem}" if problem else "")


def _run_url(settings: Settings, cause: Cause) -> str | None:
    """Return where the run is shown; a sensor's own evaluations have none."""
    return f"{settings.dagster_url}/runs/{cause.run_id}" if settings.dagster_url and cause.run_id else None


def _secrets(settings: Settings) -> list[str]:
    values = (getattr(settings, name) for name in Settings.model_fields)
    secrets = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
    parts = [part for secret in secrets for part in (secret, *secret.split(","), urlsplit(secret).password or "")]
    return [part for part in parts if len(part) >= _SHORTEST_SECRET]
