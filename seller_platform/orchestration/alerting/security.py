"""The sensor that reports security events of the service: replayed codes, reused refresh tokens, locked logins.

The events of a kind are reported in one message for each evaluation. A lock of the same user or address is reported
once an hour at most.
"""

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

import dagster as dg
import msgspec

from seller_platform.clocks import Clock
from seller_platform.commands import runnable
from seller_platform.counts import count_of
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.orchestration.alerting.delivery import SECONDS_BETWEEN_TICKS, Outbox, publish, read_cursor
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url
from seller_platform.warehouse.readers.security_events import SecurityEvent, events_between, newest_event
from seller_platform.warehouse.schema.event_kinds import ALARMING, EventKind

_EVENTS_PER_TICK = 500
_NAMED_EVENTS = 5
_LOCKS_REPORTED_EVERY = timedelta(hours=1)
# Transactions side by side may store events in another order than their numbers: younger events wait a tick.
_SETTLES_AFTER = timedelta(seconds=3)
_TITLES = {
    EventKind.CODE_REPLAYED: "A code was used a second time",
    EventKind.REFRESH_TOKEN_REUSED: "A refresh token was used a second time",
    EventKind.LOGIN_LOCKED: "Many logins failed",
}
_STEPS = {
    EventKind.CODE_REPLAYED: "Its tokens are revoked. Ask the operator of the application whether its codes leak.",
    EventKind.REFRESH_TOKEN_REUSED: "Its tokens are revoked, and the user must approve the application again. Another "
    "person may have a copy of the token.",
    EventKind.LOGIN_LOCKED: "The address is locked for 15 minutes, or the user is delayed. No action is needed unless "
    "this goes on: then block the addresses in front of the service.",
}


class SecurityAlerts(Outbox, kw_only=True):
    """The cursor of the sensor: the last event read, reported locks, messages to send.

    Attributes:
        locks: When the lock of a user or of an address was reported last.
    """

    read_to: int
    locks: dict[str, datetime] = msgspec.field(default_factory=dict)


def security_sensor(clock: Clock, placement: Placement = WHOLE) -> dg.SensorDefinition:
    """Return the sensor that reports security events."""

    @dg.sensor(
        name=placement.name_of("security_events"),
        description="Reports replayed codes, reused refresh tokens and locked logins of the service, to "
        "SELLER_PLATFORM_ALERT_WEBHOOK_URL and to the log.",
        minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now, settings = clock(), read_settings()
        try:
            stored, events = _read(read_cursor(context.cursor, SecurityAlerts), settings, now)
        except WarehouseUnavailableError as error:
            return dg.SensorResult(cursor=context.cursor, skip_reason=str(error))
        waiting = publish(stored, ((logging.WARNING, text) for text in _messages(stored, events, now)), settings, now)
        return dg.SensorResult(
            cursor=msgspec.json.encode(stored).decode(), skip_reason=f"{count_of(len(events), 'new event')}{waiting}"
        )

    return evaluate


def _read(
    stored: SecurityAlerts | None, settings: Settings, now: datetime
) -> tuple[SecurityAlerts, Sequence[SecurityEvent]]:
    """Return the events since the last evaluation; the first one begins with those that come after it."""
    service_url = settings.service_database_url
    url = service_url.get_secret_value() if service_url is not None else warehouse_url(settings)
    with Database(url, connections=1) as database:
        newest, settled = newest_event(database), newest_event(database, now - _SETTLES_AFTER)
        if stored is None:
            return SecurityAlerts(read_to=newest), ()
        # The numbers of a database that was restored from a backup come again.
        stored.read_to = min(stored.read_to, newest)
        events = events_between(database, stored.read_to, settled, ALARMING, _EVENTS_PER_TICK)
    stored.read_to = events[-1].id if len(events) == _EVENTS_PER_TICK else max(stored.read_to, settled)
    return stored, events


def _messages(alerts: SecurityAlerts, events: Sequence[SecurityEvent], now: datetime) -> Iterator[str]:
    """Yield one message for each kind, without the locks that were reported within the hour."""
    alerts.locks = {key: at for key, at in alerts.locks.items() if now - at < _LOCKS_REPORTED_EVERY}
    new = []
    for event in events:
        key = f"{event.email or event.details.get('email') or event.address}"
        if event.kind != EventKind.LOGIN_LOCKED or key not in alerts.locks:
            new.append(event)
        if event.kind == EventKind.LOGIN_LOCKED:
            alerts.locks.setdefault(key, now)
    for kind, of_kind in groupby(sorted(new, key=lambda event: event.kind), key=lambda event: EventKind(event.kind)):
        yield _text(kind, list(of_kind))


def _text(kind: EventKind, events: Sequence[SecurityEvent]) -> str:
    lines = [_line(event) for event in events[:_NAMED_EVENTS]]
    if len(events) > _NAMED_EVENTS:
        lines.append(
            f"and {len(events) - _NAMED_EVENTS} more; `seller-platform service events --kind {kind}` lists them"
        )
    return runnable("\n".join((f"Security: {_TITLES[kind]}", *lines, _STEPS[kind])))


def _line(event: SecurityEvent) -> str:
    facts = (
        ("user", event.email or event.details.get("email")),
        ("application", event.application or event.client_id),
        ("address", event.address),
        ("request", event.request_id),
    )
    named = ", ".join(f"{name} {value}" for name, value in facts if value)
    return f"{event.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: {named}"
