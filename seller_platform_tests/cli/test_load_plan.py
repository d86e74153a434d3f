"""Tests what `sync --plan` and a `sync` under a budget print."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from seller_platform.contract import Account
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform.warehouse.connections.sent_requests import requests_sent
from seller_platform.warehouse.loads.history_start import keep_history_start
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.platform import HISTORY_START, Platform, open_platform
from seller_platform_tests.support.processes import environment
from seller_platform_tests.support.terminals import show

pytestmark = pytest.mark.slow

MONTHS = ["--from", "2026-01", "--to", "2026-03"]


@pytest.fixture
def platform(database: Database, database_url: str, tmp_path: Path) -> Iterator[Platform]:
    """A connection with two accounts, of which nothing is loaded."""
    keep_history_start(database, HISTORY_START)
    with open_platform(database, database_url, tmp_path) as opened:
        opened.upstream.issue_lasting_tokens()
        listed = [
            Account(
                int(each["id"]),
                each["account_title"],
                each["country_code"],
                "EUR",
                each["timezone"],
                each["marketplace"],
                seller,
            )
            for each in independent_upstream.ACCOUNTS
            for seller in [each["seller_id"] if each["seller_id"] == "A1FOREIGN" else None]
        ]
        save_accounts(database, "default", [(account.key, account) for account in listed])
        yield opened


def shell(tmp_path: Path, url: str, **more: str) -> dict[str, str]:
    variables = {"SELLER_PLATFORM_DATABASE_URL": url, "SELLER_API_CLIENT_SECRET": independent_upstream.CLIENT_SECRET}
    return environment(tmp_path, **variables, **more)


def test_a_plan_says_what_fits_today_and_sends_nothing(
    platform: Platform, database: Database, database_url: str, tmp_path: Path
) -> None:
    platform.upstream.access.clear()  # a request would fail
    home = tmp_path / "has no key"
    variables = shell(home, database_url, SELLER_API_REQUESTS_PER_DAY="10")

    planned = run_here(["sync", "--plan", "--dataset", "transactions", *MONTHS, "--json"], variables)
    seen = show(["sync", "--plan", "--dataset", "transactions", *MONTHS], variables)

    document = json.loads(planned.stdout)
    by_dataset = {(row["dataset"], row["account"]): row for row in document["plan"]}
    assert by_dataset["accounts", "default"]["requests"] == 2
    ledgers = [row for row in document["plan"] if row["dataset"] == "transactions"]
    assert [(row["slices"], row["requests"], row["today"], row["later"]) for row in ledgers] == [(3, 3, 3, 0)] * 2
    assert {row["basis"] for row in ledgers} == {"estimate"}
    (budget,) = document["budgets"]
    assert (budget["requests_per_day"], budget["requests_today"], budget["requests_left"]) == (10, 0, 10)
    assert "0 of 10 requests of today are used" in " ".join(seen.text.split())
    assert requests_sent(database, datetime.now(UTC).date()) == {}
    assert not (home / "secret.key").exists()


def test_a_project_file_says_what_a_sync_reads(platform: Platform, database_url: str, tmp_path: Path) -> None:
    file, variables = tmp_path / "seller_platform.toml", shell(tmp_path, database_url)
    lines = ('datasets = ["transactions", "coverage"]', 'accounts = ["at-41"]', "requests_per_day = 40")
    file.write_text("\n".join((*lines, 'fail_on = "never"')))

    def run(*words: str) -> CompletedProcess[str]:
        return run_here(words, variables, folder=tmp_path)

    planned, asked = run("sync", "--plan", "--json"), run("sync", "--plan", "--dataset", "orders", "--json")
    status, screen, doctor = run("status", "--json"), run("status"), run("doctor")
    file.write_text('datasets = ["transaction"]')
    refused = run("sync", "--plan")

    document, shown = json.loads(planned.stdout), json.loads(status.stdout)
    read = [{(row["dataset"], row["account"]) for row in json.loads(each.stdout)["plan"]} for each in (planned, asked)]
    assert read == [{("accounts", "default"), (name, "at-41")} for name in ("transactions", "orders")]
    assert document["budgets"][0]["requests_per_day"] == 40
    assert (status.returncode, [*shown["months"]]) == (0, ["at-41"])
    assert shown["settings"]["datasets"] == str(file)
    assert f"{file} sets accounts, datasets, fail_on, requests_per_day." in " ".join(screen.stdout.split())
    assert f"settings: accounts, datasets, fail_on, requests_per_day from {file}" in doctor.stdout
    assert "; database_url from SELLER_PLATFORM_DATABASE_URL" in doctor.stdout
    assert refused.returncode == 2
    assert "there is no dataset 'transaction' (did you mean 'transactions'?)" in refused.stderr


def test_a_sync_loads_the_newest_months_that_fit_and_names_the_others(
    platform: Platform, database: Database, database_url: str, tmp_path: Path
) -> None:
    variables = shell(tmp_path, database_url, SELLER_API_REQUESTS_PER_DAY="6")

    result = run_here(["sync", "--dataset", "transactions", *MONTHS, "--json"], variables)
    status = run_here(["status", "--json"], variables)

    document = json.loads(result.stdout)
    assert (result.returncode, status.returncode) == (0, 0)
    assert sum(row["slices"] for row in document["loads"] if row["dataset"] == "transactions") == 4
    assert "renews at" in document["not_loaded"]["transactions of at-41, 2026-01"]
    assert requests_sent(database, datetime.now(UTC).date()) == {"default": 6}
    shown = json.loads(status.stdout)
    postponed = sum(each["slices"] for each in shown["problems"] if each["kind"] == "postponed")
    assert (shown["requests_today"], shown["requests_per_day"], postponed) == ({"default": 6}, 6, 2)


def test_the_plan_of_a_new_connection_is_near_what_it_takes_with_its_costs(
    platform: Platform, database: Database, database_url: str, tmp_path: Path
) -> None:
    variables, today = shell(tmp_path, database_url, SELLER_API_REQUESTS_PER_DAY="5000"), datetime.now(UTC).date()

    planned = run_here(["sync", "--plan", "--json"], variables)
    asked = requests_sent(database, today)["default"]
    loaded = run_here(["sync", "--json"], variables)

    rows = json.loads(planned.stdout)["plan"]
    taken = requests_sent(database, today)["default"] - asked
    products = {row["account"]: row["requests"] for row in rows if row["dataset"] == "cost_periods"}
    assert (asked, loaded.returncode) == (2, 0)
    assert max(products.values()) > 1
    assert sum(row["requests"] for row in rows) == pytest.approx(taken, rel=0.2)
