"""Tests of loads in loading processes: their results, their deaths, their end."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from multiprocessing import forkserver
from pathlib import Path

import pytest

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Window, dataset_named
from seller_platform.errors import RequestRefusedError, UnknownAccountError
from seller_platform.ingest.loads.loading import SliceLoader, load_each
from seller_platform.ingest.loads.processes import FEWEST_ROWS, LoadingProcesses, processes_for
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform_tests.support.broken_connection import BERLIN, Broken
from seller_platform_tests.support.independent_upstream import CLIENT_SECRET, MONTHS, open_independent_upstream
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.stored_rows import count_rows

pytestmark = pytest.mark.slow

NOW = datetime(2026, 4, 20, tzinfo=UTC)


class Connected(Broken):
    """An upstream, and a warehouse that is connected to it."""

    @property
    def settings(self) -> Settings:
        named = {"SELLER_PLATFORM_HOME": self.home, "SELLER_API_CLIENT_SECRET": CLIENT_SECRET}
        return Settings.model_validate(named)

    @contextmanager
    def processes(self) -> Iterator[LoadingProcesses]:
        """Run loading processes until the block ends."""
        with processes_for(FEWEST_ROWS, self.settings, self.database.url) as processes:
            assert processes is not None
            yield processes

    @contextmanager
    def loader(self) -> Iterator[SliceLoader]:
        """Load in this process until the block ends."""
        with self.api() as api:
            yield SliceLoader(self.database, lambda _: api, NOW, "run")

    def rows(self, name: str) -> int:
        return count_rows(self.database, f"seller.{name}")


@pytest.fixture(scope="module")
def connected(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connected]:
    home = tmp_path_factory.mktemp("home")
    with open_independent_upstream("http://127.0.0.1:9/back") as upstream, databases.lent() as database:
        connected = Connected(upstream, database, home)
        connected.site.connect(upstream.issue())
        save_accounts(database, "default", [(BERLIN.key, BERLIN.account)])
        yield connected


def never(_: str) -> SellerApi:
    raise AssertionError("this process loads nothing")


def request_of(name: str, month: date, account: str = BERLIN.key) -> SliceRequest:
    return SliceRequest(dataset_named(name), account, Window.month_of(month))


def pids() -> list[int]:
    return [each.pid for each in multiprocessing.active_children() if each.pid]


def test_slices_are_loaded_in_processes_with_one_receipt_each(connected: Connected) -> None:
    requests = [request_of(name, month) for name in ("orders", "transactions") for month in MONTHS]
    loader = SliceLoader(connected.database, never, NOW, "run")

    with connected.processes() as processes:
        results = list(load_each(requests, loader, elsewhere=processes.load))
        later = processes.load(request_of("orders", date(2026, 6, 1)), loader)
        running = pids()
        shown = [(Path(f"/proc/{pid}") / name).read_bytes() for pid in running for name in ("cmdline", "environ")]
    with connected.loader() as own:
        again = own.load(requests[0])

    receipts = [result.receipt for result in results if result.receipt]
    assert [receipt.rows for receipt in receipts] == [10, 703, 10, 3, 3, 3]
    assert (connected.rows("orders"), connected.rows("transactions")) == (723, 9)
    assert [(each.dataset, each.run_id) for each in receipts] == [(each.dataset.name, "run") for each in requests]
    assert again is not None
    assert (again.digest, again.changed, again.sums) == (receipts[0].digest, False, receipts[0].sums)
    assert later is None
    assert not any(CLIENT_SECRET.encode() in each for each in shown)
    assert len(running) >= 2
    assert not [pid for pid in running if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize(("rows", "is_refused"), [(FEWEST_ROWS - 1, False), (FEWEST_ROWS, True)])
def test_few_rows_and_a_system_that_starts_no_process_are_loaded_here(
    connected: Connected, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, rows: int, is_refused: bool
) -> None:
    def refuse() -> None:
        raise OSError("no process can be started")

    monkeypatch.setattr(forkserver, "ensure_running", refuse)

    with processes_for(rows, connected.settings, connected.database.url) as processes:
        assert processes is None

    assert ("no loading process was started, so this process loads alone" in caplog.text) is is_refused


def test_errors_of_processes_come_back(connected: Connected) -> None:
    loader = SliceLoader(connected.database, never, NOW)
    with connected.processes() as processes:
        connected.upstream.missing = ("/sales/transactions",)
        try:
            with pytest.raises(RequestRefusedError, match="404") as refused:
                processes.load(request_of("transactions", MONTHS[0]), loader)
        finally:
            connected.upstream.missing = ()
        with pytest.raises(UnknownAccountError, match="there is no account 'xx-9") as unknown:
            processes.load(request_of("orders", MONTHS[0], account="xx-9"), loader)

    assert refused.value.status == 404
    assert (unknown.value.key, unknown.value.exit_code) == ("xx-9", 2)


def test_without_the_processes_this_one_loads(connected: Connected, caplog: pytest.LogCaptureFixture) -> None:
    requests = [request_of("orders", month) for month in MONTHS]

    with connected.loader() as loader, connected.processes() as processes:
        processes.load(requests[0], loader)
        results = []
        for number, result in enumerate(load_each(requests * 2, loader, elsewhere=processes.load)):
            for pid in pids() if number == 0 else ():
                os.kill(pid, signal.SIGKILL)
            results.append(result.receipt)

    assert [receipt.rows for receipt in results if receipt] == [10, 703, 10] * 2
    assert connected.rows("orders") == 723
    assert "a loading process has died, so it is loaded again" in caplog.text
