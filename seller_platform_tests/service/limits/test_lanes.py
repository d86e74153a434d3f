"""Tests that a lane admits at once or refuses, and shares its turns among users."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps

import pytest

from seller_platform.errors import NotAdmittedError, ServiceBusyError, TooManyUnderWayError
from seller_platform.service.limits.lanes import Lane

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

    with pytest.raises(TooManyUnderWayError, match="3 lists of yours") as refused:
        await lane.enter(ANN)
    await lane.enter(BOB)

    assert refused.value.headers == {"Retry-After": "1"}


@in_a_loop
async def test_a_lane_that_others_hold_is_busy() -> None:
    lane = Lane("lists", 4, wait_seconds=0)
    for user in (ANN, ANN, BOB, BOB):
        await lane.enter(user)

    with pytest.raises(ServiceBusyError) as refused:
        await lane.enter(EVE)

    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
    assert lane.waiting == 0


@in_a_loop
async def test_a_free_turn_goes_to_the_waiting_user_with_the_fewest() -> None:
    lane, began = Lane("lists", 4, wait_seconds=60), list[int]()

    async def request(user: int) -> None:
        await lane.enter(user)
        began.append(user)

    for user in (ANN, ANN, BOB, BOB):
        await lane.enter(user)
    waiting = [asyncio.create_task(request(user)) for user in (ANN, ANN, BOB, EVE)]
    await asyncio.sleep(0)
    for user in (ANN, BOB, ANN, BOB):
        lane.leave(user)
    await asyncio.gather(*waiting)

    assert began == [EVE, ANN, BOB, ANN]


@in_a_loop
async def test_only_some_requests_of_a_user_wait() -> None:
    lane = Lane("lists", 4, wait_seconds=60)
    requests = [asyncio.create_task(lane.enter(ANN)) for _ in range(lane.share + lane.most_waiting + 5)]
    await asyncio.sleep(0)

    refused = [task for task in requests if task.done() and task.exception()]
    assert (lane.waiting, len(refused)) == (lane.most_waiting, 5)
    for task in requests:
        task.cancel()


@in_a_loop
async def test_every_turn_comes_back_whatever_happens_to_its_request() -> None:
    lane = Lane("lists", 2, wait_seconds=0.001)

    async def request(user: int) -> None:
        try:
            await lane.enter(user)
        except NotAdmittedError:
            return
        try:
            await asyncio.sleep(0.0005 * (user % 3))
        finally:
            lane.leave(user)

    tasks = [asyncio.create_task(request(number % 7)) for number in range(200)]
    for task in tasks[::3]:
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    for user in (ANN, BOB):
        await lane.enter(user)
    assert lane.waiting == 0
