"""Fixtures of all tests: a database for each test, cloned from a migrated template."""

import fcntl
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from importlib import import_module
from itertools import chain
from multiprocessing.forkserver import _forkserver
from multiprocessing.resource_tracker import _resource_tracker
from pathlib import Path
from typing import Any

import certifi
import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from seller_platform.capabilities import NAMES, capabilities
from seller_platform.commands import use_start
from seller_platform.settings import settings_class
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import DAGSTER_TEMPLATE, TEMPLATE, Databases, copied, end_connections
from seller_platform_tests.support.watchdog import Watchdog, folder_of_the_run

_WATCHDOG = pytest.StashKey[Watchdog]()


def pytest_configure(config: pytest.Config) -> None:
    """Configure signals, the watchdog, hypothesis and the certificates of HTTP clients.

    HTTP clients trust a single authority: no test uses TLS, and loading all authorities takes 20 ms each time.
    Hypothesis accepts any duration, because the machine may be busy. SIGTERM interrupts the run as Ctrl-C does, also
    where a shell started it in the background, with SIGINT ignored.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # the workers of pytest-xdist belong to a run that has its watchdog
        config.stash[_WATCHDOG] = Watchdog()
        # Not below pytest's own folder, which each start of another pytest closes to the server's user again.
        config.option.basetemp = config.option.basetemp or folder_of_the_run() / "temporary"
    # The shell of the tests has no settings and no home of Dagster.
    for name in ("DAGSTER_HOME", *(str(field.alias) for field in settings_class().model_fields.values())):
        os.environ.pop(name, None)
    # Implausible readings are read a second time without a pause.
    os.environ["SELLER_PLATFORM_SECOND_READING_SECONDS"] = "0"
    # Root's servers keep their data outside of homes; that of the tests is deleted with the folder of the run.
    os.environ["SELLER_PLATFORM_ROOT_DATA_FOLDER"] = str(folder_of_the_run() / "servers")
    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")
    authorities = folder_of_the_run() / f"authority-{os.getpid()}.pem"
    first, end, _ = certifi.contents().partition("-----END CERTIFICATE-----")
    authorities.write_text(f"{first}{end}\n")
    os.environ["SSL_CERT_FILE"] = str(authorities)


def pytest_runtest_setup() -> None:
    """Let messages name plain commands, whatever home a test before has used in this process."""
    use_start(folder_of_the_run())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """End the processes that are left after all fixtures and workers have ended."""
    try:
        yield
    finally:
        if not hasattr(session.config, "workerinput"):
            gc.unfreeze()  # otherwise some libraries print at exit that objects were not deleted
        # Python leaves both to the end of the process, for which the watchdog does not wait.
        _forkserver._stop()  # type: ignore[attr-defined]
        _resource_tracker._stop()  # type: ignore[attr-defined]
        if watchdog := session.config.stash.get(_WATCHDOG, None):
            watchdog.end(keeps_folder=session.testsfailed > 0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect the tests without the garbage collector, which otherwise takes a third of the CPU time here."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_finish() -> None:
    """Start the server of forked commands where a module uses it."""
    if server := sys.modules.get("seller_platform_tests.support.fork_server"):
        server.begin_server()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark journeys, browser tests and nightly tests as slow, and sort the modules: the longest come first.

    pytest-xdist gives each process the next module as soon as it has nearly ended one. So no fixture of a module is set
    up in two processes, and short modules are left for the end. A process alone keeps the order that was asked for.
    """
    present = {each.name for each in capabilities()}
    for item in items:
        if absent := {name for marker in item.iter_markers("needs") for name in marker.args} - present:
            item.add_marker(pytest.mark.skip(reason=f"absent: {', '.join(sorted(absent))}"))
        if any(item.get_closest_marker(name) for name in ("journey", "browser", "nightly")):
            item.add_marker("slow")
    yield  # deselects tests
    if not hasattr(config, "workerinput"):
        return
    modules: dict[Path, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    longest_first = sorted(modules.values(), key=_effort, reverse=True)
    items[:] = chain.from_iterable(longest_first)


def _lacks_a_capability(error: BaseException | None) -> bool:
    """Return whether an import failed because the folder of a capability is absent, and for no other reason."""
    absent = {*NAMES} - {each.name for each in capabilities()}
    folders = {f"{package}.{name}" for package in ("seller_platform", "seller_platform_tests") for name in absent}
    return isinstance(error, ModuleNotFoundError) and error.name in folders


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out folders whose fixtures need a capability that is absent."""
    folder = collection_path.relative_to(Path(__file__).parents[1])
    if len(capabilities()) < len(NAMES) and (collection_path / "conftest.py").is_file():
        try:
            import_module(".".join((*folder.parts, "conftest")))
        except ModuleNotFoundError as error:
            return _lacks_a_capability(error) or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip modules that need a capability whose folder is absent."""
    report = yield
    if report.failed and report.call.excinfo and _lacks_a_capability(report.call.excinfo.value.__cause__):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, "a capability is absent")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Skip tests that need one, too."""
    report = yield
    if call.excinfo and _lacks_a_capability(call.excinfo.value):
        report.outcome, report.longrepr = "skipped", (report.location[0], 0, "a capability is absent")
    return report


def _effort(tests: list[pytest.Item]) -> tuple[float, ...]:
    """Return what sorts modules by the time they take: the longest timeout, then counts of tests by their markers."""
    timeouts = (marker.args[0] for test in tests if (marker := test.get_closest_marker("timeout")))
    counts = (sum(test.get_closest_marker(name) is not None for test in tests) for name in ("journey", "slow"))
    return (max(timeouts, default=0), *counts, len(tests))


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedServer]:
    """The embedded server of this test process, with a copy of the files that the first process has made."""
    made = folder_of_the_run() / "postgres"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _make_server(made)
    with temporary_folder(folder_of_the_run()) as folder:
        (folder / "postgres").mkdir(0o711)
        subprocess.run(["cp", "-a", made / "data", folder / "postgres"], check=True)
        server = EmbeddedServer(folder / "postgres")
        yield server
        server.close()


def _make_server(folder: Path) -> None:
    server = EmbeddedServer(folder)
    # No test needs its rows after a crash of the machine, and waiting for the disk takes most of a write's time.
    # Databases that are emptied all the time need no vacuum, and plans do not depend on its moment.
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        for name in ("autovacuum", "fsync", "full_page_writes"):
            connection.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(name)))
        connection.execute("SELECT pg_reload_conf()")
    with Database(server.database(TEMPLATE)) as template:
        migrate(template, partitions=2)
    server.close()


@pytest.fixture(scope="session")
def company(postgres: EmbeddedServer) -> Iterator[Database]:
    """The demo's company, of which agents ask; tests must not change its rows."""
    # Imported here because few tests need it.
    from seller_platform_tests.support.demo_company import load_demo_company

    with Database(copied(postgres, "demo_company")) as database:
        load_demo_company(database)
        yield database


@pytest.fixture(scope="session")
def databases(postgres: EmbeddedServer) -> Iterator[Databases]:
    """Lends databases of that server."""
    with closing(Databases(postgres)) as databases:
        yield databases


@pytest.fixture(scope="session")
def dagster_databases(postgres: EmbeddedServer) -> Iterator[Databases]:
    """Lends databases that have Dagster's tables, too."""
    # Imported here because Dagster takes a second to import, which most tests do not need.
    from seller_platform_tests.support.dagster_instance import postgres_instance

    url = copied(postgres, DAGSTER_TEMPLATE)
    with temporary_folder(folder_of_the_run()) as folder, postgres_instance(url, folder):
        pass
    end_connections(postgres, DAGSTER_TEMPLATE)
    with closing(Databases(postgres, DAGSTER_TEMPLATE)) as databases:
        yield databases


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty, migrated database that only this test uses."""
    has_dagster = request.node.get_closest_marker("dagster_tables") is not None
    databases: Databases = request.getfixturevalue("dagster_databases" if has_dagster else "databases")
    with databases.lent() as database:
        yield database


@pytest.fixture
def database_url(database: Database) -> str:
    """The URL of this database."""
    return database.url


@pytest.fixture
def open_to_the_server(tmp_path: Path) -> None:
    """Let root's server, which runs as another user, reach the test's folder, which pytest closes."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder == folder_of_the_run():
            break
        folder.chmod(0o755)
