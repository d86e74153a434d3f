"""Tests that a report has one open job, which only one process changes."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from seller_platform.contract import Account
from seller_platform.reports.jobs import (
    OPEN,
    JobState,
    ReportJob,
    claim_due,
    job_of,
    jobs_for_runs,
    move_job,
    open_job,
    ready_jobs,
    untold_jobs,
)
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.stored_rows import connect_accounts

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def shop(database: Database) -> Database:
    accounts = [Account(number, "", "DE", "EUR", "Europe/Berlin", "DE", f"S{number}") for number in (1, 2)]
    connect_accounts(database, [(account.key, account) for account in accounts])
    return database


def opened(database: Database, value: str = "A", account: str = "de-1", after: timedelta = MINUTE) -> ReportJob | None:
    return open_job(
        database,
        account,
        {"selector": "product_sku", "value": value, "format": "json", "give_up_after": timedelta(hours=6)},
        now=NOON,
        next_poll_at=NOON + after,
    )


def must_open(database: Database, value: str = "A", after: timedelta = MINUTE) -> ReportJob:
    job = opened(database, value, after=after)
    assert job is not None
    return job


@pytest.mark.parametrize("state", list(JobState))
def test_one_job_of_a_report_is_open_at_a_time(shop: Database, state: JobState) -> None:
    job = must_open(shop)
    assert move_job(shop, job, replace(job, state=state))

    second, other, elsewhere = opened(shop), opened(shop, "B"), opened(shop, account="de-2")

    assert (second is None) == (state in OPEN)
    assert other is not None
    assert elsewhere is not None


def test_jobs_are_claimed_the_longest_due_first_and_until_a_time(shop: Database) -> None:
    for number in range(5):
        must_open(shop, str(number), after=-number * MINUTE)

    first = claim_due(shop, now=NOON, until=NOON + MINUTE, latest=NOON + HOUR, limit=2)
    second = claim_due(shop, now=NOON, until=NOON + MINUTE, latest=NOON + HOUR, limit=9)
    third = claim_due(shop, now=NOON, until=NOON + MINUTE, latest=NOON + HOUR, limit=9)
    later = claim_due(shop, now=NOON + MINUTE, until=NOON + 2 * MINUTE, latest=NOON + HOUR, limit=9)

    assert [{job.value for job in claimed} for claimed in (first, second, third, later)] == [
        {"3", "4"},
        {"0", "1", "2"},
        set(),
        {"0", "1", "2", "3", "4"},
    ]


def test_a_job_is_claimed_by_one_of_many(shop: Database) -> None:
    for number in range(40):
        must_open(shop, str(number), after=-MINUTE)

    with ThreadPoolExecutor(8) as threads:
        claims = threads.map(
            lambda _: claim_due(shop, now=NOON, until=NOON + MINUTE, latest=NOON + HOUR, limit=7), range(16)
        )
        claimed = [job.value for jobs in claims for job in jobs]

    assert len(claimed) == len(set(claimed)) == 40


def test_runs_are_requested_for_ready_reports_and_unreported_failures(shop: Database) -> None:
    jobs = [must_open(shop, state.value) for state in JobState]
    for job, state in zip(jobs, JobState, strict=True):
        assert move_job(shop, job, replace(job, state=state))
    failed = job_of(shop, jobs[-2].id)

    before = [job.value for job in jobs_for_runs(shop)]
    assert move_job(shop, failed, replace(failed, told_at=NOON))
    assert not move_job(shop, failed, replace(failed, told_at=NOON))

    assert before == ["ready", "failed", "given_up"]
    assert [job.value for job in ready_jobs(shop, "de-1")] == ["ready"]
    assert [job.value for job in untold_jobs(shop, "de-1")] == ["given_up"]
    assert ready_jobs(shop, "de-2") == untold_jobs(shop, "de-2") == ()
