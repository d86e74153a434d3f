"""An upgrade changes nothing that is stored, and programs of this version go on meanwhile and afterwards."""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import text

import seller_platform
from seller_platform.cli.installation import open_installation
from seller_platform.cli.output import Output
from seller_platform.cli.processes import running
from seller_platform.cli.sandbox.demo import connect_local_stack
from seller_platform.cli.sandbox.dev import dagster_commands
from seller_platform.cli.sandbox.local_stack import open_local_stack
from seller_platform.orchestration.instance.home import dagster_home, open_instance
from seller_platform.orchestration.partitions import add_accounts
from seller_platform.settings import read_settings
from seller_platform.warehouse.migrations.upgrade import upgrade
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.postgres.location import SANDBOX, WAREHOUSE, embedded_server
from seller_platform_tests.next_versions import NEWEST, migrations
from seller_platform_tests.support.contents import contents_of
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import drop_database, end_connections
from seller_platform_tests.support.processes import document, environment, run

pytestmark = pytest.mark.journey

# A few products of the newest days get another name: a load then replaces rows.
_RENAME = """
UPDATE seller.orders SET product_name = left(product_name, 20) || :number
WHERE ctid = ANY (ARRAY(SELECT ctid FROM seller.orders ORDER BY local_day DESC, platform_order_id LIMIT 30))
"""
_MIXED = """
SELECT slice.account, slice.month, slice.rows, count(stored.account)
FROM platform.slices AS slice
LEFT JOIN seller.orders AS stored
    ON stored.account = slice.account AND stored.local_day >= slice.month
       AND stored.local_day < slice.month + interval '1 month'
WHERE slice.dataset = 'orders'
GROUP BY slice.account, slice.month, slice.rows HAVING slice.rows <> count(stored.account)
"""
_AS_OF = """
SELECT count(*), sum(hashtextextended(ROW(platform_order_id, product_name, order_total, account)::text, 0)::numeric)
FROM history.orders_as_of(%s)
"""


@dataclass(frozen=True)
class Year:
    """A sandbox that is served, and a warehouse that was loaded from it twice.

    Attributes:
        seconds: How long programs are watched after an upgrade; 0: until each has worked twice.
    """

    home: Path
    variables: dict[str, str]
    warehouse_url: str
    sandbox_url: str
    seconds: float


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((2, 0.0), id="2 months"),
        pytest.param((12, 600.0), id="a year", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
def year(request: pytest.FixtureRequest) -> Iterator[Year]:
    """Loads of several accounts, and one more of days that had changed."""
    months, seconds = request.param
    output = Output(as_json=True)
    with (
        temporary_folder() as home,
        open_local_stack(home, output, months=months) as stack,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in stack.environment.items():
            patch.setenv(name, value)
        with open_installation() as installation:
            connect_local_stack(installation, stack, output)
        variables = environment(stack.home, **stack.environment)
        server = embedded_server(stack.home, read_settings().root_data_folder)
        document(run(["sync", "--full", "--json"], variables))
        with Database(server.url(SANDBOX)) as sandbox, sandbox.begin() as connection:
            connection.execute(text(_RENAME), {"number": " again"})
        document(run(["sync", "--dataset", "orders", "--json"], variables))
        yield Year(stack.home, variables, server.url(WAREHOUSE), server.url(SANDBOX), seconds)


def test_an_upgrade_keeps_every_row_moment_receipt_and_grant(year: Year) -> None:
    server = embedded_server(year.home, read_settings().root_data_folder)
    end_connections(server, WAREHOUSE)
    with Database(server.database("upgraded", template=WAREHOUSE)) as database:
        before = contents_of(database)

        upgrade(database, migrations=migrations())

        assert contents_of(database, before) == before
    drop_database(server, "upgraded")
    assert before.hashes["platform.grants"][0] == 1
    assert before.hashes["history.orders"][0] > 10
    assert before.hashes["seller.orders"][0] > 1_000


@dataclass
class Programs:
    """Programs that work again and again in threads, and what went wrong."""

    work: dict[str, Callable[[], None]]
    rounds: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Programs":
        self._threads = [threading.Thread(target=self._repeat, args=[name]) for name in self.work]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def await_rounds(self, count: int) -> None:
        """Wait until each program has worked so often from now on, or one of them failed."""
        began = self.rounds.copy()
        while not self.errors and any(self.rounds[name] < began[name] + count for name in self.work):
            time.sleep(0.05)

    def _repeat(self, name: str) -> None:
        while not self._ended.is_set():
            try:
                self.work[name]()
            except Exception as error:  # each is counted
                self.errors.append(f"{name}: {type(error).__name__}: {error}")
            self.rounds[name] += 1


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_programs_go_on_during_and_after_an_upgrade(year: Year) -> None:
    """The loader starts again and again, the service and the readers keep their connections."""
    with Database(year.warehouse_url) as warehouse, Database(year.sandbox_url) as sandbox:
        with warehouse.begin() as connection:
            moment: datetime = connection.execute(text("SELECT max(finished_at) FROM platform.loads")).scalar_one()
            former = driver_of(connection).execute(_AS_OF, [moment]).fetchone()
        with (
            _dagster(year) if year.seconds else nullcontext(),
            Programs(_programs(year, warehouse, sandbox, moment, former)) as programs,
        ):
            programs.await_rounds(1)
            for number in range(1, NEWEST + 1):
                for url in (year.sandbox_url, year.warehouse_url):
                    module = "seller_platform_tests.next_versions"
                    command = [sys.executable, "-m", module, str(number), "--database", url]
                    done = subprocess.run(command, env=year.variables, capture_output=True, text=True, check=False)
                    assert done.returncode == 0, done.stdout + done.stderr
                programs.await_rounds(1)
            ending = time.monotonic() + year.seconds
            while time.monotonic() < ending and not programs.errors:
                time.sleep(1)
            programs.await_rounds(1)
        assert programs.errors == []


@contextmanager
def _dagster(year: Year) -> Iterator[None]:
    """Run Dagster's daemon and code location until the block ends; then neither has ended or logged an error."""
    commands = dagster_commands(year.home, "http://127.0.0.1:1")
    with open_instance(year.home) as instance, Database(year.warehouse_url) as warehouse, ExitStack() as stack:
        with warehouse.begin() as connection:
            add_accounts(instance, connection.execute(text("SELECT key FROM platform.accounts")).scalars().all())
        variables = {"DAGSTER_HOME": str(dagster_home(year.home))}
        logs = {name: year.home / f"{name}.log" for name in ("code-location", "daemon")}
        programs = [stack.enter_context(running(name, commands[name], variables, log)) for name, log in logs.items()]
        yield
        assert [program.name for program in programs if program.has_ended] == []
        for log in logs.values():
            assert "Traceback" not in log.read_text(), log.read_text()
        assert instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])) == []


def _programs(
    year: Year, warehouse: Database, sandbox: Database, moment: datetime, former: object
) -> dict[str, Callable[[], None]]:
    numbers = iter(range(1_000_000))
    with warehouse.begin() as connection:
        account = connection.execute(text("SELECT min(key) FROM platform.accounts")).scalar_one()

    def load() -> None:
        with sandbox.begin() as connection:
            connection.execute(text(_RENAME), {"number": f" {next(numbers)}"})
        document(run(["sync", "--dataset", "orders", "--dataset", "transactions", "--json"], year.variables))

    def read_mixed() -> None:
        with warehouse.begin() as connection:
            assert connection.execute(text(_MIXED)).all() == []

    def read_as_of() -> None:
        with warehouse.begin() as connection:
            assert driver_of(connection).execute(_AS_OF, [moment], prepare=True).fetchone() == former

    def read_frame() -> None:
        table = seller_platform.read("orders", account=account, as_="arrow", database_url=year.warehouse_url)
        assert "total_cents" not in table.column_names

    def ask() -> None:
        for words in (["status"], ["query", "SELECT count(*) FROM platform.problems", "--json"], ["marts", "build"]):
            # Of the home folder, whose server has a reader of its own.
            result = run(
                words, {name: text for name, text in year.variables.items() if not name.endswith("DATABASE_URL")}
            )
            assert result.returncode == 0, result

    return {
        "loader": load,
        "reader of slices": read_mixed,
        "reader of a moment": read_as_of,
        "reader of a frame": read_frame,
        "commands": ask,
    }
