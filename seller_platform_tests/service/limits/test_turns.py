"""Tests that turns are shared among users and come back, and which limits a service has."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps

import pytest

from seller_platform.service.errors import NotAdmittedError
from seller_platform.service.limits import DEFAULT_PER_TOKEN, DEFAULT_PER_USER, Turns, limits_of
from seller_platform.service.settings import ServiceSettings
from seller_platform.settings import read_settings

ANN, BOB, EVE = 1, 2, 3


def in_a_loop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**values: object) -> None:
        asyncio.run(test(**values))

    return run


@pytest.mark.parametrize(("at_once", "waiting", "others"), [(1, 20, 5), (2, 20, 1), (2, 20, 5), (8, 20, 3)])
@in_a_loop
async def test_beside_a_flooding_user_turns_go_round(at_once: int, waiting: int, others: int) -> None:
    turns, began, may_end = Turns("lists", at_once), list[int](), asyncio.Semaphore(0)

    async def request(user: int) -> None:
        async with turns.turn(user):
            began.append(user)
            await may_end.acquire()

    users = [*[ANN] * (turns.share + waiting), *(ANN + number for number in range(1, others + 1))]
    requests = [asyncio.create_task(request(user)) for user in users]
    for _ in users:
        await asyncio.sleep(0.001)
        may_end.release()
    await asyncio.gather(*requests)

    assert began[: turns.share] == [ANN] * turns.share
    assert {*users} == {*began[: turns.share + 1 + others]}
    assert sorted(began) == sorted(users)


@in_a_loop
async def test_what_cannot_wait_is_refused_by_whose_requests_are_in_the_way() -> None:
    turns, done = Turns("lists", 2, most_waiting=1, wait_seconds=0.2), asyncio.Event()

    async def request(user: int) -> None:
        async with turns.turn(user):
            await done.wait()

    at_work = [asyncio.create_task(request(user)) for user in (ANN, BOB)]
    waiting = [asyncio.create_task(request(user)) for user in (ANN, ANN, EVE)]
    refused = await asyncio.gather(*waiting, return_exceptions=True)
    done.set()
    await asyncio.gather(*at_work)

    assert [getattr(error, "status", None) for error in refused] == [503, 429, 503]
    assert "as many lists of yours wait as may, which is 1" in str(refused[1])
    assert "the service has as many lists at work" in str(refused[2])
    assert [error.headers for error in refused if isinstance(error, NotAdmittedError)] == [{"Retry-After": "1"}] * 3


@in_a_loop
async def test_every_turn_comes_back_whatever_happens_to_its_request() -> None:
    turns = Turns("lists", 2, wait_seconds=0.001)

    async def request(user: int) -> None:
        with suppress(NotAdmittedError):
            async with turns.turn(user):
                await asyncio.sleep(0.0005 * (user % 3))

    tasks = [asyncio.create_task(request(number % 7)) for number in range(200)]
    for task in tasks[::3]:
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    async with asyncio.timeout(1), turns.turn(ANN), turns.turn(BOB):
        pass


@pytest.mark.parametrize(
    ("host", "public_url", "rates"),
    [
        *((host, "", (0, 0)) for host in ("127.0.0.1", "127.0.0.9", "::1", "localhost")),
        *((host, "", (DEFAULT_PER_TOKEN, DEFAULT_PER_USER)) for host in ("0.0.0.0", "::")),
        ("127.0.0.1", "https://api.example", (DEFAULT_PER_TOKEN, DEFAULT_PER_USER)),
    ],
)
def test_only_a_sandbox_on_its_own_machine_has_no_rates(
    host: str, public_url: str, rates: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_SERVICE_PUBLIC_URL", public_url)
    limits = limits_of(read_settings().of(ServiceSettings), host=host)

    assert (limits.per_token, limits.per_user) == rates
    assert limits.work_at_once >= 2


def test_settings_change_limits_and_processes_divide_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"REQUESTS_PER_TOKEN": "5", "REQUESTS_PER_USER": "0", "LISTS_AT_ONCE": "7"}.items():
        monkeypatch.setenv(f"SELLER_PLATFORM_SERVICE_{name}", value)

    limits, part = (limits_of(read_settings().of(ServiceSettings), processes=processes) for processes in (1, 4))

    assert (limits.per_token, limits.per_user, limits.work_at_once) == (5, 0, 7)
    assert (part.per_token, part.per_user, part.work_at_once) == (2, 0, 2)
    assert part.connections < limits.connections
