"""Tests that a lane admits at once or refuses, and shares its turns among users."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import wraps

import pytest

from seller_platform.errors import NotAdmittedError
from seller_platform.service.limits.lanes import Lane, Turn
from seller_platform.service.limits.lateness import Lateness

ANN, BOB, EVE = 1, 2, 3


def in_a_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


@in_a_loop
async def test_one_user_never_holds_the_whole_lane() -> None:
    lane = Lane("lists", 4, wait_seconds=0)
    for _ in range(lane.share):
        await lane.enter(ANN)

    with pytest.raises(
        NotAdmittedError, match="as many lists of yours are under way as one user may have, which is 3"
    ) as refused:
        await lane.enter(ANN)
    await lane.enter(BOB)

    assert refused.value.headers == {"Retry-After": "1"}


@in_a_loop
async def test_a_lane_that_others_hold_is_busy() -> None:
    lane = Lane("lists", 4, wait_seconds=0)
    for user in (ANN, ANN, BOB, BOB):
        await lane.enter(user)

    with pytest.raises(NotAdmittedError, match="the service has as many") as refused:
        await lane.enter(EVE)

    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
    assert lane.waiting == 0


@in_a_loop
async def test_a_free_turn_goes_to_the_waiting_user_with_the_fewest() -> None:
    lane, began = Lane("lists", 4, wait_seconds=60), list[int]()

    async def request(user: int) -> None:
        await lane.enter(user)
        began.append(user)

    turns = [await lane.enter(user) for user in (ANN, ANN, BOB, BOB)]
    waiting = [asyncio.create_task(request(user)) for user in (ANN, ANN, BOB, EVE)]
    await asyncio.sleep(0)
    for number in (0, 2, 1, 3):
        lane.leave(turns[number])
    await asyncio.gather(*waiting)

    assert began == [EVE, ANN, BOB, ANN]


@in_a_loop
async def test_a_full_queue_refuses_the_oldest_and_begins_the_newest() -> None:
    lane, began = Lane("lists", 2, wait_seconds=60, most_waiting=3), list[int]()

    async def request(number: int) -> None:
        turns.append(await lane.enter(ANN))
        began.append(number)

    turns = [await lane.enter(ANN)]
    requests = [asyncio.create_task(request(number)) for number in range(5)]
    await asyncio.sleep(0)
    refused = await asyncio.gather(*requests[:2], return_exceptions=True)
    for _ in range(3):
        lane.leave(turns.pop())
        await asyncio.sleep(0)
    later = [asyncio.create_task(request(number)) for number in (5, 6)]
    for _ in later:
        await asyncio.sleep(0)
        lane.leave(turns.pop())
    await asyncio.gather(*requests[2:], *later)

    assert [str(each).startswith("as many") for each in refused] == [True, True]
    assert began == [4, 3, 2, 5, 6]


@in_a_loop
async def test_what_waited_too_long_for_the_loop_is_refused() -> None:
    lane, late_seconds = Lane("lists", 2, wait_seconds=0.06), 0.0

    with Lateness() as lateness:
        time.sleep(0.2)  # the loop is what must be late
        late_seconds = lateness.seconds
        for _ in range(1_000):  # on a busy machine, it is late for longer
            await asyncio.sleep(0.02)
            if (seconds_after := lateness.seconds) < 0.06:
                break
        with pytest.raises(NotAdmittedError, match="the service has as many"):
            await lane.enter(ANN, waited_seconds=late_seconds)
        await lane.enter(ANN, waited_seconds=seconds_after)

    assert late_seconds > 0.15
    assert seconds_after < late_seconds


@in_a_loop
async def test_one_request_waits_where_requests_take_longer_than_it_may_wait() -> None:
    lane = Lane("lists", 2, wait_seconds=0.06)
    turn = await lane.enter(ANN)
    await asyncio.sleep(0.1)
    lane.leave(turn)
    await lane.enter(ANN)
    waiting = [asyncio.create_task(lane.enter(ANN)) for _ in range(2)]
    await asyncio.sleep(0)

    assert (lane.capacity(), lane.waiting) == (1, 1)
    with pytest.raises(NotAdmittedError, match="of yours"):
        await waiting[0]
    waiting[1].cancel()


@in_a_loop
async def test_beside_a_long_request_begin_as_many_short_ones_as_take_as_long() -> None:
    now = 0.0
    lane = Lane("lists", 2, wait_seconds=60, monotonic=lambda: now)
    lasting, began = {"long": 0.75, "short": 0.25}, list[Turn]()

    async def request(kind: str) -> None:
        began.append(await lane.enter(ANN, kind))

    tasks = [asyncio.create_task(request(kind)) for kind in ["long"] * 4 + ["short"] * 8]
    for number in range(len(tasks)):
        await asyncio.sleep(0)
        now += lasting[began[number].kind]
        lane.leave(began[number])
    await asyncio.gather(*tasks)

    assert "".join(turn.kind[0] for turn in began) == "lsssslssslsl"


def test_a_lane_that_waits_for_seconds_has_a_longer_queue() -> None:
    assert Lane("lists", 2, wait_seconds=5).most_waiting == 100


@in_a_loop
async def test_every_turn_comes_back_whatever_happens_to_its_request() -> None:
    lane = Lane("lists", 2, wait_seconds=0.001)

    async def request(user: int) -> None:
        try:
            turn = await lane.enter(user, "odd" if user % 2 else "even")
        except NotAdmittedError:
            return
        try:
            await asyncio.sleep(0.0005 * (user % 3))
        finally:
            lane.leave(turn)

    tasks = [asyncio.create_task(request(number % 7)) for number in range(200)]
    for task in tasks[::3]:
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    for user in (ANN, BOB):
        await lane.enter(user)
    assert lane.waiting == 0
