"""Tests of loads that begin before a run asks for them."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from seller_platform.contract import dataset_named
from seller_platform.errors import RequestRefusedError
from seller_platform.ingest.loads.requested_slices import LoadRequest
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.ingest.workers.begun_loads import first_tasks
from seller_platform.ingest.workers.pool import LoadingProcesses
from seller_platform.ingest.workers.tasks import LoadTask
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform.warehouse.loads.receipts import BEGUN
from seller_platform_tests.ingest.workers.connected import NO_OWN, NOW, Connected, load_in, task_of
from seller_platform_tests.support.broken_connection import BERLIN
from seller_platform_tests.support.independent_upstream import MONTHS
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.slow


@contextmanager
def _begun(connected: Connected, *tasks: LoadTask) -> Iterator[LoadingProcesses]:
    """Run loading processes that have begun tasks, until the block ends."""
    with connected.processes() as processes:
        processes.begin([replace(task, run_id=BEGUN) for task in tasks], connected.database)
        yield processes


def _receipts(connected: Connected, name: str) -> list[tuple[int, str | None]]:
    """Return the number and the run of each receipt of a dataset, in order."""
    with psycopg.connect(connected.database.url) as connection:
        query = "SELECT id, run_id FROM platform.loads WHERE dataset = %s ORDER BY id"
        return [(int(load), run) for load, run in connection.execute(query, [name])]


def test_a_run_takes_over_the_load_that_was_begun(connected: Connected) -> None:
    task, before = task_of("transactions", MONTHS[0]), len(_receipts(connected, "transactions"))

    with _begun(connected, task) as processes:
        wait_for(lambda: len(_receipts(connected, "transactions")) > before)
        load, run_before = _receipts(connected, "transactions")[-1]
        receipt = load_in(processes, task)
        again = load_in(processes, task)

    assert run_before == BEGUN
    assert receipt is not None
    assert (receipt.id, receipt.run_id, receipt.rows) == (load, "run", 3)
    assert again is not None
    assert _receipts(connected, "transactions")[before:] == [(load, "run"), (again.id, "run")]


def test_the_error_of_a_begun_load_is_raised_for_the_run(connected: Connected) -> None:
    task = task_of("transactions", MONTHS[0])
    connected.upstream.missing = ("/sales/transactions",)
    try:
        with _begun(connected, task) as processes, pytest.raises(RequestRefusedError, match="404"):
            load_in(processes, task)
    finally:
        connected.upstream.missing = ()


def test_waits_of_a_begun_load_reach_the_run(connected: Connected) -> None:
    task = task_of("transactions", MONTHS[0])
    waits: list[tuple[SliceRequest, str]] = []

    with _begun(connected, task) as processes, ThreadPoolExecutor(1) as threads:
        with connected.upstream.silent():
            wait_for(lambda: connected.upstream.waiting > 0)
            load = threads.submit(processes.load, task, lambda *wait: waits.append(wait), NO_OWN)
            wait_for(lambda: waits)
        assert load.result(PATIENCE_SECONDS) is not None

    assert waits[0][0] == task.request
    assert waits[0][1].startswith("GET /sales/transactions: no complete answer in 5 s")


def test_a_slice_is_loaded_again_if_its_account_or_day_changed(connected: Connected) -> None:
    task = task_of("transactions", MONTHS[0])
    tomorrow = replace(task, now=NOW + timedelta(days=1))
    before = len(_receipts(connected, "transactions"))
    moved = replace(BERLIN.account, timezone="Europe/Madrid")

    with _begun(connected, task) as processes:
        of_tomorrow = load_in(processes, tomorrow)
    with _begun(connected, task) as processes:
        save_accounts(connected.database, "default", [(BERLIN.key, moved)])
        try:
            of_madrid = load_in(processes, task)
        finally:
            save_accounts(connected.database, "default", [(BERLIN.key, BERLIN.account)])

    assert of_tomorrow is not None
    assert of_madrid is not None
    loads = _receipts(connected, "transactions")[before:]
    assert [run for _, run in loads] == [BEGUN, "run", BEGUN, "run"]
    assert [load for load, run in loads if run != BEGUN] == [of_tomorrow.id, of_madrid.id]


def test_an_error_of_a_changed_account_is_not_of_the_run(connected: Connected) -> None:
    task = task_of("transactions", MONTHS[0])
    without_zone = replace(BERLIN.account, timezone="Nowhere")
    save_accounts(connected.database, "default", [(BERLIN.key, without_zone)])

    with _begun(connected, task) as processes:
        begun = processes._begun
        assert begun is not None
        wait_for(lambda: all(each.future.done() for each in begun._loads.values()))
        save_accounts(connected.database, "default", [(BERLIN.key, BERLIN.account)])
        receipt = load_in(processes, task)

    assert receipt is not None
    assert receipt.rows == 3


def test_the_begun_load_of_a_dead_process_is_loaded_again(
    connected: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = [task_of("orders", month) for month in MONTHS]

    with connected.own_loader() as own, ThreadPoolExecutor(4) as threads:
        with connected.upstream.silent(), _begun(connected, *tasks) as processes:
            wait_for(lambda: connected.upstream.waiting >= len(MONTHS))
            loads = [threads.submit(load_in, processes, task, own) for task in tasks]
            for program in processes._programs:
                os.killpg(program.pid, signal.SIGKILL)
            wait_for(lambda: "its loading process has died" in caplog.text)
        rows = [receipt.rows for load in loads if (receipt := load.result(PATIENCE_SECONDS))]

    assert rows == [10, 703, 10]


def test_no_load_begins_after_the_end(connected: Connected) -> None:
    tasks = [task_of(name, month) for name in ("orders", "transactions") for month in MONTHS]
    before = [len(_receipts(connected, name)) for name in ("orders", "transactions")]

    with connected.upstream.silent(), _begun(connected, *tasks):
        wait_for(lambda: connected.upstream.waiting >= 4)

    assert [len(_receipts(connected, name)) for name in ("orders", "transactions")] == before


def test_the_newest_months_of_dated_lists_are_begun_first(connected: Connected) -> None:
    months = [task_of("orders", month).request.month for month in MONTHS]
    datasets = [dataset_named(name) for name in ("transactions", "inventory", "orders")]
    request = LoadRequest(datasets, [BERLIN.key], MONTHS[0], [month for month in months if month])

    tasks = first_tasks(connected.database, request, now=NOW, adaptive=False)

    newest_first = sorted(MONTHS, reverse=True)
    assert [(each.request.dataset.name, each.request.month and each.request.month.start) for each in tasks] == [
        (name, month) for name in ("orders", "transactions") for month in newest_first
    ]
    assert {(each.whole, each.run_id) for each in tasks} == {(True, BEGUN)}
    assert all(each.lookback_days == each.request.dataset.lookback_days for each in tasks)
