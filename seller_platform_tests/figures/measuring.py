"""CPU and memory of processes and of PostgreSQL."""

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from seller_platform.warehouse.postgres.embedded import EmbeddedServer

_LOOKS_PER_SECOND = 20


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
    postgres, waited, began, mib = server_seconds(server), _waited_seconds(), time.perf_counter(), 0
    own: dict[int, float] = {}  # of each process, because the parent of some does not wait for them
    with subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            processes = [*with_children(process.pid)]
            mib = max(mib, sum(map(proportional_kib, processes)) >> 10)
            for pid in processes:
                with suppress(OSError):
                    own[pid] = sum(map(int, _fields(pid)[11:13])) / os.sysconf("SC_CLK_TCK")
            with suppress(subprocess.TimeoutExpired):
                process.wait(1 / _LOOKS_PER_SECOND)
        seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    # The last look at a process misses what it did afterwards; the kernel's sum misses those that no parent waited for.
    cpu = max(sum(own.values()), _waited_seconds() - waited)
    return Spent(seconds, cpu, server_seconds(server) - postgres, mib)


def _waited_seconds() -> float:
    """Return the CPU of the processes that this one, and those in their turn, have waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def server_seconds(server: EmbeddedServer) -> float:
    """Return the CPU of the server's processes, and of those that ended (see proc(5))."""
    parent = int((server.data_folder / "postmaster.pid").read_text().split()[0])
    ticks = sum(map(int, _fields(parent)[11:15]))
    for child in with_children(parent):
        if child != parent:
            with suppress(OSError):
                ticks += sum(map(int, _fields(child)[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def with_children(pid: int) -> Iterator[int]:
    """Yield a process, its children that run, and theirs."""
    yield pid
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from with_children(int(child))


def proportional_kib(pid: int) -> int:
    """Return the memory of a process, with its share of the pages that others share with it."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        parts = {
            name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in text.splitlines()[1:])
        }
        return parts["Pss"]
    return 0


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
