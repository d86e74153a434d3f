"""Sensors that report failed runs, failed checks and security events to a webhook and to the log.

Each cause is reported once, until it is resolved. A sensor reads Dagster's event log from where it stopped. It keeps
the open causes and the undelivered messages in its cursor, so that a webhook that is away delays a message and loses
none. Four kinds of failures are not reported:

- a run that Dagster starts again by itself;
- a check that failed only because its slice could not be stored, which its run reports;
- a mart that was not built because of the slice of an input, which is reported itself;
- a run that failed for lack of an authorisation, once the check of the connections reports that.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta

import dagster as dg
import msgspec

from seller_platform.clocks import Clock, utc_now
from seller_platform.counts import count_of
from seller_platform.errors import SellerPlatformError
from seller_platform.orchestration.account_names import name_of
from seller_platform.orchestration.alerting.causes import Alerts, Cause, failure_text, more_text, resolved_text
from seller_platform.orchestration.alerting.delivery import SECONDS_BETWEEN_TICKS, AlertsResource, deliver, secrets_of
from seller_platform.orchestration.alerting.event_log import (
    EventReader,
    look_up_failed,
    newest_evaluation,
    newest_run_failure,
    read_checks,
    read_runs,
)
from seller_platform.orchestration.alerting.security import security_sensor
from seller_platform.orchestration.partitions import account_partitions
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.accounts import accounts_by_key
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url

_MESSAGES_PER_TICK = 10
_NEEDS_A_SERVER = (
    "alerts need PostgreSQL as Dagster's storage; the SQLite files of a new project cannot be read across runs. "
    "Set `storage` in dagster.yaml"
)
# Processes side by side may store events in another order than their numbers, and Dagster notes that it starts a run
# again a moment after the run's failure: younger events are left to the next tick.
_SETTLES_AFTER = timedelta(seconds=3)

# Several components of a project share it, for Dagster refuses two with one key.
_ALERTS = AlertsResource()

_LOG = logging.getLogger(__name__)


Read = Callable[[EventReader, Alerts], None]


def alert_definitions(*, clock: Clock = utc_now, placement: Placement = WHOLE) -> dg.Definitions:
    """Return the sensors that report failures and security events, and their resource `alerts`."""
    targets = "once for each cause, to SELLER_PLATFORM_ALERT_WEBHOOK_URL and to the log."
    return dg.Definitions(
        sensors=[
            _sensor("run_failures", f"Reports failed runs, {targets}", newest_run_failure, read_runs, clock, placement),
            _sensor(
                "check_failures", f"Reports failed checks, {targets}", newest_evaluation, read_checks, clock, placement
            ),
            security_sensor(clock, placement),
        ],
        resources={"alerts": _ALERTS},
    )


def _sensor(  # noqa: PLR0917  # six facts, each of another type
    name: str,
    description: str,
    newest: Callable[[dg.DagsterInstance], int],
    read: Read,
    clock: Clock,
    placement: Placement,
) -> dg.SensorDefinition:
    @dg.sensor(
        name=placement.name_of(name),
        description=description,
        minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def evaluate(context: dg.SensorEvaluationContext, alerts: AlertsResource) -> dg.SensorResult:
        now, settings, instance = clock(), alerts.settings, context.instance
        if instance.event_log_storage.is_run_sharded:
            return dg.SensorResult(skip_reason=_NEEDS_A_SERVER)
        latest = newest(instance)
        stored = _stored_alerts(context.cursor) or Alerts(latest)
        stored.read_to = min(stored.read_to, latest)  # the numbers of deleted events may come again
        open_before = list(stored.causes)
        accounts = frozenset(account_partitions(instance, placement.accounts_name))
        reader = EventReader(instance, now - _SETTLES_AFTER, accounts, secrets_of(settings), placement)
        read(reader, stored)
        look_up_failed(reader, stored)
        for level, text in _messages(stored, open_before, settings):
            _LOG.log(level, "%s", text)
            if settings.alert_webhook_url is not None:
                for dropped in stored.add_message(text, now):
                    _LOG.error("too many messages wait for the webhook; this one is not sent: %s", dropped.text)
        stored.forget(now)
        problem = deliver(stored, settings.alert_webhook_url, now)
        causes = f"{count_of(len(stored.causes), 'cause', 'is')} open" if stored.causes else "no cause is open"
        waiting = f"; {count_of(len(stored.messages), 'message', 'waits')} for the webhook" if stored.messages else ""
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


def _messages(alerts: Alerts, open_before: Collection[str], settings: Settings) -> Iterator[tuple[int, str]]:
    """Yield the messages of new and of resolved causes with their levels in the log."""
    new = [cause for key, cause in alerts.causes.items() if key not in open_before and not cause.is_resolved]
    names, url = _names(settings, new[: _MESSAGES_PER_TICK + 1]), settings.dagster_url
    for cause in new[:_MESSAGES_PER_TICK]:
        yield logging.ERROR, failure_text(cause, link=_link(cause, url), names=names)
    if len(new) > _MESSAGES_PER_TICK:
        runs = f"Runs: {url}/runs" if url else None
        yield logging.ERROR, more_text(new[_MESSAGES_PER_TICK:], link=runs, names=names)
    for key in open_before:
        cause = alerts.causes[key]
        if cause.is_resolved:
            others = [other for other_key, other in alerts.causes.items() if other_key != key]
            yield logging.INFO, resolved_text(cause, others)


def _link(cause: Cause, dagster_url: str | None) -> str | None:
    """Return the link to the run; an evaluation of a sensor or a command has none, and the link leads to the checks."""
    if dagster_url is None:
        return None
    if cause.run_id:
        return f"Run: {dagster_url}/runs/{cause.run_id}"
    asset = next(iter(cause.affected)).partition(",")[0]
    return f"Checks: {dagster_url}/assets/{asset}?view=checks"


def _names(settings: Settings, causes: Sequence[Cause]) -> Mapping[str, str]:
    """Return title, country and currency of the remembered accounts; none while the warehouse is away."""
    remembered = [partition for cause in causes for of_subject in cause.partitions.values() for partition in of_subject]
    keys = {partition.partition("|")[0] for partition in remembered if partition}
    if not keys:
        return {}
    try:
        with Database(warehouse_url(settings), connections=1) as database:
            return {key: name_of(account) for key, account in accounts_by_key(database, keys).items()}
    except SellerPlatformError as error:
        _LOG.warning("accounts are named by their keys alone: %s", error)
        return {}
