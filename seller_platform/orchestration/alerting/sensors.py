"""Sensors that report failed runs, failed checks and security events to a webhook and to the log.

Each cause is reported once, until it is resolved. A sensor reads Dagster's event log from where it stopped. It keeps
the open causes and the undelivered messages in its cursor, so that a webhook that is away delays a message and loses
none. Three kinds of failures are not reported:

- a run that Dagster starts again by itself;
- a check that failed only because its slice could not be stored, which its run reports;
- a run that failed for lack of an authorisation, once the check of the connections reports that.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta

import dagster as dg
import msgspec

from seller_platform.clocks import Clock, utc_now
from seller_platform.orchestration.alerting.causes import Alerts, failure_text, more_text, resolved_text
from seller_platform.orchestration.alerting.delivery import SECONDS_BETWEEN_TICKS, AlertsResource, deliver, secrets_of
from seller_platform.orchestration.alerting.event_log import (
    EventReader,
    newest_evaluation,
    newest_run_failure,
    read_checks,
    read_runs,
)
from seller_platform.orchestration.alerting.security import security_sensor
from seller_platform.orchestration.partitions import account_partitions

_MESSAGES_PER_TICK = 10
# Processes side by side may store events in another order than their numbers, and Dagster notes that it starts a run
# again a moment after the run's failure: younger events are left to the next tick.
_SETTLES_AFTER = timedelta(seconds=3)

_LOG = logging.getLogger(__name__)


Read = Callable[[EventReader, Alerts], None]


def alert_definitions(*, clock: Clock = utc_now) -> dg.Definitions:
    """Return the sensors that report failures and security events, and their resource `alerts`."""
    targets = "once for each cause, to SELLER_PLATFORM_ALERT_WEBHOOK_URL and to the log."
    return dg.Definitions(
        sensors=[
            _sensor("run_failures", f"Reports failed runs, {targets}", newest_run_failure, read_runs, clock),
            _sensor("check_failures", f"Reports failed checks, {targets}", newest_evaluation, read_checks, clock),
            security_sensor(clock),
        ],
        resources={"alerts": AlertsResource()},
    )


def _sensor(
    name: str, description: str, newest: Callable[[dg.DagsterInstance], int], read: Read, clock: Clock
) -> dg.SensorDefinition:
    @dg.sensor(
        name=name,
        description=description,
        minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def evaluate(context: dg.SensorEvaluationContext, alerts: AlertsResource) -> dg.SensorResult:
        now, settings, instance = clock(), alerts.settings, context.instance
        latest = newest(instance)
        stored = _stored_alerts(context.cursor) or Alerts(latest)
        stored.read_to = min(stored.read_to, latest)  # the numbers of deleted events may come again
        open_before = list(stored.causes)
        accounts = frozenset(account_partitions(instance))
        read(EventReader(instance, now - _SETTLES_AFTER, accounts, secrets_of(settings)), stored)
        for level, text in _messages(stored, open_before, settings.dagster_url):
            _LOG.log(level, "%s", text)
            if settings.alert_webhook_url is not None:
                for dropped in stored.add_message(text, now):
                    _LOG.error("too many messages wait for the webhook; this one is not sent: %s", dropped.text)
        stored.forget(now)
        problem = deliver(stored, settings.alert_webhook_url, now)
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
