"""Tests what `seller-platform status` prints of loaded, absent and refused datasets."""

import json
import os
import re
import signal
from datetime import date
from pathlib import Path

import pytest

from seller_platform.contract import REFRESHED, Account, Window, dataset_named
from seller_platform.errors import CheckFailedError
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform.warehouse.loads.history_start import extend_history
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.fork_server import ForkedCommand
from seller_platform_tests.support.platform import open_platform
from seller_platform_tests.support.processes import environment
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.terminals import read_all, show, terminal
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

MARCH = Window.month_of(date(2026, 3, 1))
ORDERS, LEDGER = dataset_named("orders"), dataset_named("transactions")
KEYS = ("de-1", "de-2")


@pytest.fixture
def variables(database: Database, database_url: str, tmp_path: Path) -> dict[str, str]:
    """The environment of an installation with two accounts, a loaded month and refused ones."""
    with open_platform(database, database_url, tmp_path):
        account = Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "DE", "S1")
        save_accounts(database, "default", [(key, account) for key in KEYS])
    extend_history(database, date(2026, 2, 1))
    mark_loaded(database, ORDERS, KEYS[0], MARCH)
    for key in KEYS:
        keep_refusal(database, LEDGER, key, MARCH, CheckFailedError("it was away"), run_id="r1")
    return environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url)


def test_every_expected_dataset_has_a_line(variables: dict[str, str]) -> None:
    people, programs = run_here(["status", "--datasets"], variables), run_here(["status", "--json"], variables)

    lines = {(line["dataset"], line["account"]): line for line in json.loads(programs.stdout)["coverage"]}
    assert {pair for pair in lines if pair[1] in KEYS} == {(each.name, key) for each in REFRESHED for key in KEYS}
    loaded, refused, absent = (lines[name, KEYS[0]] for name in ("orders", "transactions", "cost_periods"))
    assert (loaded["missing_days"], loaded["rows"]) == (28, 0)
    assert (refused["rows"], absent["rows"], absent["age_hours"]) == (None, None, None)
    assert "`seller-platform sync` loads what is missing" in people.stderr


def test_each_account_has_a_line_and_each_problem_a_command(variables: dict[str, str]) -> None:
    piped, seen = run_here(["status"], variables), show(["status"], variables)

    for printed in (piped.stdout, seen.text):
        assert "transactions of 2 accounts, 2026-03: it was away" in printed
        assert "seller-platform sync --dataset transactions --from 2026-03 --to 2026-03\n" in printed
        assert re.search(r"^[·▪]F", printed, re.MULTILINE)
        assert all(key in printed for key in KEYS)
    assert len(seen.lines) <= 24
    assert max(map(len, seen.lines)) <= 80


def test_the_screen_is_shown_again_until_it_is_interrupted(variables: dict[str, str]) -> None:
    with terminal(80, 24) as (screen, device):
        words = ["status", "--watch", "--seconds", "1"]
        with ForkedCommand(
            words, {**variables, "TERM": "xterm"}, output=device, errors=device, folder=Path.cwd()
        ) as command:
            device.close()
            printed = ""
            while printed.count("\x1b[H\x1b[2J") < 2:
                printed += os.read(screen, 1 << 16).decode()
            os.kill(command.pid, signal.SIGINT)
            printed += read_all(screen)
            code = command.wait(PATIENCE_SECONDS)

    assert code == 0
    assert "Traceback" not in printed
