"""Asks the demo's company through the Model Context Protocol: as an agent, as an attacker, and beside the REST API.

The service and `seller-platform mcp` are processes; they and PostgreSQL have the clock of the day on which the company
was read. The client is that of package mcp, with a grant to which a person consented on the pages. Only the hostile
requests over HTTP are sent without it, because it would refuse to send many of them. A tool is compared with the REST
request for the same rows, or for those that the tool adds up: one is sent after the other, again and again. On a busy
machine both wait, and the difference of their CPU is what remains comparable.
"""

import asyncio
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from statistics import mean, median, quantiles
from typing import Any, NamedTuple
from unittest import mock

import httpx

from seller_platform.service.oauth.applications import add_application
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.figures.measuring import processor_seconds, server_seconds, with_children
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.agent_hosts import Host, ask_process
from seller_platform_tests.support.client_documents import Documents, hosted_documents
from seller_platform_tests.support.clocks import MovedClock
from seller_platform_tests.support.contents import contents_of
from seller_platform_tests.support.demo_company import AU, DE, NOW, US, load_demo_company
from seller_platform_tests.support.hostile_calls import hostile_calls, hostile_messages, leaks, result_of
from seller_platform_tests.support.installation import temporary_server
from seller_platform_tests.support.processes import COMMAND, announced_address, environment
from seller_platform_tests.support.questions import problems_of, questions
from seller_platform_tests.support.served import ANN, CALLBACK, Served, add_user
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

MOST_MILLISECONDS = 150
_REFRESHES = 16
_SENDERS = 4

_TITLE = "North Pine US"
_OF_MARCH = {"accounts": [_TITLE], "first_day": "2026-03-01", "last_day": "2026-03-31"}
_THAN_JANUARY = {"other_first_day": "2026-01-01", "other_last_day": "2026-01-31"}
_COSTS = {"account": _TITLE, "sku": "A&B?C=D#1", "from_date": "2026-02-16", "to_date": "2027-12-31"}
_FREIGHT = {"cost_element": "Freight", "amount": "1.50", "currency": "USD"}
_SAME = {"account_title": _TITLE, "per_page": "2000"}
_SAME_MARCH = {**_SAME, "start_date": "2026-03-01", "end_date": "2026-03-31"}
_BY_DAY, _BY_PRODUCT = {"view_by": "date", "group_by": "day"}, {"view_by": "product", "group_by": "sku"}

_BESIDE: tuple[tuple[str, Mapping[str, Any], str, Mapping[str, str]], ...] = (
    ("accounts", {}, "/user/accounts", {}),
    ("query", {"metric": "product_sales", "by": ["product"]} | _OF_MARCH, "/sales/per-day-per-product", _SAME_MARCH),
    ("query", {"metric": "orders"} | _OF_MARCH, "/sales/orders", _SAME_MARCH),
    ("query", {"metric": "platform_fees"} | _OF_MARCH, "/sales/transactions", _SAME_MARCH),
    ("query", {"metric": "profit", "by": ["day"]} | _OF_MARCH, "/sales/statistics-dashboard", _SAME_MARCH | _BY_DAY),
    (
        "compare",
        {"metric": "units", "by": ["product"]} | _OF_MARCH | _THAN_JANUARY,
        "/sales/statistics-dashboard",
        _SAME_MARCH | _BY_PRODUCT,
    ),
    ("stock", {"accounts": [_TITLE]}, "/inventory/list", _SAME),
    (
        "cost_plan",
        {"lines": [_COSTS | _FREIGHT]},
        "/cogs/cost-periods",
        {"account_title": _TITLE, "sku": _COSTS["sku"]},
    ),
)
"""A tool and its arguments, and the path and the query of the REST request."""


@dataclass(frozen=True)
class _Agents:
    """The service, its database, and the variables with which `seller-platform mcp` reads the same database."""

    service: Served
    pid: int
    server: EmbeddedServer
    variables: dict[str, str]
    documents: Documents

    def host(self, **choices: str | None) -> Host:
        """Return a host to which Ann has consented."""
        host = Host(self.service.base_url, self.documents, **choices)
        host.ask()
        return host

    def cpu_seconds(self) -> float:
        """Return the CPU of the service and of PostgreSQL."""
        return sum(map(processor_seconds, with_children(self.pid))) + server_seconds(self.server)

    def errors(self) -> int:
        """Return how many errors PostgreSQL has logged."""
        return (self.server.data_folder / "server.log").read_text().count("ERROR:")


class _Spent(NamedTuple):
    """Milliseconds of a request: those that the client waited, and the CPU of the service and of PostgreSQL."""

    wall: float
    cpu: float


def measure(*, repeats: int = 100, hostile: int = 4_000) -> Promises:
    """Options: how often each tool is called beside the REST API, and hostile requests; a tenth of them over stdio."""
    with _agents() as agents:
        figures = [*_questions(agents), *_beside_rest(agents, repeats), *_attacks(agents, hostile), _refreshes(agents)]
        return Promises("The Model Context Protocol, over the demo's company", figures)


@contextmanager
def _agents() -> Iterator[_Agents]:
    with temporary_server() as (_, folder):
        clock = MovedClock(folder)
        clock.move(NOW - datetime.now(UTC))
        with (
            mock.patch.dict(os.environ, clock.environment),
            hosted_documents(folder) as documents,
            temporary_server() as (server, _),
            Database(server.database("company")) as database,
        ):
            database.migrate()
            load_demo_company(database)
            add_user(database, ANN, (US, DE, AU))
            application = add_application(database, "Reader", CALLBACK)
            variables = environment(
                folder / "home",
                SELLER_PLATFORM_DATABASE_URL=database.url,
                SELLER_PLATFORM_SERVICE_PRIVATE_CLIENT_HOSTS="localhost",
                **clock.environment,
            )
            command, log = [*COMMAND, "service", "run", "--replica", "--mcp", "--port", "0"], folder / "service.log"
            with log.open("w") as file, subprocess.Popen(command, env=variables, stdout=file, stderr=file) as process:
                try:
                    service = Served(announced_address(process, log), database, *application)
                    yield _Agents(service, process.pid, server, variables, documents)
                finally:
                    process.terminate()


def _questions(agents: _Agents) -> Iterator[Figure]:
    """Yield how many of the sixty questions are answered right or rightly refused."""
    asked = questions()
    calls = [(each.tool, dict(each.arguments)) for each in asked]
    answers = {"HTTP": agents.host().ask(*calls), "standard streams": ask_process(agents.variables, *calls)}
    for transport, results in answers.items():
        wrong = [each.ask for each, result in zip(asked, results, strict=True) if problems_of(each, result)]
        right = f"{len(asked) - len(wrong)} of {len(asked)}"
        yield Figure(f"questions answered right, or rightly refused, over {transport}", right, "all", not wrong)
        for each in wrong:
            yield Figure(f"  wrong: {each}", "")


def _beside_rest(agents: _Agents, repeats: int) -> Iterator[Figure]:
    """Yield how much longer a tool takes than the REST request."""
    host = agents.host()
    bearer = {"Authorization": f"Bearer {agents.service.pair()['access_token']}"}
    spent: list[list[_Spent]] = [[] for _ in _BESIDE]

    async def timed(request: Awaitable[Any]) -> tuple[Any, _Spent]:
        cpu, began = agents.cpu_seconds(), time.perf_counter()
        answer = await request
        seconds = time.perf_counter() - began
        return answer, _Spent(1_000 * seconds, 1_000 * (agents.cpu_seconds() - cpu))

    async def compare() -> None:
        async with (
            host.connected() as client,
            httpx.AsyncClient(base_url=agents.service.base_url, headers=bearer, timeout=PATIENCE_SECONDS) as rest,
        ):
            for _ in range(repeats):
                for (tool, arguments, path, query), differences in zip(_BESIDE, spent, strict=True):
                    answer, of_rest = await timed(rest.get(path, params=query))
                    result, of_tool = await timed(client.call_tool(tool, dict(arguments)))
                    assert (answer.status_code, result.is_error) == (200, False), (answer.text, result)
                    differences.append(_Spent(of_tool.wall - of_rest.wall, of_tool.cpu - of_rest.cpu))

    asyncio.run(compare())
    yield Figure("milliseconds more than the REST request takes: median, p95, and mean CPU of the servers", "")
    for (tool, arguments, path, _), differences in zip(_BESIDE, spent, strict=True):
        wall = [each.wall for each in differences]
        middle, most, cpu = median(wall), quantiles(wall, n=20)[-1], mean(each.cpu for each in differences)
        named = " ".join([tool, *filter(None, [arguments.get("metric")])])
        promised, is_kept = f"at most +{MOST_MILLISECONDS}", most <= MOST_MILLISECONDS
        yield Figure(f"  {named}, beside {path}", f"{middle:+.0f}, {most:+.0f}, {cpu:+.1f}", promised, is_kept)


def _attacks(agents: _Agents, count: int) -> Iterator[Figure]:
    """Yield what hostile requests saw, changed and broke; the host may see one of the accounts."""
    host = agents.host(accounts="ticked", **{f"account:{DE}": None, f"account:{AU}": None})
    assert host.tokens
    token, statuses, ends = host.tokens.access_token, Counter[int](), Counter[str]()
    before, errors = contents_of(agents.service.database), agents.errors()
    with httpx.Client() as http, ThreadPoolExecutor(_SENDERS) as senders:

        def send(message: Any) -> list[str]:
            answer = host.post(token, message, http=http)
            result = result_of(answer)
            statuses[answer.status_code] += 1
            ends["answered" if isinstance(result, Mapping) and "rows" in result else "refused"] += 1
            return leaks(message, result)

        seen = [word for words in senders.map(send, hostile_messages(Random(1), count)) for word in words]
    errors = agents.errors() - errors
    calls = [call for call in hostile_calls(Random(2), count // 10) if _is_sendable(call)]
    for call, result in zip(calls, ask_process(agents.variables, *calls), strict=True):
        seen += leaks(call, result.structured_content, sees_all=True)
        ends["refused" if result.is_error else "answered"] += 1
    after = contents_of(agents.service.database, before).hashes
    changed = [table for table, rows in before.hashes.items() if after[table] != rows]
    failed = sum(number for status, number in statuses.items() if status >= 500)
    yield Figure(
        "hostile requests over HTTP", ", ".join(f"{statuses[each]:,} of status {each}" for each in sorted(statuses))
    )
    yield Figure("hostile calls over standard streams", len(calls))
    yield Figure("  of all, answered and refused", f"{ends['answered']:,}, {ends['refused']:,}")
    shown = Counter(seen)
    yield Figure("  names of other accounts and texts of the program in answers", dict(shown) or 0, "0", not shown)
    yield Figure("  answers of status 500 and above", failed, "0", not failed)
    yield Figure("  errors that PostgreSQL logged of those over HTTP", errors, "0", not errors)
    yield Figure("  tables that changed", ", ".join(changed) or 0, "0", not changed)


def _is_sendable(call: object) -> bool:
    """Return whether the client can send a call: it has no JSON of infinite numbers and of halves of characters."""
    try:
        json.dumps(call, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        return False
    return True


def _refreshes(agents: _Agents) -> Figure:
    kept = agents.host().refresh_at_once(_REFRESHES)
    return Figure("refreshes at once that keep the grant", f"{sum(kept)} of {len(kept)}", "all", all(kept))
