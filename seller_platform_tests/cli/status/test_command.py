"""Tests what `seller-platform status` prints of loaded, absent and refused datasets."""

import json
from datetime import date
from pathlib import Path

import pytest

from seller_platform.contract import REFRESHED, Account, Window, dataset_named
from seller_platform.errors import CheckFailedError
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform.warehouse.loads.history_start import extend_history
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.platform import open_platform
from seller_platform_tests.support.processes import environment, run
from seller_platform_tests.support.receipts import mark_loaded

MARCH = Window.month_of(date(2026, 3, 1))
ORDERS, LEDGER = dataset_named("orders"), dataset_named("transactions")
KEYS = ("S1.DE", "S2.DE")


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


def test_every_expected_dataset_has_a_line_and_refusals_are_explained(variables: dict[str, str]) -> None:
    people, programs = run(["status"], variables), run(["status", "--json"], variables)

    lines = {(line["dataset"], line["account"]): line for line in json.loads(programs.stdout)["coverage"]}
    assert {pair for pair in lines if pair[1] in KEYS} == {(each.name, key) for each in REFRESHED for key in KEYS}
    loaded, refused, absent = (lines[name, KEYS[0]] for name in ("orders", "transactions", "cost_periods"))
    assert (loaded["state"], loaded["missing_days"], loaded["reason"]) == ("loaded", 28, None)
    assert (refused["state"], refused["reason"]) == ("refused", "2026-03: it was away")
    assert refused["refusals"][0]["error"] == "CheckFailedError"
    assert (absent["state"], absent["rows"], absent["age_hours"]) == ("never loaded", None, None)
    assert people.stdout.count("it was away") == 1
    assert "not loaded anew: transactions of 2 accounts: 2026-03: it was away" in people.stdout
    assert "never loaded" in people.stdout
    assert "`seller-platform sync` loads what is missing" in people.stderr
