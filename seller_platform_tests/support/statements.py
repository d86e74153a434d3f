"""Interrupts a program before one of its SQL statements, so that another program can commit there."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest


class Interruption:
    """Calls an action once, before the statement of that number.

    Attributes:
        statements: How many statements there were; those of the action do not count.
    """

    def __init__(self, number: int, action: Callable[[], object]) -> None:
        self.statements = 0
        self._number, self._action, self._errors = number, action, list[Exception]()
        self._is_acting = False

    def reach(self) -> None:
        """Count a statement, and call the action before the chosen one."""
        if self._is_acting:
            return
        self.statements += 1
        if self.statements == self._number:
            self._is_acting = True
            acting = threading.Thread(target=self._act)  # an event loop allows no other loop in its thread
            acting.start()
            acting.join()
            self._is_acting = False
            for error in self._errors:
                raise error

    def _act(self) -> None:
        try:
            self._action()
        except Exception as error:  # raised in the thread of the statement
            self._errors.append(error)


@contextmanager
def interrupted(number: int, action: Callable[[], object]) -> Iterator[Interruption]:
    """Call an action before the statement of that number, counted from 1, of all of this process in the block."""
    interruption = Interruption(number, action)
    execute, execute_async = psycopg.Cursor.execute, psycopg.AsyncCursor.execute

    def interrupted_execute(cursor: Any, *values: Any, **options: Any) -> Any:
        interruption.reach()
        return execute(cursor, *values, **options)

    async def interrupted_execute_async(cursor: Any, *values: Any, **options: Any) -> Any:
        interruption.reach()
        return await execute_async(cursor, *values, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", interrupted_execute)
        patch.setattr(psycopg.AsyncCursor, "execute", interrupted_execute_async)
        yield interruption


def at_each_statement(program: Callable[[], object], action: Callable[[], object]) -> Iterator[int]:
    """Run a program again and again, each time with an action before its next statement; yield after each time."""
    number = 0
    while True:
        number += 1
        with interrupted(number, action) as interruption:
            program()
        if interruption.statements < number:
            return
        yield number
