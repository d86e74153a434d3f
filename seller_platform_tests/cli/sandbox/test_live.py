"""Tests of `sandbox live`: a line for each day, and options that cannot be met."""

import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from seller_platform.cli.sandbox.command import sandbox
from seller_platform.cli.sandbox.dev import live_command
from seller_platform.errors import RequestError
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.command_line import invoke
from seller_platform_tests.support.processes import environment
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

SMALL = ("--accounts", "1", "--months", "1", "--orders-per-month", "100")


def run(database: Database, *options: str) -> list[str]:
    """Run the command in this process and return the lines of its output."""
    command = ["live", "--database-url", database.url, "--days-per-second", "1000", *SMALL, *options]
    result = invoke(sandbox, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [line for line in result.output.splitlines() if line.startswith("2026")]


def test_each_day_is_a_line_and_a_later_command_continues(database: Database) -> None:
    lines = run(database, "--from", "2026-03-10", "--until", "2026-03-12")
    outages = ("--continue", "--outages", "100")
    later = run(database, "--from", "2026-03-10", "--until", "2026-03-13", *outages)
    last = run(database, "--from", "2026-03-10", "--until", "2026-03-14", *outages)

    assert lines[0] == "2026-03-10  1 account with 1 month of sales"
    assert [line[:10] for line in (*lines[1:], *later, *last)] == [
        *("2026-03-11", "2026-03-12", "2026-03-13", "2026-03-14")
    ]
    assert all("orders +" in line for line in lines[1:])
    assert "outage: orders of us-1001" in later[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from", "2999-01-01"), "--from is 2999-01-01, after today"),
        (("--from", "2026-03-10", "--until", "2026-03-09"), "--until is 2026-03-09, before the first day, 2026-03-10"),
        (("--from", "2026-03-10", "--continue"), "has other accounts than these options give"),
    ],
)
def test_days_and_accounts_that_do_not_fit_are_refused(
    database: Database, options: tuple[str, ...], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        run(database, *options)


@pytest.mark.slow
def test_dev_lets_days_go_by_until_it_is_ended(tmp_path: Path) -> None:
    begin = ["sandbox", "live", "--from", "2026-03-10", "--until", "2026-03-10", *SMALL]
    subprocess.run([sys.executable, "-m", "seller_platform.cli", *begin], env=environment(tmp_path), check=True)

    command = [*live_command(date(2026, 3, 10), accounts=1, months=1, outages=0.0), "--orders-per-month", "100"]
    with subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        line = program.stdout.readline()
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=PATIENCE_SECONDS)

    assert line.startswith("2026-03-11  orders +")
    assert program.returncode == 0
