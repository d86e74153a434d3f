"""Tests that no endpoint shows a user anything that belongs to other users.

The endpoints and their parameters are read from the OpenAPI document, so that new endpoints are tested too. To send
ten times as many requests: `ISOLATION_EXAMPLES=1000 pytest seller_platform_tests/service/test_isolation.py`.
"""

import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seller_platform import service
from seller_platform.contract import Account, Column, Dataset, Kind
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.service.lists.endpoints import SERVED
from seller_platform.service.oauth.applications import add_application
from seller_platform.service.users.store import grant_accounts
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.served import CALLBACK, add_product, issue_token, running_app
from seller_platform_tests.support.stored_rows import execute, insert_rows, list_accounts, stored
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

_USERS, _ACCOUNTS, _ROWS = 10, 16, 6
_LAST_DAY = date(2026, 3, 9)
_MARK = re.compile(r"mark-of-(\d+)-")
_COMMON_TITLES = ("Shop", "Store", "Main")
_SELECTION = ("account_title", "seller_id", "marketplace_id", "group_title")
_MISSING = "nothing-that-ever-was"
_PRODUCT = ("sku", "asin", "parent_asin")
_THOROUGH = settings(
    max_examples=int(os.environ.get("ISOLATION_EXAMPLES", "100")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
_METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class Person:
    """A user with their accounts, groups, reports and client; or one of their tokens for a single account."""

    email: str
    token: str
    accounts: frozenset[int]
    groups: Mapping[str, frozenset[int]]
    reports: tuple[str, ...]
    client_id: str


class World:
    """Many users and accounts of one service.

    It is no dataclass, because hypothesis would print all of it.
    """

    def __init__(
        self,
        client: httpx.Client,
        accounts: Mapping[int, Account],
        people: Sequence[Person],
        operations: Sequence[tuple[str, str, Mapping[str, Any]]],
    ) -> None:
        self.client, self.accounts, self.people, self.operations = client, accounts, people, operations

    def chosen(self, person: Person, selection: Mapping[str, str]) -> frozenset[int]:
        """Return the accounts that a selection selects for a person."""
        if "group_title" in selection:
            return person.groups.get(selection["group_title"], frozenset())
        return frozenset(
            number
            for number in person.accounts
            if self.accounts[number].title == selection.get("account_title", self.accounts[number].title)
            and self.accounts[number].seller_id == selection.get("seller_id", self.accounts[number].seller_id)
            and self.accounts[number].marketplace == selection.get("marketplace_id", self.accounts[number].marketplace)
        )


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.nightly)])
def world(request: pytest.FixtureRequest, databases: Databases) -> Iterator[World]:
    with (
        databases.lent() as database,
        running_app(database.url) as base_url,
        httpx.Client(base_url=base_url, timeout=PATIENCE_SECONDS) as client,
    ):
        yield _world(random.Random(request.param), database, client)


def _world(rng: random.Random, database: Database, client: httpx.Client) -> World:
    accounts = {number: _account(rng, number) for number in range(1, _ACCOUNTS + 1)}
    list_accounts(database, {account.key: account for account in accounts.values()})
    for number, account in accounts.items():
        for dataset in (*SERVED, COST_PERIODS):
            insert_rows(database, dataset, account.key, [_row(dataset, number, position) for position in range(_ROWS)])
        mark = f"mark-of-{number}-"
        add_product(database, account.key, f"{mark}sku-0", f"{mark}asin", f"{mark}p", name=mark)
    people = tuple(_person(rng, database, accounts, number) for number in range(_USERS))
    people = tuple(_with_reports(person, accounts, client) for person in people)
    people = (*people, *(_narrowed(person, accounts, database) for person in people if len(person.accounts) > 1))
    document = client.get("/openapi.json").json()
    operations = tuple(
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in _METHODS and not path.startswith(("/oauth", "/admin", "/.well-known"))
    )
    assert len(operations) >= 15
    return World(client, accounts, people, operations)


def _account(rng: random.Random, number: int) -> Account:
    title = rng.choice([*_COMMON_TITLES, f"mark-of-{number}-title"])
    marketplace = rng.choice(("DE", "FR", "IT"))
    return Account(number, title, "DE", "EUR", "Europe/Berlin", marketplace, f"S{number // 2}X{number}")


def _person(rng: random.Random, database: Database, accounts: Mapping[int, Account], number: int) -> Person:
    email = f"user{number}@isolation.example"
    [(user_id,)] = stored(
        database,
        "INSERT INTO service.users (email, name, password_hash) VALUES (%s, %s, '') RETURNING id",
        *(email, f"User {number}"),
    )
    own = frozenset(rng.sample(sorted(accounts), rng.randint(0, 6)))
    grant_accounts(database, email, [accounts[each].key for each in own])
    groups: dict[str, frozenset[int]] = {}
    for title in rng.sample(["Everything", "Europe", f"group-of-{number}-"], rng.randint(0, 3)):
        # Members that the user may not read must not be shown: their access may have been removed.
        members = frozenset(rng.sample(sorted(accounts), rng.randint(0, 5))) | own
        execute(database, "INSERT INTO service.account_groups (user_id, title) VALUES (%s, %s)", user_id, title)
        keys = [accounts[member].key for member in members]
        added = "INSERT INTO service.account_group_members SELECT id, unnest(%s::text[]) FROM service.account_groups"
        execute(database, f"{added} WHERE user_id = %s AND title = %s", keys, user_id, title)
        groups[title] = members & own
    client_id, _ = add_application(database, f"client-of-{number}-", CALLBACK)
    owned = "UPDATE service.applications SET owner_id = %s, origin = 'owner' WHERE client_id = %s"
    execute(database, owned, user_id, client_id)
    return Person(email, issue_token(database, email), own, groups, (), client_id)


def _with_reports(person: Person, accounts: Mapping[int, Account], client: httpx.Client) -> Person:
    headers = {"Authorization": f"Bearer {person.token}"}
    reports = [
        client.post(
            "/reports/request",
            headers=headers,
            json={
                "seller_id": accounts[number].seller_id,
                "marketplace_id": accounts[number].marketplace,
                "dps_date": "2026-03-09",
            },
        ).json()["report_id"]
        for number in sorted(person.accounts)[:2]
    ]
    return Person(person.email, person.token, person.accounts, person.groups, tuple(reports), person.client_id)


def _narrowed(person: Person, accounts: Mapping[int, Account], database: Database) -> Person:
    """Return a token of a person for the first of their accounts, as a person who has no other."""
    number = min(person.accounts)
    token = issue_token(database, person.email, accounts=[accounts[number].key])
    groups = {title: frozenset({number}) for title, members in person.groups.items() if number in members}
    return Person(person.email, token, frozenset({number}), groups, person.reports[:1], person.client_id)


def _row(dataset: Dataset, number: int, position: int) -> Row:
    day = _LAST_DAY - timedelta(days=position) if dataset.is_dated else _LAST_DAY
    return (*(_value(dataset, column, number, position, day) for column in dataset.columns), day)


def _value(dataset: Dataset, column: Column, number: int, position: int, day: date) -> object:  # noqa: PLR0911  # one for each kind
    if dataset.split_by is not None and column.name == dataset.split_by.field:
        return dataset.split_by.values[position % len(dataset.split_by.values)]
    if "currency" in column.name:
        return "EUR"
    match column.kind:
        case Kind.TEXT:
            return f"mark-of-{number}-{column.name}-{position}"
        case Kind.INTEGER | Kind.MONEY | Kind.NUMBER:
            return number * 1000 + position
        case Kind.BOOLEAN:
            return True
        case Kind.DATE:
            return day + timedelta(days=position) if column.name == "to_date" else day
        case Kind.TIMESTAMP:
            return f"{day}T12:00:00+01:00"
        case Kind.JSON:
            return f'[{{"cost_element": "mark-of-{number}-element", "amount": 1, "currency": "EUR"}}]'


@dataclass(frozen=True)
class Asked:
    """A request of a person."""

    person: Person
    method: str
    path: str
    selection: Mapping[str, str]
    params: Mapping[str, str]
    body: Mapping[str, Any] | None

    def send(self, world: World, **changed: str) -> httpx.Response:
        # Selectors may be in the query or in the body; here they are always in the query.
        params = {**self.params, **self.selection, **changed}
        headers = {"Authorization": f"Bearer {self.person.token}"}
        return world.client.request(self.method, self.path, params=params, json=self.body, headers=headers)


def _request(rng: random.Random, world: World) -> Asked:
    """Return a random request: any person, endpoint, and account or group, also missing ones."""
    person, other = rng.choice(world.people), rng.choice(world.people)
    method, path, operation = rng.choice(world.operations)
    named = {each["name"]: each for each in operation.get("parameters", []) if each.get("in") == "query"}
    account = world.accounts[rng.choice(sorted(world.accounts))]
    selection: dict[str, str] = rng.choice(
        [
            {"account_title": account.title},
            {"account_title": rng.choice(_COMMON_TITLES)},
            {"seller_id": str(account.seller_id), "marketplace_id": str(account.marketplace)},
            {"seller_id": str(account.seller_id), "marketplace_id": rng.choice(["DE", "FR", "IT"])},
            {"group_title": rng.choice([*other.groups, "Everything", _MISSING])},
        ]
    )
    facts = _facts(rng.choice(sorted(world.accounts)), other)
    product = rng.choice(_PRODUCT)
    params = {
        name: facts.get(name) or _value_of(described["schema"], rng)
        for name, described in named.items()
        if name not in _SELECTION
        and (name == product if name in _PRODUCT else described.get("required") or rng.random() < 0.5)
    }
    if method != "post":
        return Asked(person, method, path, selection, params, None)
    element = {"cost_element": f"by-{person.email}", "currency": "EUR", "amount": 1}
    period = {"dates": {"from_date": "2030-01-01", "to_date": "2030-12-31"}, "cost_elements": [element]}
    report = rng.choice([{"product_sku": facts["sku"]}, {"dps_date": "2026-03-09"}])
    body = {"data": [period], "sku": facts["sku"]} if "cogs" in path else report
    return Asked(person, method, path, selection, {}, body)


def _facts(number: int, other: Person) -> dict[str, str]:
    """Return values of an account and of another person's reports."""
    return {
        "sku": f"mark-of-{number}-sku-0",
        "asin": f"mark-of-{number}-asin",
        "parent_asin": f"mark-of-{number}-p",
        "report_id": other.reports[0] if other.reports else "999999999",
        "start_date": "2026-03-01",
        "end_date": "2026-03-09",
    }


def _value_of(schema: Mapping[str, Any], rng: random.Random) -> str:
    if "enum" in schema:
        return str(rng.choice(schema["enum"]))
    if schema.get("format") == "date":
        return rng.choice(["2026-03-01", "2026-03-09"])
    return rng.choice(["1", "2", "77"] if schema.get("type") == "integer" else ["EUR", "neither this nor that"])


@_THOROUGH
@given(seed=st.integers(0, 2**63))
def test_no_request_shows_objects_of_other_users(world: World, seed: int) -> None:
    asked = _request(random.Random(seed), world)

    answer = asked.send(world)

    sent = " ".join([*asked.selection.values(), *asked.params.values(), str(asked.body)])
    body = answer.text
    for word in sorted({*asked.selection.values(), *asked.params.values()}, key=len, reverse=True):
        if answer.is_error and len(word) > 5:  # refusals repeat what was sent
            body = body.replace(word, "")
    needs_selection = any(each["name"] in _SELECTION for each in _operation(world, asked).get("parameters", []))
    allowed = world.chosen(asked.person, asked.selection) if needs_selection else asked.person.accounts
    seen = {int(mark) for mark in _MARK.findall(body)} - {int(mark) for mark in _MARK.findall(sent)}
    if answer.is_error:
        allowed = asked.person.accounts  # the error of an ambiguous title lists the person's own accounts
    assert seen <= allowed, (asked, body[:500])
    assert answer.status_code < 500, (asked, body)
    foreign_groups = {title for person in world.people if person.email != asked.person.email for title in person.groups}
    assert not [title for title in foreign_groups if title.startswith("group-of") and title in body], (asked, body)
    if answer.status_code == 200 and needs_selection and not world.chosen(asked.person, asked.selection):
        assert asked.selection.get("group_title") in asked.person.groups, (asked, body[:500])


def _operation(world: World, asked: Asked) -> Mapping[str, Any]:
    return next(operation for *request, operation in world.operations if request == [asked.method, asked.path])


def test_accounts_are_selected_in_one_module() -> None:
    top = Path(service.__file__).parent
    makers = {
        path.relative_to(top)
        for path in top.rglob("*.py")
        if re.search(r"\b(SelectedAccounts|ServedAccount)\(", path.read_text())
    }

    assert makers == {Path("access.py")}
