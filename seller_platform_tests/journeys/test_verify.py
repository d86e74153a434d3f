"""`seller-platform verify` over the sandbox: equal where nothing was lost, and plain words where something was."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from seller_platform.cli.installation import open_installation
from seller_platform.cli.output import Output
from seller_platform.cli.sandbox.demo import connect_local_stack
from seller_platform.cli.sandbox.local_stack import open_local_stack
from seller_platform.contract import LISTS
from seller_platform_tests.support.processes import (
    document,
    environment,
    run,
)

pytestmark = pytest.mark.journey


@dataclass(frozen=True)
class Synced:
    """A sandbox that is served, and a warehouse that `sync` has filled from it."""

    variables: dict[str, str]
    warehouse_url: str

    def verify(self, *options: str) -> tuple[int, dict[str, Any]]:
        result = run(["verify", "--json", *options], self.variables)
        assert result.stdout, result.stderr
        return result.returncode, json.loads(result.stdout)

    @property
    def account(self) -> str:
        """The account with the fewest sales of two units, which takes the shortest time to verify."""
        statement = (
            "SELECT account FROM seller.daily_product_sales WHERE units_ordered = 2 GROUP BY 1 ORDER BY count(*)"
        )
        return str(self.query(statement)[0][0])

    def query(self, statement: str, *values: object) -> list[Any]:
        with psycopg.connect(self.warehouse_url) as connection:
            found = connection.execute(statement.encode(), values)
            return found.fetchall() if found.description else []


@pytest.fixture(scope="module")
def synced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synced]:
    output = Output(as_json=True)
    home = tmp_path_factory.mktemp("home")
    with open_local_stack(home, output, months=2) as stack, pytest.MonkeyPatch.context() as patch:
        for name, value in stack.environment.items():
            patch.setenv(name, value)
        with open_installation() as place:
            connect_local_stack(place, stack, output)
        variables = environment(stack.home, **stack.environment)
        document(run(["sync", "--full", "--json"], variables))
        yield Synced(variables, stack.environment["SELLER_PLATFORM_DATABASE_URL"])


def test_a_replica_of_everything_gives_equal_answers(synced: Synced) -> None:
    status, told = synced.verify()

    kinds = ("differences", "computed_differences", "absent")
    assert (status, [told[kind] for kind in kinds]) == (0, [[], [], []]), told
    verified = {(row["dataset"], row["account"]): row for row in told["verified"]}
    keys = {account for dataset, account in verified if dataset != "accounts"}
    assert len(keys) == 3
    datasets = {"accounts", "statistics", "velocity", "cost_periods", *(dataset.name for dataset in LISTS)}
    assert {dataset for dataset, _ in verified} == datasets
    for dataset in LISTS:
        for key in keys:
            row = verified[(dataset.name, key)]
            assert row["equal"] == row["queries"] == (2 if dataset.is_dated else 1), row
            assert row["rows"] > 0, row
    for key in keys:
        for name in ("cost_periods", "velocity"):
            row = verified[(name, key)]
            assert (row["equal"], row["queries"]) == (1, 1), row
            assert row["rows"] > 0, row
        assert verified[("statistics", key)]["equal"] > 15, verified[("statistics", key)]


def test_what_a_replica_cannot_know_is_named(synced: Synced) -> None:
    status, told = synced.verify("--dataset", "statistics", "--account", synced.account)

    assert status == 0, told
    named = [each["message"] for each in told["not_known"]]
    assert any("parent" in what for what in named), named
    assert any(what.startswith("buybox_price, sales_rank:") for what in named), named
    assert sum(row["not_known"] for row in told["verified"]) == sum(
        each["queries"] for each in told["not_known"] if "group_by" in each["message"]
    )


def test_what_is_not_asked_is_named_and_temporary_access_leaves_no_user(synced: Synced) -> None:
    told = synced.verify("--dataset", "inventory")[1]

    assert set(told["not_compared"]) == {"reports", "account groups", "currency conversion", "other velocity windows"}
    for table in ("users", "applications", "access_tokens", "user_accounts"):
        assert synced.query(f"SELECT count(*) FROM service.{table}") == [(0,)]


def test_a_row_that_was_changed_is_named(synced: Synced) -> None:
    """Rows that are deleted or duplicated are compared in `ingest/verification/test_comparison.py`."""
    account, order, day, amount = synced.query(
        "SELECT account, platform_order_id, local_day, trim_scale(max(order_total)) FROM seller.orders "
        "GROUP BY 1, 2, 3 HAVING count(*) = 1 ORDER BY 4 DESC LIMIT 1"
    )[0]
    change = "UPDATE seller.orders SET order_total = order_total {} 1000 WHERE platform_order_id = '{}' RETURNING 1"
    synced.query(change.format("+", order))

    status, told = synced.verify("--dataset", "orders", "--account", account)
    synced.query(change.format("-", order))

    assert (status, told["exit_code"]) == (5, 5), told
    lines = [each["message"] for each in told["differences"]]
    words = f"order_total {amount} at the source, {amount + 1000} at the replica"
    assert any(order in line and words in line for line in lines), lines
    assert any("rows at the source" in line for line in lines), lines
    assert {f"{day:%Y-%m}" in each["query"] for each in told["differences"]} == {True}
    assert [row["different"] for row in told["verified"]].count(1) == 1


def test_rows_that_lack_are_read_again_by_the_printed_command(synced: Synced) -> None:
    account, day = synced.query("SELECT account, local_day FROM seller.orders ORDER BY random() LIMIT 1")[0]
    synced.query("DELETE FROM seller.orders WHERE account = %s AND local_day = %s", account, day)
    status, told = synced.verify("--dataset", "orders", "--account", account)
    (command,) = re.findall("seller-platform (sync [^`]*)`", told["message"])

    again = run(shlex.split(command), synced.variables)

    assert (status, command) == (5, f"sync --account {account} --dataset orders --from {day:%Y-%m} --to {day:%Y-%m}")
    assert again.returncode == 0, again.stderr
    assert synced.verify("--dataset", "orders", "--account", account)[0] == 0


def test_a_statistic_that_no_longer_follows_from_the_rows_is_named(synced: Synced) -> None:
    account = synced.account
    synced.query("CREATE TABLE public.sold AS TABLE seller.daily_product_sales")
    try:
        synced.query("UPDATE seller.daily_product_sales SET units_ordered = units_ordered + 1 WHERE units_ordered = 2")
        synced.query("DELETE FROM service.summaries")  # no load brought these rows, so that sums do not follow

        status, told = synced.verify("--dataset", "statistics", "--account", account)
    finally:
        synced.query("TRUNCATE seller.daily_product_sales")
        synced.query("INSERT INTO seller.daily_product_sales TABLE public.sold")
        synced.query("DELETE FROM service.summaries")

    assert status == 5, told
    assert {each["dataset"] for each in told["computed_differences"]} == {"statistics"}
    assert any("units_ordered" in each["message"] for each in told["computed_differences"])
    assert told["differences"] == []
    (command,) = re.findall("seller-platform (verify [^`]*)`", told["message"])
    again = run(shlex.split(command), synced.variables)
    assert again.returncode == 0, again.stderr  # the lists are as they were
