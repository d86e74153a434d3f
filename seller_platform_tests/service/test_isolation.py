"""Tests that no endpoint shows a user anything that belongs to other users.

The endpoints and their parameters are read from the OpenAPI document, so that new endpoints are tested too. To send
ten times as many requests: `ISOLATION_EXAMPLES=1000 pytest seller_platform_tests/service/test_isolation.py`.
"""

import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from seller_platform.service.users.groups import set_group
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.openapi import operations
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.served import CALLBACK, add_product, add_user, issue_token, running_app
from seller_platform_tests.support.stored_rows import execute, insert_rows, list_accounts
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


@dataclass(frozen=True)
class Person:
    """A user with their accounts, groups and reports; or one of their tokens for a single account."""

    email: str
    token: str
    accounts: frozenset[int]
    groups: Mapping[str, frozenset[int]]
    reports: tuple[str, ...]


@dataclass(frozen=True, repr=False)  # hypothesis would print all of it
class World:
    """Many users and accounts of one service."""

    client: httpx.Client
    accounts: Mapping[int, Account]
    people: Sequence[Person]
    operations: Sequence[tuple[str, str, Mapping[str, Any]]]

    def chosen(self, person: Person, selection: Mapping[str, str]) -> frozenset[int]:
        """Return the accounts that a selection selects for a person."""
        if "group_title" in selection:
            return person.groups.get(selection["group_title"], frozenset())
        own = {number: self.accounts[number] for number in person.accounts}
        facts = {number: {"account_title": each.title, **each.selection} for number, each in own.items()}
        return frozenset(number for number in own if selection.items() <= facts[number].items())


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.nightly)])
def world(request: pytest.FixtureRequest, databases: Databases) -> Iterator[World]:
    with (
        databases.lent() as database,
        running_app(database.url) as base_url,
        httpx.Client(base_url=base_url, timeout=PATIENCE_SECONDS) as client,
    ):
        yield _world(random.Random(request.param), database, client)


def _world(rng: random.Random, database: Database, client: httpx.Client) -> World:
    accounts = {}
    for number in range(1, _ACCOUNTS + 1):
        title, marketplace = rng.choice([*_COMMON_TITLES, f"mark-of-{number}-title"]), rng.choice(("DE", "FR", "IT"))
        seller_id = f"S{number // 2}X{number}"
        accounts[number] = Account(number, title, "DE", "EUR", "Europe/Berlin", marketplace, seller_id)
    list_accounts(database, {account.key: account for account in accounts.values()})
    for number, account in accounts.items():
        for dataset in (*SERVED, COST_PERIODS):
            insert_rows(database, dataset, account.key, [_row(dataset, number, position) for position in range(_ROWS)])
        mark = f"mark-of-{number}-"
        add_product(database, account.key, f"{mark}sku-0", f"{mark}asin", f"{mark}p", name=mark)
    people = tuple(_person(rng, database, client, accounts, number) for number in range(_USERS))
    people = (*people, *(_narrowed(person, accounts, database) for person in people if len(person.accounts) > 1))
    described = operations(client.get("/openapi.json").json())
    own = tuple(each for each in described if not each[1].startswith(("/oauth", "/admin", "/.well-known")))
    assert len(own) >= 15
    return World(client, accounts, people, own)


def _person(
    rng: random.Random, database: Database, client: httpx.Client, accounts: Mapping[int, Account], number: int
) -> Person:
    email = f"user{number}@isolation.example"
    own = frozenset(rng.sample(sorted(accounts), rng.randint(0, 6)))
    user_id = add_user(database, email, [account.key for account in accounts.values()])
    groups: dict[str, frozenset[int]] = {}
    for title in rng.sample(["Everything", "Europe", f"group-of-{number}-"], rng.randint(0, 3)):
        members = frozenset(rng.sample(sorted(accounts), rng.randint(0, 5))) | own
        set_group(database, email, title, [accounts[member].key for member in members])
        groups[title] = members & own
    # Members that the user may not read must not be shown: their access may have been removed.
    removed = "DELETE FROM service.user_accounts WHERE user_id = %s AND account <> ALL (%s)"
    execute(database, removed, user_id, [accounts[number].key for number in own])
    client_id, _ = add_application(database, f"client-of-{number}-", CALLBACK)
    owned = "UPDATE service.applications SET owner_id = %s, origin = 'owner' WHERE client_id = %s"
    execute(database, owned, user_id, client_id)
    token, reports = issue_token(database, email), list[str]()
    for account in (accounts[each] for each in sorted(own)[:2]):
        body = {**account.selection, "dps_date": "2026-03-09"}
        asked = client.post("/reports/request", headers={"Authorization": f"Bearer {token}"}, json=body)
        reports.append(asked.json()["report_id"])
    return Person(email, token, own, groups, tuple(reports))


def _narrowed(person: Person, accounts: Mapping[int, Account], database: Database) -> Person:
    """Return a token of a person for the first of their accounts, as a person who has no other."""
    number = min(person.accounts)
    token = issue_token(database, person.email, accounts=[accounts[number].key])
    groups = {title: frozenset({number}) for title, members in person.groups.items() if number in members}
    return replace(person, token=token, accounts=frozenset({number}), groups=groups, reports=person.reports[:1])


def _row(dataset: Dataset, number: int, position: int) -> Row:
    day = _LAST_DAY - timedelta(days=position) if dataset.is_dated else _LAST_DAY
    return (*(_value(dataset, column, number, position, day) for column in dataset.columns), day)


def _value(dataset: Dataset, column: Column, number: int, position: int, day: date) -> object:
    if dataset.split_by is not None and column.name == dataset.split_by.field:
        return dataset.split_by.values[position % len(dataset.split_by.values)]
    if "currency" in column.name:
        return "EUR"
    mark, moment = f"mark-of-{number}-", f"{day}T12:00:00+01:00"
    figure, last = number * 1000 + position, day + timedelta(days=position) if column.name == "to_date" else day
    element = f'[{{"cost_element": "{mark}element", "amount": 1, "currency": "EUR"}}]'
    text: dict[Kind, object] = {Kind.TEXT: f"{mark}{column.name}-{position}", Kind.TIMESTAMP: moment}
    return {**text, Kind.BOOLEAN: True, Kind.DATE: last, Kind.JSON: element}.get(column.kind, figure)


@dataclass(frozen=True)
class Asked:
    """A request of a person."""

    person: Person
    method: str
    path: str
    needs_selection: bool
    selection: Mapping[str, str]
    params: Mapping[str, str]
    body: Mapping[str, Any] | None

    def send(self, world: World) -> httpx.Response:
        # Selectors may be in the query or in the body; here they are always in the query.
        params = {**self.params, **self.selection}
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
            account.selection,
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
    about = (person, method, path, not named.keys().isdisjoint(_SELECTION), selection)
    if method != "POST":
        return Asked(*about, params, None)
    element = {"cost_element": f"by-{person.email}", "currency": "EUR", "amount": 1}
    period = {"dates": {"from_date": "2030-01-01", "to_date": "2030-12-31"}, "cost_elements": [element]}
    report = rng.choice([{"product_sku": facts["sku"]}, {"dps_date": "2026-03-09"}])
    body = {"data": [period], "sku": facts["sku"]} if "cogs" in path else report
    return Asked(*about, {}, body)


def _facts(number: int, other: Person) -> dict[str, str]:
    """Return values of an account and of another person's reports."""
    mark, report_id = f"mark-of-{number}-", other.reports[0] if other.reports else "999999999"
    product = {"sku": f"{mark}sku-0", "asin": f"{mark}asin", "parent_asin": f"{mark}p"}
    return {**product, "report_id": report_id, "start_date": "2026-03-01", "end_date": "2026-03-09"}


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
    allowed = world.chosen(asked.person, asked.selection) if asked.needs_selection else asked.person.accounts
    seen = {int(mark) for mark in _MARK.findall(body)} - {int(mark) for mark in _MARK.findall(sent)}
    if answer.is_error:
        allowed = asked.person.accounts  # the error of an ambiguous title lists the person's own accounts
    assert seen <= allowed, (asked, body[:500])
    assert answer.status_code < 500, (asked, body)
    foreign_groups = {title for person in world.people if person.email != asked.person.email for title in person.groups}
    assert not [title for title in foreign_groups if title.startswith("group-of") and title in body], (asked, body)
    if answer.status_code == 200 and asked.needs_selection and not world.chosen(asked.person, asked.selection):
        assert asked.selection.get("group_title") in asked.person.groups, (asked, body[:500])


def test_accounts_are_selected_in_one_module() -> None:
    top = Path(service.__file__).parent
    makers = {
        path.relative_to(top)
        for path in top.rglob("*.py")
        if re.search(r"\b(SelectedAccounts|ServedAccount)\(", path.read_text())
    }

    assert makers == {Path("access.py")}
