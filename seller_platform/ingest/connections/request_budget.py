"""The requests that a connection may send in a day, shared by all processes.

A day is one of UTC, when upstreams commonly renew their budgets. Clocks differ, and a request takes its time: around
midnight, a request counts on both days, so that neither has more than allowed by the clock of the upstream.

Requests to the token endpoint do not count: they are of the authorisation server, and must never wait.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from seller_platform.client.http.api import SellerApi
from seller_platform.clocks import Clock, utc_now
from seller_platform.contract import Dataset, Window
from seller_platform.errors import BudgetTooSmallError, RequestsUsedUpError
from seller_platform.warehouse.connections.sent_requests import give_back_requests, requests_left, take_requests
from seller_platform.warehouse.loads.expectations import expected_loads
from seller_platform.warehouse.postgres.database import Database

AROUND_MIDNIGHT = timedelta(seconds=30)
"""How long before and after midnight a request counts on both days."""


def budget_days(moment: datetime) -> tuple[date, ...]:
    """Return the days on which a request of this moment counts, in order."""
    days = {(moment + shift).astimezone(UTC).date() for shift in (-AROUND_MIDNIGHT, timedelta(), AROUND_MIDNIGHT)}
    return tuple(sorted(days))


def renewal_after(moment: datetime, lacking: date | None = None) -> datetime:
    """Return when the budget of a day, by default today's, renews: after midnight, when no request counts on it."""
    day = lacking or moment.astimezone(UTC).date()
    return datetime.combine(day + timedelta(days=1), time(), UTC) + AROUND_MIDNIGHT


def left_at(database: Database, connection: str, moment: datetime, *, per_day: int) -> tuple[int, datetime]:
    """Return how many requests a connection may send at a moment, and when that budget renews.

    What is kept for reports does not count.
    """
    left = {day: requests_left(database, connection, day, per_day=per_day) for day in budget_days(moment)}
    fewest = min(left, key=lambda day: (left[day], -day.toordinal()))
    return left[fewest], renewal_after(moment, fewest)


@dataclass(frozen=True)
class DailyRequests:
    """The meter of a connection: each request is counted in PostgreSQL before it is sent.

    Attributes:
        may_use_kept: Whether it may use what is kept for reports.
    """

    database: Database
    connection: str
    per_day: int
    clock: Clock = utc_now
    may_use_kept: bool = False

    def take(self, count: int = 1) -> Sequence[date]:
        """Count requests that are about to be sent, and return the days on which they count.

        Raises:
            RequestsUsedUpError: Fewer are left today.
        """
        now = self.clock()
        days = budget_days(now)
        name, for_report = self.connection, self.may_use_kept
        lacking = take_requests(self.database, name, days, count, per_day=self.per_day, for_report=for_report)
        if lacking is not None:
            raise RequestsUsedUpError(self.connection, per_day=self.per_day, renews_at=renewal_after(now, lacking))
        return days

    @contextmanager
    def reserved(self, count: int) -> Iterator["ReservedRequests"]:
        """Reserve requests until the block ends, and yield the meter that uses them first.

        Raises:
            RequestsUsedUpError: Fewer are left today.
            BudgetTooSmallError: A whole day has fewer.
        """
        if count > self.per_day:
            raise BudgetTooSmallError(self.connection, per_day=self.per_day, needed=count)
        reserved = ReservedRequests(self, self.take(count), count)
        try:
            yield reserved
        finally:
            reserved.give_back()


class ReservedRequests:
    """Requests of a connection that are reserved for one slice; threads may share them.

    A process that is killed leaves what it had reserved counted until the day ends.
    """

    def __init__(self, meter: DailyRequests, days: Sequence[date], count: int) -> None:
        self._meter, self._days, self._left, self._used = meter, days, count, 0
        self._lock = threading.Lock()

    def take(self) -> None:
        """Use a reserved request; beyond them, or on another day, count a request as `DailyRequests.take` does."""
        with self._lock:
            is_reserved = self._left > 0 and set(budget_days(self._meter.clock())) <= set(self._days)
            self._left -= is_reserved
        if not is_reserved:
            try:
                self._meter.take()
            except RequestsUsedUpError as error:
                error.sent = self._used
                raise
        with self._lock:
            self._used += 1

    def give_back(self) -> None:
        """Return the requests that were not used."""
        with self._lock:
            count, self._left = self._left, 0
        if count:
            give_back_requests(self._meter.database, self._meter.connection, self._days, count)


@contextmanager
def reserving(
    api: SellerApi, database: Database, dataset: Dataset, account: str, window: Window
) -> Iterator[SellerApi]:
    """Reserve what the slice is expected to take, so that no slice is begun that cannot be read to its end.

    Its errors are those of `DailyRequests.reserved`; then none was sent.
    """
    if not isinstance(api.meter, DailyRequests):
        yield api
        return
    (expected,) = expected_loads(database, [(dataset, account, window)], requests_per_day=api.meter.per_day)
    with api.meter.reserved(expected.requests) as reserved:
        yield api.counted_by(reserved)


def for_reports(api: SellerApi) -> SellerApi:
    """Return the API for reports, which may use the requests that are kept for them each day. It shares connections."""
    return api.counted_by(replace(api.meter, may_use_kept=True)) if isinstance(api.meter, DailyRequests) else api
