"""Report jobs: which reports were requested from the upstream, and how far they are.

A job is stored before its report is requested, so that no request is forgotten. To change a job, a process names
the state that it knows; if another process has changed that meanwhile, nothing is stored.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated, Any

import msgspec
from sqlalchemy import ColumnElement, Row, and_, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from seller_platform.errors import RequestError
from seller_platform.reports.tables import REPORT_JOBS
from seller_platform.warehouse.loads.retention import Expiring
from seller_platform.warehouse.postgres.database import Database


class JobState(Enum):
    """How far a job is.

    `requested`: it is stored, and the upstream may or may not have the request. `pending`: the upstream gave the report
    a number. `ready`: the report can be downloaded. The others are final.
    """

    REQUESTED = "requested"
    PENDING = "pending"
    READY = "ready"
    LOADED = "loaded"
    FAILED = "failed"
    GIVEN_UP = "given_up"


AWAITED = (JobState.REQUESTED, JobState.PENDING)
OPEN = (*AWAITED, JobState.READY)
LOST = (JobState.FAILED, JobState.GIVEN_UP)

REQUESTS_OF_A_REPORT = 10
"""How many requests an open report may still take; as many are kept for it."""


class RequestedReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report that was requested.

    Attributes:
        number: As the commands of reports take it.
        report_id: The upstream's id; null until it has sent one.
        upstream_status: The last status that the upstream sent.
        problem: Why it is lost.
        load_id: The load of its rows.
    """

    id: int = msgspec.field(name="number")
    account: str
    selector: str
    value: str
    format: str
    state: JobState
    requested_at: Annotated[datetime, msgspec.Meta(tz=True)]
    report_id: str | None
    upstream_status: str | None
    upstream_message: str | None
    problem: str | None
    load_id: int | None


class ReportJob(RequestedReport, frozen=True, kw_only=True):
    """A job, as `platform.report_jobs` keeps it."""

    give_up_after: timedelta
    attempted_at: datetime
    polls: int
    next_poll_at: datetime
    told_at: datetime | None

    def __str__(self) -> str:
        return f"the report {self.selector} {self.value} of {self.account}"

    @property
    def is_awaited(self) -> bool:
        return self.state in AWAITED


def open_job(
    database: Database, account: str, report: Mapping[str, object], *, now: datetime, next_poll_at: datetime
) -> ReportJob | None:
    """Store the job of a report and return it; None where one is open already.

    Args:
        report: The selector, its value, the format, and when to give up.
    """
    times = {"requested_at": now, "attempted_at": now, "next_poll_at": next_poll_at}
    new = {"account": account, **report, **times, "state": JobState.REQUESTED.value, "polls": 0}
    row = database.execute(
        insert(REPORT_JOBS).values(new).on_conflict_do_nothing().returning(REPORT_JOBS)
    ).one_or_none()
    return None if row is None else _job(row)


def claim_due(
    database: Database, *, now: datetime, until: datetime, latest: datetime, limit: int
) -> tuple[ReportJob, ...]:
    """Return jobs whose poll is due, the longest due first, each to one process only.

    Args:
        until: When a job becomes due again if the process that claims it is killed.
        latest: The latest moment of a next poll. A later one was stored by a wrong clock; such a job is due.
    """
    due = (
        select(REPORT_JOBS.c.id)
        .where(_in(AWAITED), or_(REPORT_JOBS.c.next_poll_at <= now, REPORT_JOBS.c.next_poll_at > latest))
        .order_by(REPORT_JOBS.c.next_poll_at, REPORT_JOBS.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    statement = update(REPORT_JOBS).where(REPORT_JOBS.c.id.in_(due)).values(next_poll_at=until).returning(REPORT_JOBS)
    return tuple(sorted(map(_job, database.execute(statement).all()), key=lambda job: job.id))


def move_job(database: Database, before: ReportJob, after: ReportJob) -> bool:
    """Store the changes of a job, and return False if another process had changed it."""
    changed = {name: _stored(getattr(after, name)) for name in _FIELDS if getattr(after, name) != getattr(before, name)}
    if not changed:
        return True
    guards = ["id", "state", "polls", "told_at"]
    as_before = (REPORT_JOBS.c[name].is_not_distinct_from(_stored(getattr(before, name))) for name in guards)
    statement = update(REPORT_JOBS).where(*as_before).values(changed)
    with database.begin() as connection:
        return connection.execute(statement).rowcount == 1


def ready_jobs(database: Database, account: str) -> tuple[ReportJob, ...]:
    """Return the account's reports that can be downloaded, in the order of their requests."""
    return _select(database, REPORT_JOBS.c.account == account, _in([JobState.READY]))


def untold_jobs(database: Database, account: str) -> tuple[ReportJob, ...]:
    """Return the account's failed reports that no run has reported yet."""
    return _select(database, REPORT_JOBS.c.account == account, _is_untold())


def jobs_for_runs(database: Database) -> tuple[ReportJob, ...]:
    """Return every job that needs a run, in the order of the requests.

    The run loads the report or reports its failure.
    """
    return _select(database, or_(_in([JobState.READY]), _is_untold()))


def job_of(database: Database, number: int) -> ReportJob:
    """Return the job of a number.

    Raises:
        RequestError: There is none.
    """
    jobs = _select(database, REPORT_JOBS.c.id == number)
    if not jobs:
        raise RequestError(
            f"there is no report number {number}",
            code="UnknownReportError",
            step="Take a number that `seller-platform report list` shows.",
        )
    return jobs[0]


def newest_jobs(database: Database, accounts: Sequence[str], *, limit: int) -> tuple[ReportJob, ...]:
    """Return the newest jobs of accounts, the newest first."""
    statement = select(REPORT_JOBS).where(REPORT_JOBS.c.account.in_(accounts))
    rows = database.execute(statement.order_by(REPORT_JOBS.c.id.desc()).limit(limit)).all()
    return tuple(map(_job, rows))


_FIELDS = ReportJob.__struct_fields__


def _stored(value: object) -> object:
    return value.value if isinstance(value, JobState) else value


def _in(states: Sequence[JobState]) -> ColumnElement[bool]:
    return REPORT_JOBS.c.state.in_([state.value for state in states])


def _is_untold() -> ColumnElement[bool]:
    """Return the condition for jobs whose problem no run has reported yet."""
    return and_(_in(LOST), REPORT_JOBS.c.told_at.is_(None))


def _select(database: Database, *where: ColumnElement[bool]) -> tuple[ReportJob, ...]:
    return tuple(map(_job, database.execute(select(REPORT_JOBS).where(*where).order_by(REPORT_JOBS.c.id)).all()))


def _job(row: Row[Any]) -> ReportJob:
    return msgspec.convert(row, ReportJob, from_attributes=True)


EXPIRING = (
    Expiring(
        REPORT_JOBS,
        lambda before: and_(REPORT_JOBS.c.requested_at < before, ~or_(_in(OPEN), _is_untold())),
        load_id=REPORT_JOBS.c.load_id,
        are_receipts=True,
    ),
)
"""Those are kept that are open, or whose problem no run has reported yet."""

RESERVED = f"""
SELECT {REQUESTS_OF_A_REPORT} * count(*)
FROM platform.report_jobs AS job JOIN platform.accounts AS account ON account.key = job.account
WHERE account.connection = :connection AND job.state IN ({", ".join(f"'{state.value}'" for state in OPEN)})
"""  # noqa: S608  # constants of this module
"""The requests that open reports may still take."""
