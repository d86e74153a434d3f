"""Tests of loads in loading processes: their results, their deaths, their end."""

import json
import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest

from seller_platform.contract import dataset_named
from seller_platform.errors import RequestRefusedError, UnknownAccountError
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.ingest.workers.pool import LoadingProcesses
from seller_platform.ingest.workers.tasks import LoadTask
from seller_platform.logs import JsonLines
from seller_platform.settings import Settings
from seller_platform_tests.ingest.workers.connected import NO_OWN, NOW, Connected, load_in, never, task_of
from seller_platform_tests.support.broken_connection import BERLIN
from seller_platform_tests.support.collector import collector
from seller_platform_tests.support.independent_upstream import (
    CLIENT_SECRET,
    MONTHS,
)
from seller_platform_tests.support.installation import begin
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.slow


def _pids(processes: LoadingProcesses) -> list[int]:
    """Return the loading processes, without asking them."""
    leaders = {program.pid for program in processes._programs}
    return sorted(leaders | {pid for pid, parent in _parents().items() if parent in leaders})


def test_slices_are_loaded_whatever_the_process_with_one_receipt_each(
    connected: Connected, processes: LoadingProcesses
) -> None:
    tasks = [task_of(name, month) for name in ("orders", "transactions") for month in MONTHS]

    with ThreadPoolExecutor(4) as threads:
        receipts = list(threads.map(lambda task: load_in(processes, task), tasks))
    with connected.own_loader() as own:
        again = own.load(tasks[0], never)

    rows = [receipt.rows for receipt in receipts if receipt]
    assert rows == [10, 703, 10, 3, 3, 3]
    assert (connected.rows("orders"), connected.rows("transactions")) == (723, 9)
    assert [(receipt.dataset, receipt.run_id) for receipt in receipts if receipt] == [
        (task.request.dataset.name, "run") for task in tasks
    ]
    first = receipts[0]
    assert again is not None and first is not None
    assert (again.digest, again.changed, again.sums) == (first.digest, False, first.sums)


def test_a_slice_without_days_to_read_has_no_receipt(processes: LoadingProcesses) -> None:
    assert load_in(processes, task_of("orders", date(2026, 6, 1))) is None


def test_errors_come_back_with_class_message_and_exit_code(connected: Connected, processes: LoadingProcesses) -> None:
    connected.upstream.missing = ("/sales/transactions",)
    try:
        with pytest.raises(RequestRefusedError, match="404") as refused:
            load_in(processes, task_of("transactions", MONTHS[0]))
    finally:
        connected.upstream.missing = ()
    with pytest.raises(UnknownAccountError, match="there is no account 'S9") as unknown:
        load_in(processes, task_of("orders", MONTHS[0], account="S9.XX"))

    assert refused.value.status == 404
    assert (unknown.value.key, unknown.value.exit_code) == ("S9.XX", 2)


def test_a_bug_comes_back_with_the_traceback_of_its_process(processes: LoadingProcesses) -> None:
    broken = LoadTask(SliceRequest(dataset_named("orders"), BERLIN.key, "March"), NOW, True, "run")  # type: ignore[arg-type]

    with pytest.raises(AttributeError, match="'str' object has no attribute 'until'") as raised:
        load_in(processes, broken)

    assert "window_to_load" in raised.value.__notes__[0]


def test_what_processes_log_is_logged_here(connected: Connected, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "seller_platform"), connected.processes() as processes:
        load_in(processes, task_of("transactions", MONTHS[0]))

    (record,) = [each for each in caplog.records if each.getMessage().startswith("transactions of")]
    assert record.process != os.getpid()
    assert json.loads(JsonLines().format(record)).items() >= {"run_id": "run", "rows": 3, "level": "INFO"}.items()


def test_processes_send_their_spans(connected: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as kept:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", kept.url)
        with connected.processes() as processes:
            load_in(processes, task_of("transactions", MONTHS[0]))

    (load,) = kept.named("load transactions", service="seller-platform")
    requests = kept.named("GET /sales/transactions")
    assert load.attributes["seller_platform.rows"] == 3
    assert {request.parent_id for request in requests} == {load.span_id}


def test_waits_for_the_upstream_are_reported_with_their_slice(connected: Connected) -> None:
    waits: list[tuple[SliceRequest, str]] = []
    task = task_of("transactions", MONTHS[0])

    with connected.processes() as processes, ThreadPoolExecutor(1) as threads:
        with connected.upstream.silent():
            load = threads.submit(processes.load, task, lambda *wait: waits.append(wait), NO_OWN)
            wait_for(lambda: waits)
        assert load.result(PATIENCE_SECONDS) is not None

    (request, reason), *_ = waits
    assert request == task.request
    assert reason.startswith("GET /sales/transactions: no complete answer in 5 s; attempt 1 of 6 goes on")


def test_a_refusal_of_one_process_lowers_the_requests_of_all(connected: Connected, processes: LoadingProcesses) -> None:
    budget = processes.budgets.budget("default")
    connected.upstream.too_many = 1

    load_in(processes, task_of("transactions", MONTHS[0]))

    assert budget.allowed == 4


def test_no_secret_is_in_the_process_list(connected: Connected, processes: LoadingProcesses) -> None:
    load_in(processes, task_of("transactions", MONTHS[0]))

    for pid in _pids(processes):
        shown = b"".join((Path(f"/proc/{pid}") / name).read_bytes() for name in ("cmdline", "environ"))
        assert CLIENT_SECRET.encode() not in shown
        assert b"seller_platform.ingest.workers.program" in shown
    assert len(_pids(processes)) == 2


def test_the_slices_of_a_dead_process_are_loaded_by_the_other(
    connected: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    with connected.processes() as processes, ThreadPoolExecutor(4) as threads:
        with connected.upstream.silent():
            loads = [threads.submit(load_in, processes, task_of("orders", month)) for month in MONTHS]
            wait_for(lambda: connected.upstream.waiting >= len(MONTHS))
            os.kill(_pids(processes)[1], signal.SIGKILL)
            wait_for(lambda: "its loading process has died" in caplog.text)

        rows = [receipt.rows for load in loads if (receipt := load.result(PATIENCE_SECONDS))]

    assert rows == [10, 703, 10]
    assert connected.rows("orders") == 723


def test_without_a_living_process_this_one_loads(connected: Connected) -> None:
    with connected.own_loader() as own, connected.processes() as processes, ThreadPoolExecutor(4) as threads:
        with connected.upstream.silent():
            loads = [threads.submit(load_in, processes, task_of("orders", month), own) for month in MONTHS]
            wait_for(lambda: connected.upstream.waiting >= len(MONTHS))
            for pid in _pids(processes):
                os.kill(pid, signal.SIGKILL)

        rows = [receipt.rows for load in loads if (receipt := load.result(PATIENCE_SECONDS))]
        late = load_in(processes, task_of("transactions", MONTHS[0]), own)

    assert rows == [10, 703, 10]
    assert late is not None


def test_no_process_is_left_when_they_end(connected: Connected) -> None:
    with connected.processes() as processes:
        load_in(processes, task_of("transactions", MONTHS[0]))
        pids = _pids(processes)

    assert len(pids) == 2
    assert not _parents().keys() & set(pids)


def _load_until_killed(_: object, settings: Settings, database_url: str) -> None:
    load_in(LoadingProcesses(settings, database_url), task_of("orders", MONTHS[0]))


def test_processes_end_with_a_parent_that_is_killed(connected: Connected) -> None:
    with connected.upstream.silent():
        parent, _ = begin(_load_until_killed, connected.settings, connected.database.url)
        wait_for(lambda: connected.upstream.waiting > 0)
        programs = [pid for pid, of in _parents().items() if of == parent.pid]
        pids = [pid for pid, of in _parents().items() if of in programs] + programs
        parent.kill()
        parent.join()

        assert len(pids) == 2
        wait_for(lambda: not _parents().keys() & set(pids))


def _parents() -> dict[int, int]:
    """Return the parent of each process that has not ended."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                found[int(process.name)] = int(parent)
    return found
