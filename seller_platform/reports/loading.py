"""Requests reports, polls them until they are ready, and loads them.

Each step starts from the stored job. A job is stored before its report is requested. Where a process ends between the
two, the report is requested again with the same idempotency key. Some upstreams ignore the key, and a second report
that is never downloaded does no harm.
"""

import dataclasses
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import NAMESPACE_OID, uuid5

from msgspec.structs import replace

from seller_platform.client.http.api import SellerApi
from seller_platform.clocks import Clock, utc_now
from seller_platform.contract import Window
from seller_platform.contract.datasets.reports import REPORT_ROWS
from seller_platform.counts import count_of
from seller_platform.errors import (
    ContractViolationError,
    ReportFailedError,
    RequestError,
    RequestRefusedError,
    RequestsUsedUpError,
    SellerPlatformError,
    UpstreamUnavailableError,
)
from seller_platform.ingest.connections.request_budget import for_reports
from seller_platform.ingest.loads.telemetry import observed_load
from seller_platform.reports.endpoints import download_report, fetch_status
from seller_platform.reports.endpoints import request_report as ask_for_report
from seller_platform.reports.jobs import JobState, ReportJob, claim_due, job_of, move_job, open_job, untold_jobs
from seller_platform.reports.selectors import DATE_SELECTORS, DPS_DATE, FORMATS, JSON, STANDINGS, selector_problem
from seller_platform.warehouse.connections.accounts import KnownAccount, account_of
from seller_platform.warehouse.loads.receipts import Receipt, Slice
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.database import Database

GIVE_UP_AFTER = timedelta(hours=6)
POLLS_AT_ONCE = 8
REQUEST_SECONDS = 10.0
"""How long a request for a report or its status may take; the next poll is the next attempt."""

_FIRST_PAUSE_SECONDS, _GROWTH, _LONGEST_PAUSE_SECONDS = 3.0, 1.25, 600.0
_LONGEST_WISH_SECONDS = 3600.0
_CLAIM = timedelta(seconds=120)

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class ReportOrder:
    """The selector, value and format of a report to request.

    Attributes:
        value: The value of the selector; None for yesterday in the account's zone, where the selector is a day.
        form: json or csv.
        give_up_after: How long it may take.
    """

    selector: str = DPS_DATE
    value: str | None = None
    form: str = JSON
    give_up_after: timedelta = GIVE_UP_AFTER

    def value_for(self, account: KnownAccount, now: datetime) -> str:
        """Return the value for an account.

        Raises:
            RequestError: There is no such report.
        """
        value, today = self.value, now.astimezone(account.zone).date()
        if value is None:
            value = str(today - timedelta(days=1)) if self.selector in DATE_SELECTORS else ""
        problem = selector_problem(self.selector, value)
        if problem is None and self.selector in DATE_SELECTORS and value > str(today):
            problem = f"{self.selector} must not be after today, {today} in the zone of the account, not {value}"
        if problem is None and self.form not in FORMATS:
            problem = f"the format must be one of {', '.join(FORMATS)}, not {self.form!r}"
        if problem is None and self.give_up_after <= timedelta(0):
            problem = "the time after which a report is given up must be positive"
        if problem is not None:
            raise RequestError(
                problem,
                code="InvalidReportError",
                step="Correct the selector, the value or the format, and request the report again.",
            )
        return value


def request_report(
    api: SellerApi, database: Database, account: KnownAccount, order: ReportOrder, *, now: datetime
) -> ReportJob | None:
    """Request a report and return its job; None where such a job is open already.

    Without an answer the job stays `requested`, and `poll_due` continues it; after a refusal it is `failed`.
    """
    value, patience = order.value_for(account, now), order.give_up_after
    report = {"selector": order.selector, "value": value, "format": order.form, "give_up_after": patience}
    job = open_job(database, account.key, report, now=now, next_poll_at=now + _CLAIM)
    return None if job is None else poll_report(api, database, account, job, now=now)


def poll_report(
    api: SellerApi, database: Database, account: KnownAccount, job: ReportJob, *, now: datetime
) -> ReportJob:
    """Send one request about a job, store its next state, and return it."""
    ask = _requested if job.state is JobState.REQUESTED else _polled
    try:
        after = ask(for_reports(api), account, job, now)
    except RequestsUsedUpError as error:
        # The pause until the budget renews, or of an hour, does not count.
        pause = min(error.renews_at - now, timedelta(seconds=_LONGEST_WISH_SECONDS))
        began_at = job.attempted_at + pause
        after = replace(job, attempted_at=began_at, next_poll_at=now + pause, upstream_message=str(error))
    except SellerPlatformError as error:
        after = _waiting(job, now, message=str(error), wish_seconds=_wish(error))
    return _moved(database, job, after)


def poll_due(
    api_of: Callable[[str], SellerApi], database: Database, *, clock: Clock, seconds: float, limit: int
) -> int:
    """Poll the due jobs, the longest due first, and return the number of polls.

    Args:
        api_of: Returns the API of a connection.
        seconds: No polls begin later than this.
    """
    polls, end = 0, time.monotonic() + seconds

    def poll(job: ReportJob) -> None:
        account = account_of(database, job.account)
        api = api_of(account.connection).impatient(REQUEST_SECONDS)
        poll_report(api, database, account, job, now=clock())

    with ThreadPoolExecutor(POLLS_AT_ONCE, thread_name_prefix="poll") as threads:
        while polls < limit and time.monotonic() < end:
            now = clock()
            latest = now + timedelta(seconds=_LONGEST_WISH_SECONDS)
            most = min(POLLS_AT_ONCE, limit - polls)
            due = claim_due(database, now=now, until=now + _CLAIM, latest=latest, limit=most)
            if not due:
                break
            for _ in threads.map(poll, due):
                polls += 1
    return polls


def await_report(
    api: SellerApi, database: Database, account: KnownAccount, job: ReportJob, *, clock: Clock
) -> ReportJob:
    """Poll a job until its report is ready, loaded or lost, and return it.

    Another process may poll it, too: a poll that is not due is left to it.
    """
    impatient = api.impatient(REQUEST_SECONDS)
    while job.is_awaited:
        pause = (job.next_poll_at - clock()).total_seconds()
        if pause > 0:
            time.sleep(min(pause, 5.0))
            job = job_of(database, job.id)
        else:
            job = poll_report(impatient, database, account, job, now=clock())
    return job


def load_report(
    api: SellerApi, database: Database, account: KnownAccount, job: ReportJob, *, clock: Clock, run_id: str | None
) -> Receipt | None:
    """Download and store the rows of a ready report, and set its job to `loaded`.

    Returns:
        None where there is nothing to load: the report is not ready yet, or has failed. The state of its job is then
        stored.

    Raises:
        UpstreamUnavailableError: The download failed. Nothing was stored, and the job is still ready.
    """
    assert job.report_id is not None, "a report that is ready has a number"
    started_at = utc_now()
    day = job.requested_at.astimezone(account.zone).date()
    try:
        slice_ = Slice.of(account, REPORT_ROWS, Window.day(day), job.report_id)
        with observed_load(slice_, run_id=run_id) as stored, open_load(database, slice_) as load:
            facts = download_report(for_reports(api), account.account, job.report_id, job.format, str(day), load.spool)
            order = {"selector": job.selector, "value": job.value, "format": job.format}
            facts = dataclasses.replace(facts, notes={**order, **facts.notes})
            receipt = stored(load.store(facts, started_at=started_at, run_id=run_id))
    except RequestRefusedError as error:
        _moved(database, job, _after_refusal(job, error, clock()))
        return None
    except ContractViolationError as error:
        _moved(database, job, _failed(job, str(error)))
        return None
    _moved(database, job, replace(job, state=JobState.LOADED, load_id=receipt.id))
    return receipt


def take_failures(database: Database, account: str, *, now: datetime) -> tuple[ReportFailedError, ...]:
    """Return the errors of the account's failed reports, each error only once."""
    return tuple(
        ReportFailedError(str(job), job.problem or job.state.value)
        for job in untold_jobs(database, account)
        if move_job(database, job, replace(job, told_at=now))
    )


def pause_after(polls: int) -> timedelta:
    """Return the pause after a number of polls. It grows by a quarter with each poll, up to ten minutes."""
    # A bounded exponent keeps the float from overflowing.
    return timedelta(seconds=min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * _GROWTH ** min(polls, 100)))


def _requested(api: SellerApi, account: KnownAccount, job: ReportJob, now: datetime) -> ReportJob:
    try:
        # A job without an answer is requested again with the same key.
        key = uuid5(NAMESPACE_OID, f"{job.requested_at.isoformat()} {job.id}")
        report_id = ask_for_report(api, account.account, job.selector, job.value, key=str(key))
    except (RequestRefusedError, ContractViolationError) as error:
        return _failed(job, str(error))
    return replace(job, state=JobState.PENDING, report_id=report_id, polls=0, next_poll_at=now + pause_after(0))


def _polled(api: SellerApi, account: KnownAccount, job: ReportJob, now: datetime) -> ReportJob:
    try:
        status = fetch_status(api, account.account, job.report_id or "")
    except RequestRefusedError as error:
        return _after_refusal(job, error, now)
    polled = replace(job, upstream_status=status.word, upstream_message=status.message)
    match STANDINGS.get(status.word.casefold()):
        case "completed":
            return replace(polled, state=JobState.READY, polls=job.polls + 1)
        case "failed":
            said = f": {status.message}" if status.message else ""
            return _failed(polled, f"the upstream ended it as {status.word!r}{said}")
        case None:
            _LOG.warning("%s: the upstream sent the unknown status %r; the report is still awaited", job, status.word)
    return _waiting(polled, now)


def _after_refusal(job: ReportJob, error: RequestRefusedError, now: datetime) -> ReportJob:
    if error.status == 409:
        return _waiting(replace(job, state=JobState.PENDING), now, message=error.message, wish_seconds=_wish(error))
    if error.status in (404, 410):
        return _failed(job, f"the upstream no longer has report {job.report_id}")
    return _failed(job, str(error))


def _waiting(
    job: ReportJob, now: datetime, *, message: str | None = None, wish_seconds: float | None = None
) -> ReportJob:
    """Return the job with its next poll; given up where its time is over.

    One that began in the future was requested by a process whose clock was ahead: it counts from now on.
    """
    polls, began_at = job.polls + 1, min(job.attempted_at, now)
    end = began_at + job.give_up_after
    waiting = replace(job, polls=polls, attempted_at=began_at, upstream_message=message or job.upstream_message)
    if now >= end:
        hours = job.give_up_after / timedelta(hours=1)
        last = waiting.upstream_message or waiting.upstream_status or "nothing"
        problem = (
            f"it was not ready after {count_of(hours, 'hour')} and {count_of(polls, 'poll')} (the last answer: {last})"
        )
        return replace(waiting, state=JobState.GIVEN_UP, problem=problem)
    wished = timedelta(seconds=min(wish_seconds or 0, _LONGEST_WISH_SECONDS))
    return replace(waiting, next_poll_at=min(now + max(pause_after(polls), wished), end))


def _failed(job: ReportJob, problem: str) -> ReportJob:
    return replace(job, state=JobState.FAILED, problem=problem, polls=job.polls + 1)


def _wish(error: SellerPlatformError) -> float | None:
    """Return how many seconds the upstream asks to wait, if it says so."""
    return error.retry_after_seconds if isinstance(error, UpstreamUnavailableError | RequestRefusedError) else None


def _moved(database: Database, before: ReportJob, after: ReportJob) -> ReportJob:
    """Store the job and return it, or the stored job if another process changed it."""
    return after if move_job(database, before, after) else job_of(database, before.id)
