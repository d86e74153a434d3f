"""Compares what is wrong with what was reported, and sends the messages, oldest first.

A cause is open in `platform.alerts` until nothing of it is left; then another message says so. A message stays in the
table until the webhook has accepted it: a webhook that is away delays messages and loses none. Without a webhook they
are logged alone. Several processes may send at the same time; each message is sent by one of them.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from time import monotonic

from sqlalchemy import Connection, text

from seller_platform.alerts.messages import (
    LONGEST_SENTENCE,
    cause_of,
    incident_text,
    problem_text,
    problem_title,
    slack_payload,
    without_secrets,
)
from seller_platform.alerts.settings import AlertsSettings
from seller_platform.alerts.webhook import post_message
from seller_platform.capabilities import contributed
from seller_platform.clocks import utc_now
from seller_platform.counts import count_of
from seller_platform.errors import WarehouseUnavailableError, WebhookError
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.accounts import accounts_by_key
from seller_platform.warehouse.monitoring.problems import Incident, Problem, end_acknowledgements, problems, to_report
from seller_platform.warehouse.postgres.database import Database

_MESSAGES_AT_ONCE = 10
_REPORTED_EVERY = timedelta(hours=1)

_LOG = logging.getLogger(__name__)

_OPEN_CAUSES = text("SELECT cause FROM platform.alerts WHERE is_open")
_WRITE = text("""
    INSERT INTO platform.alerts (cause, title, sentence, message, is_open)
    SELECT :cause, :title, :sentence, :message, :is_open
    WHERE NOT EXISTS (SELECT FROM platform.alerts WHERE cause = :cause AND written_at > now() - :within)
    ON CONFLICT (cause) WHERE is_open DO NOTHING RETURNING id
""")
_RESOLVE = text("""
    UPDATE platform.alerts SET is_open = false WHERE is_open AND NOT cause = ANY (:causes) RETURNING title, sentence
""")
_REPORTED = text("SELECT cause, max(written_at) FROM platform.alerts WHERE cause = ANY (:causes) GROUP BY cause")
_NEXT = text("""
    SELECT id, message FROM platform.alerts WHERE message IS NOT NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
""")
_SENT = text("UPDATE platform.alerts SET message = NULL WHERE id = :id")
# What is reported once in a while is kept for longer than the events of security are looked at.
_FORGET = text("""
    DELETE FROM platform.alerts WHERE NOT is_open AND message IS NULL AND written_at < now() - interval '2 days'
""")
_COUNT = text("SELECT count(*) FILTER (WHERE is_open), count(message) FROM platform.alerts")


def send_alerts(database: Database, settings: Settings, prefix: Sequence[str] = ()) -> str:
    """Report what is new and what is resolved, send what waits, and return how many causes are open.

    Args:
        prefix: The first parts of the asset keys in Dagster, for titles and links.
    """
    _write_problems(database, settings, prefix)
    problem = _write_incidents(database, settings)
    problem = deliver(database, settings) or problem
    with database.begin() as connection:
        connection.execute(_FORGET)
        causes, waiting = connection.execute(_COUNT).one()
    is_open = f"{count_of(causes, 'cause', 'is')} open" if causes else "no cause is open"
    waits = f"; {count_of(waiting, 'message', 'waits')} for the webhook" if waiting else ""
    return f"{is_open}{waits}{problem}"


def write(
    connection: Connection,
    settings: Settings,
    cause: str,
    message: str,
    *,
    level: int = logging.ERROR,
    is_open: bool = False,
    title: str = "",
    sentence: str = "",
    within: timedelta = timedelta(),
) -> bool:
    """Log a message and keep it for the webhook, unless its cause is open or was reported a short time ago.

    Returns:
        Whether it was written; otherwise another message has to report what else this one reports.

    Args:
        message: Empty where another message reports the cause, too.
        within: How long the cause is not reported again.
    """
    message = without_secrets(message, settings)
    bound = {
        **{"cause": cause, "is_open": is_open, "within": within},
        "title": without_secrets(title, settings),
        "sentence": without_secrets(sentence[:LONGEST_SENTENCE], settings),
        "message": message if message and settings.of(AlertsSettings).alert_webhook_url else None,
    }
    is_written = connection.execute(_WRITE, bound).one_or_none() is not None
    if is_written and message:
        _LOG.log(level, "%s", message)
    return is_written


def _write_problems(database: Database, settings: Settings, prefix: Sequence[str]) -> None:
    """Report the causes that are new, at most ten in messages of their own, and those that are resolved."""
    by_cause: dict[str, list[Problem]] = defaultdict(list)
    for problem in to_report(problems(database), utc_now()):
        by_cause[cause_of(problem)].append(problem)
    end_acknowledgements(database)
    known = {*database.execute(_OPEN_CAUSES).scalars()}
    new = {cause: of_cause for cause, of_cause in by_cause.items() if cause not in known}
    keys = {key for of_cause in new.values() for each in of_cause for key in each.accounts}
    names = {key: account.label for key, account in accounts_by_key(database, keys).items()} if keys else {}
    with database.begin() as connection:
        for number, (cause, of_cause) in enumerate(new.items()):
            message = problem_text(of_cause, names, settings.dagster_url, prefix)
            if number == _MESSAGES_AT_ONCE:
                more = count_of(len(new) - number, "more cause")
                message = f"{more}, the first: {message}\n`seller-platform status --all` lists what is wrong."
            elif number > _MESSAGES_AT_ONCE:
                message = ""
            title, sentence = problem_title(of_cause, names, prefix), of_cause[0].message
            write(connection, settings, cause, message, is_open=True, title=title, sentence=sentence)
        for title, sentence in connection.execute(_RESOLVE, {"causes": list(by_cause)}).all():
            resolved = f"Resolved: {title}\nIt was: {sentence}"
            write(connection, settings, "resolved", resolved, level=logging.INFO)


def _write_incidents(database: Database, settings: Settings) -> str:
    """Report the new incidents of each kind in one message, and return why they cannot be read."""
    try:
        incidents = [each for read in contributed("incidents") for each in read(settings, utc_now())]
    except WarehouseUnavailableError as error:
        return f": {error}"
    reported = dict(database.execute(_REPORTED, {"causes": [each.key for each in incidents]}).tuples().all())
    by_title: dict[str, dict[str, list[Incident]]] = defaultdict(lambda: defaultdict(list))
    for incident in incidents:
        last = reported.get(incident.key)
        if last is None or incident.at > last + _REPORTED_EVERY:
            by_title[incident.title][incident.key].append(incident)
    with database.begin() as connection:
        for by_key in by_title.values():
            message = incident_text([incident for of_key in by_key.values() for incident in of_key])
            for key in by_key:
                if write(connection, settings, key, message, level=logging.WARNING, within=_REPORTED_EVERY):
                    message = ""
    return ""


def deliver(database: Database, settings: Settings) -> str:
    """Send messages for some seconds, and return why the webhook does not accept them.

    After a failure the webhook counts as unreachable, and all others wait, too.
    """
    began, webhook_url = monotonic(), settings.of(AlertsSettings).alert_webhook_url
    while webhook_url is not None and monotonic() - began < 5.0:
        with database.begin() as connection:
            waiting = connection.execute(_NEXT).one_or_none()
            if waiting is None:
                break
            try:
                post_message(webhook_url.get_secret_value(), slack_payload(waiting.message))
            except WebhookError as error:
                return f": {error}"
            connection.execute(_SENT, {"id": waiting.id})
    return ""
