"""Tests the counts of requests in a window, in one process and in several."""

import subprocess
import sys
from pathlib import Path

from seller_platform.service.limits.rates import Counts, Quota, create_rates_file, own_memory, shared_memory

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


def test_each_key_has_a_quota_of_its_own() -> None:
    counts = Counts(own_memory(), monotonic=_Time())
    for _ in range(60):
        counts.take(7, QUOTA)

    # Keys with the same slot at first.
    assert [counts.take(7 + number * (1 << 16), QUOTA).requests for number in range(8)] == [0, *[59] * 7]


def test_the_key_that_used_least_gives_way_where_there_is_no_room() -> None:
    counts = Counts(own_memory(), monotonic=_Time())
    keys = [7 + number * (1 << 16) for number in range(9)]
    for number, key in enumerate(keys[:8]):
        for _ in range(20 - number):
            counts.take(key, QUOTA)

    assert counts.take(keys[8], QUOTA).requests == 59
    assert counts.take(keys[0], QUOTA).requests == 39
    assert counts.take(keys[7], QUOTA).requests == 59


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


def test_several_processes_share_a_quota(tmp_path: Path) -> None:
    file = create_rates_file(tmp_path)

    def start(times: int) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", _PROGRAM, str(file), str(times)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    allowed = [int(process.communicate()[0]) for process in [start(30_000), start(20_000), start(40_000)]]

    assert sum(allowed) == 50_000
