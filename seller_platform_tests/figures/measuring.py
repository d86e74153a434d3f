"""CPU and memory of processes and of PostgreSQL."""

import os
import resource
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import psutil

from seller_platform.warehouse.postgres.embedded import EmbeddedServer

_LOOKS_PER_SECOND = 10


@dataclass(frozen=True)
class Spent:
    """What some work took: seconds of the clock, of CPU of its processes, and of CPU of PostgreSQL.

    Attributes:
        mib: The most that the processes of a command held together, with shared memory counted once.
    """

    seconds: float
    own: float
    postgres: float
    mib: int = 0


def spent(work: Callable[[], object], server: EmbeddedServer) -> Spent:
    """Measure a function in this process."""
    postgres, own, began = server_seconds(server), time.process_time(), time.perf_counter()
    work()
    return Spent(time.perf_counter() - began, time.process_time() - own, server_seconds(server) - postgres)


def spent_by_command(command: list[str], variables: Mapping[str, str], server: EmbeddedServer) -> Spent:
    """Run a command and measure all its processes."""
    postgres, waited, began, memory = server_seconds(server), _waited_seconds(), time.perf_counter(), 0
    own: dict[int, float] = {}  # of each process, because the parent of some does not wait for them
    with subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            held = 0
            for each in _with_children(process.pid):
                with suppress(psutil.Error):
                    own[each.pid] = sum(each.cpu_times()[:2])
                    held += each.memory_full_info().pss
            memory = max(memory, held)
            with suppress(subprocess.TimeoutExpired):
                process.wait(1 / _LOOKS_PER_SECOND)
        seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    # The last look at a process misses what it did afterwards; the kernel's sum misses those that no parent waited for.
    cpu = max(sum(own.values()), _waited_seconds() - waited)
    return Spent(seconds, cpu, server_seconds(server) - postgres, memory >> 20)


def _waited_seconds() -> float:
    """Return the CPU of the processes that this one, and those in their turn, have waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def server_seconds(server: EmbeddedServer) -> float:
    """Return the CPU of the server's processes, and of those that ended."""
    parent, *children = _with_children(int((server.data_folder / "postmaster.pid").read_text().split()[0]))
    seconds: float = sum(parent.cpu_times()[:4])
    for child in children:
        with suppress(psutil.Error):
            seconds += sum(child.cpu_times()[:2])
    return seconds


def _with_children(pid: int) -> list[psutil.Process]:
    """Return a process, its children that run, and theirs; none if it has ended."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []
