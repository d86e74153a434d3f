"""Tests the counts of requests in a window, in one process and in several."""

import subprocess
import sys
from pathlib import Path

import pytest
from starlette.requests import Request

from seller_platform.errors import NotAdmittedError
from seller_platform.service.access import hash_of
from seller_platform.service.limits.policy import Limits
from seller_platform.service.limits.rates import Counts, Quota, Rates, create_rates_file, own_memory, shared_memory
from seller_platform.service.metrics import notes_of

QUOTA = Quota("token", 60, 60)


class _Time:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_quota_is_used_up_and_comes_back_request_by_request() -> None:
    clock = _Time()
    counts = Counts(own_memory(), monotonic=clock)

    left = [counts.take(7, QUOTA) for _ in range(61)]
    clock.now += 1
    again = [counts.take(7, QUOTA) for _ in range(2)]
    clock.now += 60
    later = counts.take(7, QUOTA)

    assert [each.requests for each in left] == [*range(59, -1, -1), 0]
    assert [each.retry_seconds for each in left] == [0] * 60 + [1]
    assert [each.retry_seconds for each in again] == [0, 1]
    assert (later.requests, later.reset_seconds) == (59, 1)
    assert (left[29].member, QUOTA.policy) == ('"token";r=30;t=30', '"token";q=60;w=60')


def test_a_request_comes_back_after_its_share_of_the_window() -> None:
    clock, quota = _Time(), Quota("token", 24, 60)
    counts = Counts(own_memory(), monotonic=clock)

    left = [counts.take(7, quota) for _ in range(25)]
    clock.now += 2.4
    early = counts.take(7, quota)
    clock.now += 0.1
    later = counts.take(7, quota)

    assert [each.requests for each in left] == [*range(23, -1, -1), 0]
    assert [each.reset_seconds for each in left[:4]] == [3, 5, 8, 10]
    assert [(each.retry_seconds, each.reset_seconds) for each in (left[24], early, later)] == [
        (3, 60),
        (1, 58),
        (0, 60),
    ]


def test_each_key_has_a_quota_of_its_own() -> None:
    memory = own_memory()
    counts = Counts(memory, monotonic=_Time())
    for _ in range(60):
        counts.take(7, QUOTA)

    # Keys with the same slot at first.
    keys = [7 + number * (1 << 16) for number in range(8)]
    assert [counts.take(key, QUOTA).requests for key in keys] == [0, *[59] * 7]
    slots = [memory.cells[16 * slot : 16 * slot + 8] for slot in range(7, 15)]
    assert [int.from_bytes(slot, sys.byteorder) for slot in slots] == keys


def test_the_key_that_used_least_gives_way_where_there_is_no_room() -> None:
    counts = Counts(own_memory(), monotonic=_Time())
    keys = [7 + number * (1 << 16) for number in range(9)]
    for key, times in zip(keys, (20, 19, 18, 5, 16, 15, 14, 13), strict=False):
        for _ in range(times):
            counts.take(key, QUOTA)

    assert [counts.take(keys[number], QUOTA).requests for number in (8, 0, 7, 3)] == [59, 39, 46, 59]


def test_keys_at_the_end_of_the_table_take_no_slot_of_its_first_keys() -> None:
    counts = Counts(own_memory(), monotonic=_Time())
    keys = [(1 << 16) * number + home for home in (0, (1 << 16) - 1) for number in range(1, 9)]
    for key in keys:
        for _ in range(20):
            counts.take(key, QUOTA)

    assert [counts.take(key, QUOTA).requests for key in keys] == [39] * 16


_LOCKED = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    for slot in range(20):
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 16, 16 * slot)
        except OSError:
            print(slot)
"""


def test_a_key_locks_the_slots_that_it_may_take_and_no_others(tmp_path: Path) -> None:
    file, locked = create_rates_file(tmp_path), []

    def look() -> float:
        """Let another process see which slots are locked, while this one counts."""
        locked.append(subprocess.check_output([sys.executable, "-c", _LOCKED, str(file)], text=True).split())
        return 1_000.0

    Counts(shared_memory(file), monotonic=look).take(7, QUOTA)
    look()

    assert locked == [[str(slot) for slot in range(7, 15)], []]


_PROGRAM = """
import sys, time
from pathlib import Path
from seller_platform.service.limits.rates import Counts, Quota, shared_memory
counts = Counts(shared_memory(Path(sys.argv[1])), monotonic=time.monotonic)
print(sum(not counts.take(7, Quota("user", 50_000, 3_600_000)).retry_seconds for _ in range(int(sys.argv[2]))))
"""


def test_a_request_counts_by_its_token_then_its_user_and_by_its_network() -> None:
    rates, request = Rates(Limits(per_token=2, per_user=3, per_network=1), monotonic=_Time()), Request({"type": "http"})
    one, two, three = map(hash_of, ("one", "two", "three"))
    for token in (one, one):
        rates.count(request, token, 1)

    with pytest.raises(NotAdmittedError, match="this token has used its 2 requests in 60 seconds; try again in 30 s"):
        rates.count(request, one, 1)
    of_token = dict(notes_of(request.scope).headers)
    rates.count(request, two, 1)
    with pytest.raises(NotAdmittedError, match="this user has used its 3 requests in 60 seconds; try again in 20 s"):
        rates.count(request, two, 1)
    of_both = dict(notes_of(request.scope).headers)
    rates.count(request, three, 2)
    for network in ("192.0.2.1", "192.0.2.2"):
        rates.count_network(network)
        with pytest.raises(NotAdmittedError, match="this network has used its 1 request in 60 seconds"):
            rates.count_network(network)

    assert of_token["RateLimit"] == '"token";r=0;t=60'
    assert of_both["RateLimit"] == '"token";r=0;t=60, "user";r=0;t=60'
    assert of_both["RateLimit-Policy"] == '"token";q=2;w=60, "user";q=3;w=60'


def test_without_limits_nothing_is_counted() -> None:
    rates, request = Rates(Limits(per_token=0, per_user=0, per_network=0), monotonic=_Time()), Request({"type": "http"})
    for _ in range(2):
        rates.count(request, hash_of("one"), 1)
        rates.count_network("192.0.2.1")

    assert notes_of(request.scope).headers == {}


def test_processes_with_a_file_count_in_it(tmp_path: Path) -> None:
    limits = Limits(per_token=1, rates_file=str(create_rates_file(tmp_path)))
    first, second = (Rates(limits, monotonic=_Time()) for _ in range(2))
    first.count(Request({"type": "http"}), hash_of("one"), 1)

    with pytest.raises(NotAdmittedError):
        second.count(Request({"type": "http"}), hash_of("one"), 1)


def test_several_processes_share_a_quota(tmp_path: Path) -> None:
    file = create_rates_file(tmp_path)

    def start(times: int) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", _PROGRAM, str(file), str(times)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    allowed = [int(process.communicate()[0]) for process in [start(30_000), start(20_000), start(40_000)]]

    assert sum(allowed) == 50_000
