"""Tests of request budgets that several processes share."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from seller_platform.client.http.shared_budget import BudgetFile


@pytest.fixture
def file() -> Iterator[BudgetFile]:
    created = BudgetFile.create()
    yield created
    created.close()


def test_processes_together_send_no_more_requests_than_allowed(file: BudgetFile) -> None:
    budget, other = file.budget("default", 2), BudgetFile(file.file, 1).budget("default", 2)
    began = threading.Event()

    def send() -> None:
        with budget.request():
            began.set()

    with ExitStack() as under_way:
        for each in (budget, other):
            under_way.enter_context(each.request())
        thread = threading.Thread(target=send)
        thread.start()
        assert not began.wait(0.1)
    thread.join()

    assert began.is_set()


def test_a_refusal_halves_the_budget_of_all_and_successes_raise_it(file: BudgetFile) -> None:
    budget, other = (each.budget("default", successes_to_grow=2) for each in (file, BudgetFile(file.file, 1)))

    budget.shrink()
    assert (budget.allowed, other.allowed) == (4, 4)
    for each in (budget, other, other):
        each.grow()

    assert (budget.allowed, other.allowed) == (5, 5)


def test_a_budget_never_allows_none_and_never_more_than_its_limit(file: BudgetFile) -> None:
    budget = file.budget("default", 3, successes_to_grow=1)

    for _ in range(5):
        budget.shrink()
    assert budget.allowed == 1
    for _ in range(5):
        budget.grow()

    assert budget.allowed == 3


def test_connections_have_budgets_of_their_own(file: BudgetFile) -> None:
    file.budget("default").shrink()

    assert file.budget("second").allowed == 8


def test_the_requests_of_a_dead_process_are_forgotten(file: BudgetFile) -> None:
    if (pid := os.fork()) == 0:
        with BudgetFile(file.file, 1).budget("default", 1).request():
            os._exit(0)
    os.waitpid(pid, 0)
    budget = file.budget("default", 1)
    assert not budget._begins()

    file.forget(1)

    with budget.request():
        pass


def test_a_sixth_process_has_no_budget(file: BudgetFile) -> None:
    with pytest.raises(ValueError, match="process 5"):
        BudgetFile(file.file, 5)
