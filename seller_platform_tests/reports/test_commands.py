"""`seller-platform report`: reports requested, listed, downloaded and loaded without the UI."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.simulation.reports import ACCOUNTS, ROWS, ReportUpstream, report_upstream
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.processes import connected_environment, document

pytestmark = pytest.mark.slow

LOS_ANGELES, AUCKLAND = (key for key, _ in ACCOUNTS)
CSV = b"sku,units_ordered\nA,2\n"


@dataclass
class Desk:
    """A connected installation, and its upstream of reports."""

    upstream: ReportUpstream
    database: Database
    variables: dict[str, str]

    def report(self, *words: str) -> CompletedProcess[str]:
        return run_here(["report", *words], self.variables)

    def documents(self, *words: str) -> list[dict[str, Any]]:
        reports = document(self.report(*words, "--json"))["reports"]
        assert isinstance(reports, list)
        return reports


@pytest.fixture
def desk(database: Database, tmp_path: Path) -> Iterator[Desk]:
    with report_upstream() as upstream:
        upstream.clock = lambda: datetime.now(UTC)
        upstream.download = lambda form: CSV if form == "csv" else json.dumps(ROWS).encode()
        variables = connected_environment(upstream.connect(database, tmp_path), database.url, tmp_path)
        yield Desk(upstream, database, variables)


def test_a_report_is_requested_listed_and_downloaded(desk: Desk, tmp_path: Path) -> None:
    target = tmp_path / "report.csv"

    (requested,) = desk.documents("request", "--account", "los angeles", "--value", "2026-03-01")
    again = desk.report("request", "--account", LOS_ANGELES, "--value", "2026-03-01")
    (listed,) = desk.documents("list")
    waited = desk.report("download", str(requested["number"]), "--wait", "--output", str(target))
    printed = desk.report("download", str(requested["number"]), "--format", "json")
    unwritable = desk.report("download", str(requested["number"]), "--output", "/no/such/folder/report.csv")

    assert desk.upstream.asked[0].query["dps_date"] == "2026-03-01"
    assert (requested["account"], requested["state"], requested["report_id"]) == (LOS_ANGELES, "pending", "1")
    assert f"{LOS_ANGELES}: a report with the same content is open" in again.stderr
    assert listed == requested
    assert waited.returncode == printed.returncode == 0, waited.stderr + printed.stderr
    assert target.read_bytes() == CSV
    assert json.loads(printed.stdout) == ROWS
    assert (unwritable.returncode, "written (No such file or directory)" in unwritable.stderr) == (2, True)


def test_a_report_that_is_not_completed_is_waited_for_only_with_wait(desk: Desk) -> None:
    desk.upstream.lasts = timedelta(hours=1)
    (requested,) = desk.documents("request", "--account", LOS_ANGELES)

    result = desk.report("download", str(requested["number"]))

    assert result.returncode == 4
    assert "is not completed yet: it is pending. Run the command again later, or with --wait" in result.stderr
    assert result.stdout == ""


def test_ready_reports_are_loaded_without_dagster(desk: Desk, tmp_path: Path) -> None:
    numbers = [each["number"] for each in desk.documents("request")]
    desk.database.execute(text("UPDATE platform.report_jobs SET next_poll_at = now()"))

    loaded = document(desk.report("load", "--json"))

    assert [(each["dataset"], each["account"], each["rows"]) for each in loaded["loads"]] == [
        ("report_rows", AUCKLAND, 1),
        ("report_rows", LOS_ANGELES, 1),
    ]
    assert {each["number"]: each["state"] for each in desk.documents("list")} == dict.fromkeys(numbers, "loaded")
    assert "No report is ready." in desk.report("load").stderr
    assert not (tmp_path / "dagster").exists()
