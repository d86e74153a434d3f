"""Interrupts a program before one of its SQL statements, so that another program can commit there."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest

from seller_platform.warehouse.postgres.database import Database


class Interruption:
    """Calls an action once, before the statement of that number to a database.

    Attributes:
        statements: How many statements there were; those of the action do not count, nor those to other databases,
            because a service of another test may still run in a thread of this process.
    """

    def __init__(self, database: Database, number: int, action: Callable[[], object]) -> None:
        self.statements = 0
        self._database = database.engine.url.database
        self._number, self._action, self._errors = number, action, list[Exception]()
        self._is_acting = False

    def reach(self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        """Count a statement, and call the action before the chosen one."""
        if self._is_acting or connection.info.dbname != self._database:
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
def interrupted(database: Database, number: int, action: Callable[[], object]) -> Iterator[Interruption]:
    """Call an action before the statement of that number, counted from 1, of all of this process to the database."""
    interruption = Interruption(database, number, action)
    execute, execute_async = psycopg.Cursor.execute, psycopg.AsyncCursor.execute

    def interrupted_execute(cursor: Any, *values: Any, **options: Any) -> Any:
        interruption.reach(cursor.connection)
        return execute(cursor, *values, **options)

    async def interrupted_execute_async(cursor: Any, *values: Any, **options: Any) -> Any:
        interruption.reach(cursor.connection)
        return await execute_async(cursor, *values, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", interrupted_execute)
        patch.setattr(psycopg.AsyncCursor, "execute", interrupted_execute_async)
        yield interruption


def at_each_statement(
    database: Database, program: Callable[[], object], action: Callable[[], object], *, step: int = 1
) -> Iterator[int]:
    """Run a program again and again, each time with an action before its next statement; yield after each time.

    Args:
        step: How many statements later the action is each time.
    """
    for number in count(1, step):
        with interrupted(database, number, action) as interruption:
            program()
        if interruption.statements < number:
            return
        yield number
