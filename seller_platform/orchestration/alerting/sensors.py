"""Sensors that send one alert for each cause of problems, and another when the cause is resolved.

Alerts go to a webhook and to the log.

- `problems` compares `platform.problems` with what it has reported.
- `run_failures` reports runs that failed for another reason, but none that Dagster starts again by itself.

Open causes and undelivered messages are in the cursor of a sensor, so that a webhook that is away delays a message and
loses none.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TypeAlias
from urllib.parse import quote

import dagster as dg
import msgspec

from seller_platform.clocks import Clock, is_past, utc_now
from seller_platform.commands import runnable
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import SellerPlatformError
from seller_platform.orchestration.account_names import name_of
from seller_platform.orchestration.alerting.causes import Alerts, Cause, Failure, together
from seller_platform.orchestration.alerting.delivery import (
    SECONDS_BETWEEN_TICKS,
    publish,
    read_cursor,
    redacted,
    secrets_of,
)
from seller_platform.orchestration.alerting.messages import failure_text, more_text, resolved_text, title_of
from seller_platform.orchestration.alerting.runs import failures_of_runs, is_open, newest_failure
from seller_platform.orchestration.alerting.security import security_sensor
from seller_platform.orchestration.assets.reporting import keys_read
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.connections.accounts import accounts_by_key
from seller_platform.warehouse.monitoring.problems import Problem, end_acknowledgements, problems, to_report
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url

_MESSAGES_PER_TICK = 10
_FORGOTTEN_AFTER = timedelta(days=14)
# Processes side by side may store events in another order than their numbers, and Dagster notes that it starts a run
# again a moment after the run's failure: what is younger is left to the next tick.
_SETTLES_AFTER = timedelta(seconds=3)
_LONGEST_AHEAD = timedelta(minutes=5)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tick:
    """An evaluation of a sensor.

    Attributes:
        opened: Closes the warehouse if it was used.
    """

    instance: dg.DagsterInstance
    settings: Settings
    now: datetime
    placement: Placement
    opened: ExitStack = field(default_factory=ExitStack)

    def has_settled(self, moment: datetime) -> bool:
        """Return whether a moment is so long ago that what happened before it can be read."""
        return is_past(moment + _SETTLES_AFTER, self.now, _LONGEST_AHEAD)

    @cached_property
    def database(self) -> Database:
        """The warehouse."""
        return self.opened.enter_context(Database(warehouse_url(self.settings), connections=1))


_StillOpen: TypeAlias = Callable[[Tick, Mapping[str, Cause], Collection[str]], Set[str]]
"""Returns the keys of the causes that are open, by all causes and the keys of those of the failures."""


def alert_definitions(*, clock: Clock = utc_now, placement: Placement = WHOLE) -> dg.Definitions:
    """Return the sensors that report failures and security events."""

    def sensor(
        name: str,
        what: str,
        read: Callable[[Tick, Alerts], Sequence[Failure]],
        still_open: _StillOpen,
        newest: Callable[[dg.DagsterInstance], int],
    ) -> dg.SensorDefinition:
        """Return a sensor.

        Args:
            read: Returns failures; of a sensor that reads what is new in Dagster those that are new.
            newest: Returns the number of the newest event; a sensor without a cursor begins after it.
        """

        @dg.sensor(
            name=placement.name_of(name),
            description=f"Reports {what}, once for each cause, to SELLER_PLATFORM_ALERT_WEBHOOK_URL and to the log.",
            minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
            default_status=dg.DefaultSensorStatus.RUNNING,
        )
        def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
            tick = Tick(context.instance, read_settings(), clock(), placement)
            last, messages, problem = newest(tick.instance), list[tuple[int, str]](), ""
            stored = read_cursor(context.cursor, Alerts) or Alerts(read_to=last)
            stored.read_to = min(stored.read_to, last)  # the numbers of deleted events may come again
            before = deepcopy(stored)
            try:
                with tick.opened:
                    messages = list(_messages(tick, stored, read(tick, stored), still_open))
            except SellerPlatformError as error:
                # What was read and is not in a message is read again by the next tick.
                stored, problem = before, f": {error}"
            waiting = publish(stored, messages, tick.settings, tick.now)
            causes = f"{count_of(len(stored.causes), 'cause', 'is')} open" if stored.causes else "no cause is open"
            cursor = msgspec.json.encode(stored).decode()
            return dg.SensorResult(cursor=cursor, skip_reason=f"{causes}{waiting}{problem}")

        return evaluate

    sensors = [
        sensor("problems", "what platform.problems names", _read_problems, lambda *of: {*of[-1]}, newest=lambda _: 0),
        sensor(
            "run_failures",
            "runs that failed for another reason",
            _read_runs,
            lambda tick, causes, _: {key for key, cause in causes.items() if is_open(tick.instance, cause)},
            newest=newest_failure,
        ),
    ]
    return dg.Definitions(sensors=[*sensors, security_sensor(clock, placement)])


def _messages(
    tick: Tick, alerts: Alerts, failures: Sequence[Failure], still_open: _StillOpen
) -> Iterator[tuple[int, str]]:
    """Yield the messages of new and of resolved causes with their levels in the log."""
    secrets, open_before = secrets_of(tick.settings), dict(alerts.causes)
    by_cause = alerts.add((replace(each, sentence=redacted(each.sentence, secrets)) for each in failures), tick.now)
    resolved = alerts.causes.keys() - still_open(tick, alerts.causes, by_cause)
    alerts.causes = {key: cause for key, cause in alerts.causes.items() if key not in resolved}
    new = {key: each for key, each in by_cause.items() if key in alerts.causes and key not in open_before}
    names, url = _names(tick, new.values()), tick.settings.dagster_url
    for key, of_cause in new.items():
        alerts.causes[key].title = title_of(of_cause, names)
    groups = together(new)
    for group in groups[:_MESSAGES_PER_TICK]:
        yield logging.ERROR, failure_text(group, link=_link(group[0], url), names=names)
    if len(groups) > _MESSAGES_PER_TICK:
        runs = f"Runs: {url}/runs" if url else None
        yield logging.ERROR, more_text(groups[_MESSAGES_PER_TICK:], link=runs, names=names)
    for key in resolved & open_before.keys():
        yield logging.INFO, resolved_text(open_before[key], alerts.causes.values())


def _read_problems(tick: Tick, _: Alerts) -> Sequence[Failure]:
    database, placement = tick.database, tick.placement
    rows = to_report(problems(database, accounts=keys_read(database, placement)), tick.now)
    end_acknowledgements(database)
    return [_failure_of(row, placement) for row in rows]


def _failure_of(problem: Problem, placement: Placement) -> Failure:
    path = problem.dataset.split(".")
    key = placement.key(dg.AssetKey(path if len(path) > 1 else ["seller", *path]))
    return Failure(
        problem.kind,
        key.to_user_string(),
        runnable(problem.message),
        runnable(problem.next_step or ""),
        parts=list(zip(problem.accounts, problem.months, strict=True)),
        count=problem.slices,
        since=problem.since,
        run_id=problem.run_id,
        is_warning=problem.severity != "error",
        accounts=() if problem.dataset == ACCOUNTS.name else problem.accounts,
    )


def _read_runs(tick: Tick, alerts: Alerts) -> Sequence[Failure]:
    alerts.causes = {
        key: cause for key, cause in alerts.causes.items() if tick.now - cause.failed_at < _FORGOTTEN_AFTER
    }
    failures = list(failures_of_runs(tick.instance, alerts, tick.has_settled))
    # A run says the next step together with the reason.
    named = _read_problems(tick, alerts) if failures else ()
    sentences = {f"{each.sentence} {each.next_step}".rstrip(" .") for each in named}
    return [failure for failure in failures if failure.sentence.rstrip(".") not in sentences]


def _link(failure: Failure, dagster_url: str | None) -> str | None:
    """Return the link to the run, or else to the partition or the checks of the asset."""
    if dagster_url is None:
        return None
    if failure.run_id:
        return f"Run: {dagster_url}/runs/{failure.run_id}"
    asset = f"{dagster_url}/assets/{failure.subject}"
    account, month = next(iter(failure.parts), ("", None))
    if month is None or failure.is_warning:
        return f"Checks: {asset}?view=checks"
    return f"Partition: {asset}?view=partitions&partition={quote(f'{account}|{month}')}"


def _names(tick: Tick, groups: Iterable[Sequence[Failure]]) -> Mapping[str, str]:
    """Return title, country and currency of the accounts that messages name; none while the warehouse is away."""
    keys = {account for group in groups for failure in group for account, _ in failure.parts}
    if not keys:
        return {}
    try:
        return {key: name_of(account) for key, account in accounts_by_key(tick.database, keys).items()}
    except SellerPlatformError as error:
        _LOG.warning("accounts are named by their keys alone: %s", error)
        return {}
