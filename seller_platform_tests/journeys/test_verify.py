"""`seller-platform verify` over the sandbox: everything is equal, and a changed row is named and repaired."""

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
from seller_platform.contract import REFRESHED, Column, Dataset, Kind
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.errors import RequestsUsedUpError
from seller_platform.sandbox.commands.demo import connect_local_stack
from seller_platform.sandbox.commands.local_stack import open_local_stack
from seller_platform_tests.support.processes import document, environment, run

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


def test_what_was_synced_is_what_the_upstream_lists(synced: Synced) -> None:
    status, document = synced.verify()

    assert (status, document["differences"], document["results"].keys()) == (0, [], {"equal"}), document
    assert document["listed"] > 1_000


def test_what_todays_requests_do_not_suffice_for_is_named(synced: Synced) -> None:
    limited = run(["verify", "--json"], synced.variables | {"SELLER_API_REQUESTS_PER_DAY": "3"})

    document = json.loads(limited.stdout)
    failed = [each["problem"] for each in document["differences"] if each["result"] == "failed"]
    assert (limited.returncode, document["exit_code"]) == (document["exit_code"], RequestsUsedUpError.exit_code)
    assert 0 < len(failed) == document["results"]["failed"] < sum(document["results"].values())


def test_a_row_of_each_list_that_was_changed_is_named_and_repaired(synced: Synced) -> None:
    columns = {dataset.name: _changeable(dataset) for dataset in (*REFRESHED, ACCOUNTS)}
    values = {name: f"SELECT {column.name}::text FROM seller.{name} ORDER BY 1" for name, column in columns.items()}
    before = {name: synced.query(statement) for name, statement in values.items()}
    for name, column in columns.items():
        change = {Kind.TEXT: "'x'", Kind.JSON: "'[]'"}.get(column.kind, f"{column.name} - 1")
        day = "load_id" if name == ACCOUNTS.name else "local_day"
        first = f"SELECT tableoid, ctid FROM seller.{name} WHERE {column.name} IS NOT NULL ORDER BY {day}, ctid LIMIT 1"
        synced.query(f"UPDATE seller.{name} SET {column.name} = {change} WHERE (tableoid, ctid) = ({first})")

    status, document = synced.verify()
    (command,) = re.findall("seller-platform (verify [^`]*)`", document["message"])
    repaired = run([*shlex.split(command), "--json"], synced.variables)

    different = {each["dataset"]: each for each in document["differences"]}
    assert (status, document["exit_code"], different.keys()) == (5, 5, columns.keys()), document
    for name, each in different.items():
        assert (each["not_stored"], each["not_listed"]) == (1, 1), each
        assert columns[name].name in " ".join(each["examples"])
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert {name: synced.query(statement) for name, statement in values.items()} == before
    assert synced.verify()[0] == 0


def _changeable(dataset: Dataset) -> Column:
    """Return an amount of a list, or else the first of its columns that is no key."""
    kinds = (Kind.MONEY, Kind.INTEGER, Kind.NUMBER, Kind.TEXT, Kind.JSON)
    return next(each for each in (*dataset.money, *dataset.columns) if not each.key and each.kind in kinds)
