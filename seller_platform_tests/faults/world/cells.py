"""The matrix, a run of a cell, and its judge."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch
from urllib.parse import urlsplit

import msgspec
import psycopg
import pytest
from psycopg import sql

from seller_platform.cli.terminal.root import run
from seller_platform.contract import Account
from seller_platform.ingest.connections.upstream import Upstream
from seller_platform.reports.jobs import JobState, move_job, open_job
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.programs import SUPERUSER
from seller_platform_tests.faults.world.bodies import BODIES, DAY, Body, Command, Row
from seller_platform_tests.faults.world.environments import ENVIRONMENTS, Environment
from seller_platform_tests.faults.world.transports import TRANSPORTS, Transport
from seller_platform_tests.support.command_line import COMMAND_LINE
from seller_platform_tests.support.installation import Site
from seller_platform_tests.support.postgres import Databases, drop_database
from seller_platform_tests.support.processes import environment as shell
from seller_platform_tests.support.raw_server import Answer, Fault, RawServer, Request, serving
from seller_platform_tests.support.tls_proxy import tls_proxy, write_certificate

_ACCOUNT = Account(1, "Büro", "DE", "EUR", "Europe/Berlin", "DE", "S1")
_TOKENS = {"access_token": "access", "refresh_token": "refresh", "token_type": "Bearer", "expires_in": 1_000_000}
_DOCUMENTS: Mapping[str, object] = {
    "/api/user/me": {"user": {"id": 7, "name": "Ana"}},
    "/api/user/accounts": {
        "accounts": [
            {
                **{"id": 1, "account_title": "Büro", "country_code": "DE", "currency_code": "EUR"},
                **{"timezone": "Europe/Berlin", "marketplace": "DE", "seller_id": "S1"},
            }
        ]
    },
    "/api/oauth/token": _TOKENS,
}
_STORED = {
    # The moment is sent as the last half hour of the local day.
    Command.SYNC: """
        SELECT CASE posted_date WHEN (local_day + time '23:30') AT TIME ZONE 'Europe/Berlin' THEN sku END,
               description, quantity, amount::text
        FROM seller.transactions""",
    Command.LOAD: "SELECT sku, product_name, units_ordered, product_sales::text FROM seller.report_rows",
}
_FOREIGN = re.compile("SELLER_|DAGSTER_|PG|.*_PROXY", re.IGNORECASE)
_HARMLESS = [name for name, environment in ENVIRONMENTS.items() if environment.ending is None]
_FRAMINGS = [name for name, each in TRANSPORTS.items() if each.ending is None and each.commands == (*Command,)]


class Cell(NamedTuple):
    """The names of a transport, a body and an environment."""

    transport: str
    body: str
    environment: str

    @property
    def parts(self) -> tuple[Transport, Body, Environment]:
        return TRANSPORTS[self.transport], BODIES[self.body], ENVIRONMENTS[self.environment]


def cells() -> Iterator[Cell]:
    """Yield the matrix: each pair of values of two axes is in a cell, and what refuses everything with each body."""
    for column, (name, body) in enumerate(BODIES.items()):
        for row, (transport, sending) in enumerate(TRANSPORTS.items()):
            if body.command in sending.commands:
                yield Cell(transport, name, _HARMLESS[(row + column) % len(_HARMLESS)])
        for row, environment in enumerate(sorted(ENVIRONMENTS.keys() - _HARMLESS)):
            yield Cell(_FRAMINGS[(row + column) % len(_FRAMINGS)], name, environment)


def chosen(number: int) -> list[Cell]:
    """Return so many cells that together have each value of each axis; always the same ones."""
    left, picked = list(cells()), list[Cell]()
    Random(1).shuffle(left)
    missing = {value for cell in left for value in enumerate(cell)}
    while left and len(picked) < number:
        picked.append(max(left, key=lambda cell: len(missing.intersection(enumerate(cell)))))
        left.remove(picked[-1])
        missing.difference_update(enumerate(picked[-1]))
    return picked


@dataclass
class World:
    """An upstream, and databases, between which cells are played one after another.

    Attributes:
        places: URLs and files that variables name.
        naps: The pauses of the running cell's retries in seconds. None of them is waited for.
    """

    databases: Databases
    folder: Path
    places: dict[str, str] = field(default_factory=dict)
    naps: list[float] = field(default_factory=list)
    cell: Cell = next(cells())  # noqa: RUF009  # the first is as good as any

    def answer(self, request: Request) -> Answer:
        if request.path in _DOCUMENTS:
            return Answer.of(_DOCUMENTS[request.path])
        _, body, _ = self.cell.parts
        if not request.query.get("start_date", DAY) <= DAY <= request.query.get("end_date", DAY):
            return Answer(200, body.other_days, {"Content-Type": body.content_type})
        number = min(int(request.query.get("page", "1")), len(body.pages))
        return Answer(200, body.pages[number - 1], {"Content-Type": body.content_type})

    def plan(self, request: Request) -> Fault | None:
        transport, *_ = self.cell.parts
        return transport.fault if request.path not in _DOCUMENTS and request.number <= transport.answers else None

    def play(self, cell: Cell, server: RawServer) -> str:
        """Run the command of a cell, and return what is wrong with its end; nothing where all is right."""
        self.cell = cell
        self.naps.clear()
        server.seen.clear()
        transport, body, environment = cell.parts
        ending, expected = environment.ending or transport.ending or body.ending, body.rows
        if ending is not body.ending:
            expected = ()
        file = self.folder / "file"
        file.unlink(missing_ok=True)
        with self._database(environment) as (url, login_url):
            is_usable, rows = environment.encoding == "UTF8", Counter[Row]()
            number = self._connect(url, environment) if is_usable else 1
            code, said = self._run(_words(body.command, number, file), environment, login_url)
            if file.exists():
                content = file.read_bytes()
                rows.update(body.rows if content == body.pages[0] else [(content,)])
            elif is_usable and body.command in _STORED:
                with psycopg.connect(url, client_encoding="UTF8") as connection:
                    rows.update(connection.execute(_STORED[body.command]).fetchall())
        problems: dict[str, Sequence[object]] = {
            "rows that are missing": [*(Counter(expected) - rows).elements()],
            "rows that were not sent": [*(rows - Counter(expected)).elements()],
            f"exit code, not {ending.code}": [code] if code != ending.code else [],
            "words that are missing": [word for word in ending.words if word.casefold() not in said.casefold()],
            f"pauses, all below {transport.pause_seconds} s": self.naps
            if max(self.naps, default=0) < transport.pause_seconds and not environment.ending
            else [],
        }
        wrong = "; ".join(f"{what}: {values}" for what, values in problems.items() if values)
        return f"{' / '.join(cell)}: {wrong}; it said: {said}" if wrong else ""

    @contextmanager
    def _database(self, environment: Environment) -> Iterator[tuple[str, str]]:
        """Lend a database, and yield its URL and that of the environment's login."""
        server = self.databases.server
        with psycopg.connect(server.url("postgres"), autocommit=True) as owner, ExitStack() as stack:

            def execute(statement: str, *values: object) -> None:
                owner.execute(sql.SQL(statement).format(*values))

            if environment.encoding == "UTF8":
                name = stack.enter_context(self.databases.lent()).engine.url.database or ""
            else:
                name = f"world_{environment.encoding}".lower()
                execute(
                    "CREATE DATABASE {} ENCODING {} LOCALE 'C' TEMPLATE template0",
                    sql.Identifier(name),
                    environment.encoding,
                )
                stack.callback(drop_database, server, name)
            execute("DROP ROLE IF EXISTS world")
            execute("CREATE ROLE world LOGIN SUPERUSER")
            stack.callback(execute, "ALTER DATABASE {} RESET ALL", sql.Identifier(name))
            for setting, value in environment.role.items():
                execute("ALTER ROLE world SET {} TO {}", sql.Identifier(setting), value)
            for setting, value in environment.database.items():
                execute("ALTER DATABASE {} SET {} TO {}", sql.Identifier(name), sql.Identifier(setting), value)
            url = server.url(name)
            yield url, url.replace(f"{SUPERUSER}@", "world@", 1)

    def _connect(self, url: str, environment: Environment) -> int:
        """Store the connection, its account and a report that is ready, and return the number of the report."""
        base_url = environment.base_url.format(**self.places)
        Site(url, self.folder, Upstream(base_url, base_url, "id", "secret", "http://127.0.0.1:1/cb")).connect(_TOKENS)
        now, key, hour = datetime.now(UTC), _ACCOUNT.key, timedelta(hours=1)
        with Database(url) as database:
            save_accounts(database, "default", [(key, _ACCOUNT)])
            report = {"selector": "dps_date", "value": "2026-03-01", "format": "csv", "give_up_after": hour}
            job = open_job(database, key, report, now=now, next_poll_at=now)
            assert job is not None
            move_job(database, job, msgspec.structs.replace(job, state=JobState.READY, report_id="7"))
            return job.id

    def _run(self, words: list[str], environment: Environment, url: str) -> tuple[int, str]:
        """Run a command in this process, and return its exit code and what it says."""
        said, own = StringIO(), {"SELLER_API_CLIENT_ID": "id", "SELLER_API_CLIENT_SECRET": "secret"}
        own |= {name: text.format(**self.places) for name, text in environment.variables.items()}
        with (
            patch.dict(os.environ),  # the command itself adds to it
            pytest.MonkeyPatch.context() as changed,
            redirect_stdout(said),
            redirect_stderr(said),
        ):
            for name in [name for name in os.environ if _FOREIGN.match(name)]:
                changed.delenv(name)
            for name, value in shell(self.folder, SELLER_PLATFORM_DATABASE_URL=url, **own).items():
                changed.setenv(name, value)
            changed.setattr(sys, "argv", ["seller-platform", *words])
            changed.setattr("tenacity.nap.time", SimpleNamespace(sleep=self.naps.append))  # other threads really sleep
            try:
                run(COMMAND_LINE)
            except SystemExit as end:
                return int(end.code or 0), " ".join(said.getvalue().split())
            except Exception as error:  # a person sees a traceback
                return 1, f"Traceback: {error!r}"
            raise AssertionError("a command ends with its exit code")


def _words(command: Command, report: int, file: Path) -> list[str]:
    if command is Command.SYNC:
        return ["sync", "--dataset", "transactions", "--from", "2026-03", "--to", "2026-03"]
    return ["report", "load"] if command is Command.LOAD else ["report", "download", str(report), "--output", str(file)]


@contextmanager
def open_world(databases: Databases, folder: Path) -> Iterator[Callable[[Cell], str]]:
    """Serve the upstream until the block ends, and yield what plays a cell."""
    (folder / "other").mkdir()
    certificates = {
        "": write_certificate(folder, days=1),
        "_of_another": write_certificate(folder / "other", days=1, host="world.example"),
    }
    world = World(databases, folder)
    with serving(world.answer, world.plan) as server, ExitStack() as stack:
        address = urlsplit(server.url)
        world.places |= {"http": f"{server.url}/api", "proxy": server.url, "host": address.netloc}
        for name, file in certificates.items():
            port, targets = stack.enter_context(tls_proxy(file))
            targets.append(address.port or 0)
            world.places |= {f"https{name}": f"https://localhost:{port}/api", f"authority{name}": str(file)}
        yield lambda cell: world.play(cell, server)
