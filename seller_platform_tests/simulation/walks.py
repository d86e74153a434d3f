"""A client of the service, which reads all pages of a list while other actors change it."""

import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, cast

import psycopg
from starlette.requests import Request

from seller_platform.contract import Dataset
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.service.errors import ApiError
from seller_platform.service.http.responses import BASE_URL
from seller_platform.service.lists.endpoints import route_for
from seller_platform.service.metrics import notes_of
from seller_platform.service.pool import Store
from seller_platform_tests.simulation.upstream import ACCOUNT

if TYPE_CHECKING:
    from seller_platform_tests.simulation.world import Process, World

_Value = TypeVar("_Value")

_TOKEN = "reads-lists"
CALLER = f"""
INSERT INTO service.users (id, email, name, password_hash) OVERRIDING SYSTEM VALUE VALUES (1, 'u@x', 'A user', '');
INSERT INTO service.user_accounts VALUES (1, '{ACCOUNT.key}');
INSERT INTO service.applications (client_id, name, redirect_uris, origin)
VALUES ('walks', 'Walks', '{{https://x/}}', 'operator');
INSERT INTO service.authorizations (family, client_id, user_id, last_used_on, scopes, expires_at)
VALUES (gen_random_uuid(), 'walks', 1, (now() AT TIME ZONE 'UTC')::date, '{{read}}', 'infinity');
INSERT INTO service.access_tokens (token_hash, family, expires_at)
SELECT sha256('{_TOKEN}'), family, 'infinity' FROM service.authorizations
"""
"""Adds a user of the service with an access token."""


class _Store:
    """Lends connections of a simulated process as `Store` does."""

    def __init__(self, process: "Process") -> None:
        self._process = process

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Lend a connection."""
        try:
            with self._process.world.server.lend(self._process.name) as connection:
                yield connection
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise WarehouseUnavailableError("the simulation", str(error)) from error


def walk(world: "World", process: "Process", random: Random) -> None:
    """Read a list page by page as it was at first, and compare it with the states that were published."""
    dataset = random.choice(world.datasets)
    # Lists are short here, so pages are.
    small = replace(dataset, page_sizes=(1, 2, 3, 100))
    route = route_for(small, cast(Store, _Store(process)), world.clock.now)
    window = world.model.window_read(dataset.name)
    if window is None:
        return
    days = f"&start_date={window.start}&end_date={window.last_day}" if dataset.is_dated else ""
    size = random.choice((1, 2, 3))
    following = f"seller_id={ACCOUNT.seller_id}&marketplace_id={ACCOUNT.marketplace}&per_page={size}{days}"
    rows, total = list[Mapping[str, Any]](), 0
    states = range(world.model.states_of(dataset.name) - 1, 0)
    try:
        while following:
            world.scheduler.sleep(random.choice((0, 1, 4)))
            answer = _ended(route.answer(_request(dataset, following)))
            page = json.loads(answer.body, parse_float=str, parse_int=str)
            rows += page["data"]
            if not states:
                total, states = int(page["total"]), range(states.start, world.model.states_of(dataset.name))
            following = answer.headers.get("Link", "").partition("?")[2].partition(">")[0]
    except ApiError as error:
        assert error.status == 410 or error.reason == "replica", error
        world.say(f"the walk ends: {error}")
        return
    world.say(f"walked {len(rows)} rows of {dataset.name}")
    world.model.judge_walk(dataset, rows, total, window, states)


def _request(dataset: Dataset, query: str) -> Request:
    scope = {
        **{"type": "http", "method": "GET", "path": dataset.path, "query_string": query.encode()},
        BASE_URL: "http://service",
        "headers": [(b"authorization", f"Bearer {_TOKEN}".encode())],
    }
    notes_of(scope)
    return Request(scope)


def _ended(coroutine: Coroutine[Any, Any, _Value]) -> _Value:
    """Return the result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return cast(_Value, ended.value)
    raise AssertionError("the service waits for something that is no actor")
