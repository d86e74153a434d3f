"""Tests that turns are shared among users, and come back whatever happens to their requests."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps

import pytest

from seller_platform.errors import NotAdmittedError
from seller_platform.service.limits.turns import Turns

ANN, BOB, EVE = 1, 2, 3


def in_a_loop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**values: object) -> None:
        asyncio.run(test(**values))

    return run


@pytest.mark.parametrize(("at_once", "waiting", "others"), [(1, 20, 5), (2, 20, 1), (2, 20, 5), (8, 20, 3)])
@in_a_loop
async def test_beside_a_flooding_user_another_begins_after_one_turn_of_each(
    at_once: int, waiting: int, others: int
) -> None:
    turns, began = Turns("lists", at_once), list[int]()

    async def request(user: int) -> None:
        await turns.begin(user)
        began.append(user)

    users = [*[ANN] * (turns.share + waiting), *(ANN + number for number in range(1, others + 1))]
    requests = [asyncio.create_task(request(user)) for user in users]
    await asyncio.sleep(0)
    for user in began:
        turns.end(user)
        await asyncio.sleep(0)
    await asyncio.gather(*requests)

    assert began[: turns.share] == [ANN] * turns.share
    assert {*users} == {*began[: turns.share + 1 + others]}
    assert sorted(began) == sorted(users)


@in_a_loop
async def test_a_free_turn_goes_to_the_waiting_user_with_the_fewest() -> None:
    turns, began = Turns("lists", 4), list[int]()

    async def request(user: int) -> None:
        await turns.begin(user)
        began.append(user)

    for user in (ANN, ANN, BOB, BOB):
        await turns.begin(user)
    waiting = [asyncio.create_task(request(user)) for user in (ANN, ANN, BOB, EVE)]
    await asyncio.sleep(0)
    for user in (ANN, BOB, ANN, BOB):
        turns.end(user)
    await asyncio.gather(*waiting)

    assert began == [EVE, ANN, BOB, ANN]


@in_a_loop
async def test_what_cannot_wait_is_refused_by_whose_requests_are_in_the_way() -> None:
    turns = Turns("lists", 2, most_waiting=1, wait_seconds=0.2)
    await turns.begin(ANN)
    waiting = asyncio.create_task(turns.begin(ANN))
    await asyncio.sleep(0)

    with pytest.raises(NotAdmittedError, match="as many lists of yours wait as may, which is 1") as own:
        await turns.begin(ANN)
    await turns.begin(BOB)
    with pytest.raises(NotAdmittedError, match="the service has as many lists at work") as of_others:
        await turns.begin(EVE)
    with pytest.raises(NotAdmittedError):
        await waiting

    assert (own.value.status, own.value.headers) == (429, {"Retry-After": "1"})
    assert (of_others.value.status, of_others.value.headers) == (503, {"Retry-After": "1"})
    assert turns.waiting == 0


@in_a_loop
async def test_every_turn_comes_back_whatever_happens_to_its_request() -> None:
    turns = Turns("lists", 2, wait_seconds=0.001)

    async def request(user: int) -> None:
        try:
            await turns.begin(user)
        except NotAdmittedError:
            return
        try:
            await asyncio.sleep(0.0005 * (user % 3))
        finally:
            turns.end(user)

    tasks = [asyncio.create_task(request(number % 7)) for number in range(200)]
    for task in tasks[::3]:
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    for user in (ANN, BOB):
        await asyncio.wait_for(turns.begin(user), 1)
    assert turns.waiting == 0
