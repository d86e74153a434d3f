"""Limits the requests of a token, a user and a network in a minute, counted in memory that processes may share.

A count is one number: the moment at which the whole quota is available again (the generic cell rate algorithm). Each
request moves it by the time in which one request's quota comes back. Processes that share a file lock the number while
they count; threads of one process must not share it.
"""

import fcntl
import math
import mmap
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request

from seller_platform.counts import count_of
from seller_platform.errors import NotAdmittedError
from seller_platform.files import write_for_this_start
from seller_platform.service.access import hash_of
from seller_platform.service.limits.policy import WINDOW_SECONDS, Limits
from seller_platform.service.metrics import note_headers

_SLOTS, _PROBES = 1 << 16, 8
_SLOT = struct.Struct("=Qd")
# A key counts in one of so many slots from its first one on.
_SIZE = (_SLOTS + _PROBES - 1) * _SLOT.size


@dataclass(frozen=True)
class Quota:
    """A limit of requests within a window.

    Attributes:
        name: The name of the policy in the headers.
    """

    name: str
    requests: int
    window_seconds: int

    @property
    def policy(self) -> str:
        """The member of the header `RateLimit-Policy`."""
        return f'"{self.name}";q={self.requests};w={self.window_seconds}'


@dataclass(frozen=True)
class Remaining:
    """What is left of a quota.

    Attributes:
        reset_seconds: The time until the whole quota is available again.
        retry_seconds: The time until the next request is allowed; 0 where this one is.
    """

    quota: Quota
    requests: int
    reset_seconds: int
    retry_seconds: int = 0

    @property
    def member(self) -> str:
        """The member of the header `RateLimit`."""
        return f'"{self.quota.name}";r={self.requests};t={self.reset_seconds}'


@dataclass(frozen=True)
class CountMemory:
    """Memory for counts.

    Attributes:
        file: The open file that processes share, until this one ends; None for the memory of one process.
    """

    cells: "mmap.mmap | bytearray"
    file: int | None = None


class Counts:
    """The counts of all tokens and users, in a table of fixed size.

    Where too many count at once, the one that has used least is forgotten.
    """

    def __init__(self, memory: CountMemory, *, monotonic: Callable[[], float]) -> None:
        """Count in memory that is zero at first.

        Args:
            monotonic: Returns seconds, the same in all processes that share the memory.
        """
        self._memory, self._file, self._monotonic = memory.cells, memory.file, monotonic

    def take(self, key: int, quota: Quota) -> Remaining:
        """Count a request, unless the quota is used up.

        Args:
            key: A number of 64 bits, by which the requests are counted.
        """
        if self._file is None:
            return self._take(key, quota)
        span, begin = _PROBES * _SLOT.size, key % _SLOTS * _SLOT.size
        fcntl.lockf(self._file, fcntl.LOCK_EX, span, begin)
        try:
            return self._take(key, quota)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, span, begin)

    def _take(self, key: int, quota: Quota) -> Remaining:
        now, pause = self._monotonic(), quota.window_seconds / quota.requests
        offset, full_at = self._slot_of(key, now)
        used_seconds = max(0.0, full_at - now)
        if used_seconds + pause > quota.window_seconds + 1e-6:
            retry = math.ceil(used_seconds + pause - quota.window_seconds)
            return Remaining(quota, 0, math.ceil(used_seconds), max(1, retry))
        _SLOT.pack_into(self._memory, offset, key, now + used_seconds + pause)
        left = int((quota.window_seconds - used_seconds - pause) / pause + 1e-6)
        return Remaining(quota, left, math.ceil(used_seconds + pause))

    def _slot_of(self, key: int, now: float) -> tuple[int, float]:
        """Return where a key counts, and its number; another key that has used least gives way."""
        free_offset, earliest = 0, math.inf
        for probe in range(_PROBES):
            offset = (key % _SLOTS + probe) * _SLOT.size
            owner, full_at = _SLOT.unpack_from(self._memory, offset)
            if owner == key:
                return offset, full_at
            if max(full_at, now) < earliest:
                free_offset, earliest = offset, max(full_at, now)
        return free_offset, now


class Rates:
    """The limits of a token, a user and a network without a valid token in a minute."""

    def __init__(self, limits: Limits, *, monotonic: Callable[[], float]) -> None:
        """Count in the file of the limits, or else in the memory of this process.

        Args:
            monotonic: Returns seconds, the same in all processes that share the file.
        """
        memory = own_memory() if limits.rates_file is None else shared_memory(Path(limits.rates_file))
        self._counts = Counts(memory, monotonic=monotonic)
        self._per_token = _quota("token", limits.per_token)
        self._per_user = _quota("user", limits.per_user)
        self._per_network = _quota("network", limits.per_network)
        policies = [quota.policy for quota in (self._per_token, self._per_user) if quota is not None]
        self._policy = ", ".join(policies)

    def count_network(self, network: str) -> None:
        """Count a request by its network.

        Raises:
            NotAdmittedError: The quota is used up.
        """
        if self._per_network is not None:
            _refuse_used_up(self._counts.take(_key_of(f"network {network}"), self._per_network))

    def count(self, request: Request, token_hash: bytes, user: int) -> None:
        """Count a request by its token and its user, and note the headers of its answer, also if it is refused.

        Raises:
            NotAdmittedError: A quota is used up.
        """
        remaining: list[Remaining] = []
        if self._per_token is not None:
            remaining.append(self._counts.take(int.from_bytes(token_hash[:8]), self._per_token))
        if self._per_user is not None and not any(each.retry_seconds for each in remaining):
            remaining.append(self._counts.take(_key_of(f"user {user}"), self._per_user))
        if remaining:
            note_headers(
                request, {"RateLimit-Policy": self._policy, "RateLimit": ", ".join(each.member for each in remaining)}
            )
        for each in remaining:
            _refuse_used_up(each)


def create_rates_file(folder: Path) -> Path:
    """Create the file in which processes share their counts."""
    file = folder / "rates"
    write_for_this_start(file, bytes(_SIZE).decode())
    return file


def own_memory() -> CountMemory:
    """Return memory for the counts of one process."""
    return CountMemory(bytearray(_SIZE))


def shared_memory(file: Path) -> CountMemory:
    """Return the memory of a file of counts."""
    opened = os.open(file, os.O_RDWR)
    return CountMemory(mmap.mmap(opened, _SIZE), opened)


def _quota(name: str, requests: int) -> Quota | None:
    return Quota(name, requests, WINDOW_SECONDS) if requests else None


def _refuse_used_up(remaining: Remaining) -> None:
    """Raise a `NotAdmittedError` if the request is beyond its quota."""
    if remaining.retry_seconds:
        quota, seconds = remaining.quota, remaining.retry_seconds
        raise NotAdmittedError(
            f"this {quota.name} has used its {count_of(quota.requests, 'request')} in "
            f"{count_of(quota.window_seconds, 'second')}; try again in {seconds} s",
            cause="quota",
            retry_after_seconds=seconds,
        )


def _key_of(name: str) -> int:
    """Return the number by which a user or network is counted, which no token has but by chance."""
    return int.from_bytes(hash_of(name)[:8])
