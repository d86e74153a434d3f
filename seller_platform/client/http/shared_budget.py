"""The request budgets of connections, shared by several processes.

The numbers are in a file without a name, which child processes inherit. The kernel releases the locks of a process that
dies, and the numbers of its requests are deleted by `forget`.
"""

import fcntl
import os
import struct
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import reduction
from typing import Any, Self

_PROCESSES = 5
_FORM = struct.Struct(f"{2 + _PROCESSES}q")
_SLOTS = 1024
_ASK_AGAIN_SECONDS = 0.005


@dataclass
class _Numbers:
    """The numbers of one budget.

    Attributes:
        refused: By how many requests the upstream's refusals have lowered the limit.
        successes: Successes since the limit was last changed.
        under_way: The requests of each process.
    """

    refused: int
    successes: int
    under_way: list[int]


class BudgetFile:
    """The numbers of all budgets; every process has one over the same open file.

    Args:
        file: The descriptor of the file.
        process: The number of this process; the first process is 0.
    """

    def __init__(self, file: int, process: int) -> None:
        if not 0 <= process < _PROCESSES:
            raise ValueError(f"process {process} has no numbers in a file of {_PROCESSES} processes")
        self.file, self._process = file, process
        self._lock = threading.Lock()  # the kernel's locks are those of a process, not of a thread

    @classmethod
    def create(cls) -> Self:
        """Return a new file, for process 0."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("request budgets")
        else:  # macOS
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.ftruncate(descriptor, _SLOTS * _FORM.size)
        return cls(descriptor, 0)

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the open file to a process that is being started."""
        return _received, (reduction.DupFd(self.file),)

    def budget(self, name: str, limit: int = 8, *, successes_to_grow: int = 20) -> "SharedRequestBudget":
        """Return the budget of that name, which is the same in all processes. Few names of a thousand share one.

        Args:
            limit: The most requests that are ever allowed at once, in all processes together.
            successes_to_grow: The successes after which one request more is allowed.
        """
        return SharedRequestBudget(self, zlib.crc32(name.encode()) % _SLOTS, limit, successes_to_grow)

    @contextmanager
    def changing(self, slot: int) -> Iterator[_Numbers]:
        """Lock the numbers of a budget, and store them again when the block ends."""
        begin = slot * _FORM.size
        with self._lock:
            fcntl.lockf(self.file, fcntl.LOCK_EX, _FORM.size, begin)
            try:
                refused, successes, *under_way = _FORM.unpack(os.pread(self.file, _FORM.size, begin))
                numbers = _Numbers(refused, successes, under_way)
                yield numbers
                os.pwrite(self.file, _FORM.pack(numbers.refused, numbers.successes, *numbers.under_way), begin)
            finally:
                fcntl.lockf(self.file, fcntl.LOCK_UN, _FORM.size, begin)

    def count(self, numbers: _Numbers, change: int) -> None:
        """Change the number of this process's requests under way."""
        numbers.under_way[self._process] += change

    def forget(self, process: int) -> None:
        """Delete the requests of a process that has ended."""
        for slot in range(_SLOTS):
            with self.changing(slot) as numbers:
                numbers.under_way[process] = 0

    def close(self) -> None:
        """Close the file in this process."""
        os.close(self.file)


def _received(file: Any) -> BudgetFile:
    return BudgetFile(file.detach(), 0)


class SharedRequestBudget:
    """A request budget of several processes, with the interface of `RequestBudget`.

    A thread that must wait asks again every few milliseconds.
    """

    def __init__(self, file: BudgetFile, slot: int, limit: int, successes_to_grow: int) -> None:
        self.limit = limit
        self._file, self._slot, self._successes_to_grow = file, slot, successes_to_grow

    @property
    def allowed(self) -> int:
        """How many requests are allowed at once now."""
        with self._file.changing(self._slot) as numbers:
            return self.limit - numbers.refused

    @contextmanager
    def request(self) -> Iterator[None]:
        """Wait until one more request is allowed, and count it until the block ends."""
        while not self._begins():
            time.sleep(_ASK_AGAIN_SECONDS)
        try:
            yield
        finally:
            with self._file.changing(self._slot) as numbers:
                self._file.count(numbers, -1)

    def shrink(self) -> None:
        """Halve the requests that are allowed, because the upstream answered 429."""
        with self._file.changing(self._slot) as numbers:
            numbers.refused, numbers.successes = self.limit - max(1, (self.limit - numbers.refused) // 2), 0

    def grow(self) -> None:
        """Count a success; enough of them allow one request more."""
        with self._file.changing(self._slot) as numbers:
            numbers.successes += 1
            if numbers.successes >= self._successes_to_grow and numbers.refused > 0:
                numbers.refused, numbers.successes = numbers.refused - 1, 0

    def _begins(self) -> bool:
        with self._file.changing(self._slot) as numbers:
            if sum(numbers.under_way) >= self.limit - numbers.refused:
                return False
            self._file.count(numbers, 1)
            return True
