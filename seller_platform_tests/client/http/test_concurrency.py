"""Tests for the threads that requests are made in."""

from threading import Event

from seller_platform.client.http.concurrency import in_threads


def test_results_may_be_closed_in_one_of_their_own_threads() -> None:
    is_suspended, is_closed = Event(), Event()

    def work(number: int) -> int:
        if number == 2:
            is_suspended.wait(10)
            results.close()  # as the garbage collector does, which runs in any thread
            is_closed.set()
        return number

    results = in_threads(work, (1, 2), 1)
    first = next(results)
    is_suspended.set()

    assert (first, is_closed.wait(10)) == (1, True)
