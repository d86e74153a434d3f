"""Stores requested reports: a row, a job in the queue, and chunks of content.

`progress` only rises. The content and the state `completed` are written in one transaction, so that a report is either
complete or still being written. A report expires some days after it was requested.

Users take turns: next is a report of the user whose last one ended the longest ago. Reports of one user are written one
after another, so that a worker has room for others.

The open reports are the queue. A worker writes the next one in a transaction that holds a lock of its user. PostgreSQL
releases the lock when the worker dies. An attempt is counted when it begins, and uncounted when the worker is stopped.
"""

from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Literal, LiteralString

from psycopg.types.json import Jsonb

from seller_platform.counts import count_of
from seller_platform.service.access import Caller, SelectedAccounts
from seller_platform.service.errors import NotAdmittedError, NotFoundError
from seller_platform.service.http.parameters import SentParameter
from seller_platform.service.limits import Limits
from seller_platform.service.pool import Connection, Store, fetch_record
from seller_platform.warehouse.postgres.advisory_locks import LOCK, TRY_LOCK

KEPT_LONGER = timedelta(hours=1)
"""How long rows are kept after they expire, because requests under way may still read them."""

_RETRY_SECONDS = 10


@dataclass(frozen=True)
class ReportRequestJob:
    """A report and its progress."""

    id: int
    user_id: int
    selection: dict[str, str | None]
    accounts: list[str]
    selector: str
    value: str
    state: Literal["processing", "completed", "failed"]
    progress: int
    problem: str | None
    attempts: int
    rows: int | None
    chunks: int | None


_INSERT = """
INSERT INTO service.report_jobs (user_id, selection, accounts, selector, value)
VALUES (%(user)s, %(selection)s, %(accounts)s, %(selector)s, %(value)s)
RETURNING id
"""
# The row of a report takes space, too; without it, very many small reports would count as nothing.
_STORED = """
SELECT count(*) FILTER (WHERE state = 'processing'), coalesce(sum(coalesce(bytes, 0) + 4096), 0)::bigint,
       ceil(extract(epoch FROM min(requested_at) + %(kept)s - now()))::bigint
FROM service.report_jobs WHERE user_id = %(user)s
"""
_JOB: LiteralString = """
SELECT id, user_id, selection, accounts, selector, value, state, progress, problem, attempts, rows, chunks
FROM service.report_jobs
"""
_FIND: LiteralString = f"""{_JOB}
WHERE id = %(id)s AND user_id = %(user)s AND accounts <@ %(accounts)s
  AND requested_at > now() - %(kept)s * interval '1 day'
"""
_WAITING_USERS = """
SELECT user_id FROM service.report_jobs AS open WHERE state = 'processing' GROUP BY user_id
ORDER BY (SELECT max(finished_at) FROM service.report_jobs AS ended WHERE ended.user_id = open.user_id) NULLS FIRST,
         min(id)
"""
_NEXT: LiteralString = f"{_JOB} WHERE user_id = %s AND state = 'processing' ORDER BY id LIMIT 1"
_COUNT_ATTEMPT = "UPDATE service.report_jobs SET attempts = attempts + %s WHERE id = %s"
# PostgreSQL ends the transaction of a worker that hangs or is lost, and releases the lock with it.
_END_IF_IDLE = "SELECT set_config('idle_in_transaction_session_timeout', '60s', true)"
_FAIL = """
UPDATE service.report_jobs SET state = 'failed', problem = %s, finished_at = now() WHERE id = %s
"""
_READ_CHUNK = "SELECT rows FROM service.report_chunks WHERE report_id = %s AND position = %s"


async def request_report(
    connection: Connection, caller: Caller, selected: SelectedAccounts, *, report: SentParameter, limits: Limits
) -> int:
    """Store a report to be written, and return its number.

    Args:
        report: The parameter that selects its rows.

    Raises:
        NotAdmittedError: The user has as many open reports, or as many bytes stored, as one user may have.
    """
    async with connection.transaction():
        # Two requests of one user must not both count the same reports.
        await connection.execute(LOCK, {"name": f"service.report_jobs of user {caller.id}"})
        await _require_room(connection, caller, limits)
        values = {
            "user": caller.id,
            "selection": Jsonb(asdict(selected.selector)),
            "accounts": selected.keys,
            "selector": report.name,
            "value": report.value,
        }
        row = await (await connection.execute(_INSERT, values)).fetchone()
        assert row is not None
    return int(row[0])


async def find_report(
    connection: Connection, caller: Caller, selected: SelectedAccounts, report_id: int, *, kept_days: int
) -> ReportRequestJob:
    """Return a report of the caller whose accounts are all selected.

    Raises:
        NotFoundError: There is none, or it expired, or it is of another user or other accounts.
    """
    values = {"id": report_id, "user": caller.id, "accounts": selected.keys, "kept": kept_days}
    job = await fetch_record(connection, ReportRequestJob, _FIND, values)
    if job is None:
        raise NotFoundError(
            f"there is no report {report_id} of the accounts selected; reports are kept for "
            f"{count_of(kept_days, 'day')}"
        )
    return job


async def read_chunks(store: Store, job: ReportRequestJob) -> AsyncIterator[bytes]:
    """Yield the chunks of a completed report; no connection is held between them.

    Raises:
        NotFoundError: It expired while it was read.
    """
    for position in range(1, (job.chunks or 0) + 1):
        async with store.connection() as connection, connection.cursor(binary=True) as cursor:
            await cursor.execute(_READ_CHUNK, (job.id, position))
            row = await cursor.fetchone()
        if row is None:
            raise NotFoundError(f"report {job.id} expired while it was read")
        yield row[0]


async def reserve_report(connection: Connection) -> ReportRequestJob | None:
    """Return the next report to be written; None if there is none.

    Until the transaction ends, no other worker gets a report of the same user.
    """
    await connection.execute(_END_IF_IDLE)
    for (user_id,) in await (await connection.execute(_WAITING_USERS)).fetchall():
        name = {"name": f"written service.report_jobs of user {user_id}"}
        if await (await connection.execute(TRY_LOCK, name)).fetchone() == (True,):
            job = await fetch_record(connection, ReportRequestJob, _NEXT, (user_id,))
            if job is not None:  # another worker may have written the last one meanwhile
                return job
    return None


async def count_attempts(store: Store, report_id: int, number: int) -> None:
    """Add to the attempts of a report; of a worker that dies, they stay counted."""
    async with store.connection() as connection:
        await connection.execute(_COUNT_ATTEMPT, (number, report_id))


async def fail_report(connection: Connection, report_id: int, problem: str) -> None:
    """Mark a report as failed."""
    await connection.execute(_FAIL, (problem, report_id))


async def _require_room(connection: Connection, caller: Caller, limits: Limits) -> None:
    open_reports, size, seconds = await stored_reports(connection, caller.id, kept_days=limits.report_days)
    if open_reports >= limits.open_reports:
        raise NotAdmittedError(
            f"you have {count_of(open_reports, 'open report')}, as many as one user may have; wait until one is "
            "completed",
            retry_after_seconds=_RETRY_SECONDS,
        )
    if size >= limits.report_bytes:
        raise NotAdmittedError(
            f"your reports take {size} bytes, and one user may store {limits.report_bytes}; a report is deleted "
            f"{count_of(limits.report_days, 'day')} after its request, the oldest in {seconds} s",
            retry_after_seconds=max(seconds, _RETRY_SECONDS),
        )


async def stored_reports(connection: Connection, user_id: int, *, kept_days: int = 0) -> tuple[int, int, int]:
    """Return how many reports of a user are open, their bytes, and the seconds until the oldest is deleted."""
    values = {"user": user_id, "kept": timedelta(days=kept_days) + KEPT_LONGER}
    row = await (await connection.execute(_STORED, values)).fetchone()
    assert row is not None
    return row[0], row[1], row[2] or 0
