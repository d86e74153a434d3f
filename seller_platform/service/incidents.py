"""Security events of the service that are reported: replayed codes, reused refresh tokens, locked logins."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from seller_platform.service.events import ALARMING, EventKind, SecurityEvent, find_events
from seller_platform.service.settings import ServiceSettings
from seller_platform.settings import Settings
from seller_platform.warehouse.monitoring.incidents import Incident
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url

_REPORTED_FOR = timedelta(days=1)
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


def security_incidents(settings: Settings, now: datetime) -> Sequence[Incident]:
    """Return the alarming events of the service of the last day.

    Raises:
        WarehouseUnavailableError: Its database cannot be reached.
    """
    service_url = settings.of(ServiceSettings).service_database_url
    url = service_url.get_secret_value() if service_url is not None else warehouse_url(settings)
    with Database(url, connections=1) as database:
        events = find_events(database, kinds=ALARMING, since=now - _REPORTED_FOR, limit=500)
    return tuple(map(_incident, events))


def _incident(event: SecurityEvent) -> Incident:
    """Return the incident of an event: of a locked login one for the user, of others one for each."""
    kind, user = EventKind(event.kind), event.email or event.details.get("email")
    facts = (
        ("user", user),
        ("application", event.application or event.client_id),
        ("address", event.address),
        ("request", event.request_id),
    )
    named = ", ".join(f"{name} {value}" for name, value in facts if value)
    return Incident(
        key=f"{kind} {(user or event.address) if kind is EventKind.LOGIN_LOCKED else event.id}",
        title=f"Security: {_TITLES[kind]}",
        at=event.at,
        line=f"{event.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: {named}",
        step=_STEPS[kind],
        command=f"seller-platform service events --kind {kind}",
    )
