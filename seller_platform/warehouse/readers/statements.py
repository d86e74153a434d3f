"""Executes a statement of a person, with the rights of a reader.

Each statement has a connection of its own, as a login that owns nothing, and a cursor in a transaction that is
read-only and rolled back. So what it sets or locks ends with it. Values are the texts of PostgreSQL, so that no digit
is lost.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq import Format

from seller_platform.errors import RequestError
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.postgres.programs import READER
from seller_platform.warehouse.schema.readers import open_reading

ROWS_PER_BLOCK = 2_000
_CURSOR = "DECLARE shown NO SCROLL CURSOR FOR\n"
_LINE = re.compile(r"^LINE (\d+):", re.MULTILINE)
_FETCH = f"FETCH {ROWS_PER_BLOCK} FROM shown"
# Statements that have no cursor, and few rows.
# Before Python 3.11.5 a group must not be possessive.
_WITHOUT_CURSOR = re.compile(r"(?:\s++|--[^\n]*+\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/)*(?:explain|show)\b", re.IGNORECASE)
# A role that is granted to a reader would lend its rights to a statement.
_IS_READER = """
SELECT rolname, NOT rolsuper AND shobj_description(oid, 'pg_authid') IS NOT DISTINCT FROM %s
                AND NOT EXISTS (SELECT FROM pg_auth_members WHERE member = role.oid)
FROM pg_roles AS role WHERE rolname = session_user
"""

Value = str | None


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result, and the name of its type, such as `numeric` or `timestamptz`."""

    name: str
    kind: str


@dataclass(frozen=True)
class Result:
    """The columns of a result, and its rows as texts of PostgreSQL, in blocks; one of them is in memory."""

    columns: Sequence[ResultColumn]
    blocks: Iterator[Sequence[Sequence[Value]]]

    @property
    def names(self) -> list[str]:
        """The names of the columns, no two of them equal."""
        return [column.name for column in self.columns]


@contextmanager
def open_result(url: str, statement: str, *, seconds: float) -> Iterator[Result]:
    """Execute a statement, and lend its result until the block ends.

    Args:
        url: The database, as `reader_url` returns it.
        seconds: How long PostgreSQL may take for each block of rows.

    Raises:
        RequestError: The login of the URL is no reader. Or two columns of the result have one name. Or PostgreSQL
            refused the statement, or it took too long, also while blocks are read.
    """
    if not statement.strip():
        raise statement_error("there is no statement")
    with open_reading(url, seconds=seconds, connections=1) as database, database.connect() as connection:
        driver = driver_of(connection)
        login, is_reader = driver.execute(_IS_READER, [READER]).fetchone() or (None, False)
        if not is_reader:
            raise RequestError(
                f"statements need the login of a reader, and {login} of {database.where} is none",
                code="NoReaderError",
                step="Run `seller-platform database reader NAME`, and set SELLER_PLATFORM_READER_URL to its URL "
                "with its password.",
            )
        # A table may be named as in Python, without its schema.
        driver.execute("SET search_path = seller, marts")
        yield _executed(driver, statement, f"SET LOCAL statement_timeout = {round(seconds * 1000)}")


def _executed(driver: psycopg.Connection[Any], statement: str, time_limit: str) -> Result:
    has_cursor = _WITHOUT_CURSOR.match(statement) is None
    prefix = _CURSOR if has_cursor else ""
    with _own_errors(statement, prefix):
        # A prepared statement is a single one; without, PostgreSQL would execute several with semicolons between them.
        cursor = driver.execute(prefix + statement, prepare=True)
        if has_cursor:
            cursor = driver.execute(_FETCH, prepare=True)
    result = cursor.pgresult
    assert result is not None, "a statement that was executed has a result"
    oids = [result.ftype(index) for index in range(result.nfields)]
    names = dict(driver.execute("SELECT oid, typname FROM pg_type WHERE oid = ANY (%s)", [oids]).fetchall())
    kinds = [names.get(oid, "text") for oid in oids]
    columns = [ResultColumn((result.fname(index) or b"").decode(), kind) for index, kind in enumerate(kinds)]
    repeated = sorted(name for name, count in Counter(column.name for column in columns).items() if count > 1)
    if repeated:
        raise RequestError(f"two columns are named {', '.join(repeated)}", step="Name them apart with AS.")

    def blocks() -> Iterator[Sequence[Sequence[Value]]]:
        block = _texts(result)
        while block:
            yield block
            if not has_cursor:
                return
            with _own_errors(statement):
                driver.execute(time_limit)  # a function of the statement may have set another
                block = _texts(driver.execute(_FETCH, prepare=True).pgresult)

    return Result(columns, blocks())


def _texts(result: Any) -> list[tuple[Value, ...]]:
    """Return the values as PostgreSQL spells them."""
    fields = range(result.nfields)
    assert all(result.fformat(index) == Format.TEXT for index in fields), "text was asked for"

    def value(row: int, index: int) -> Value:
        sent = result.get_value(row, index)
        return None if sent is None else bytes(sent).decode(errors="replace")  # it may set another encoding

    return [tuple(value(row, index) for index in fields) for row in range(result.ntuples)]


@contextmanager
def _own_errors(statement: str, prefix: str = "") -> Iterator[None]:
    """Turn PostgreSQL's errors about a statement into ours, with the line of the text that a person wrote.

    Args:
        prefix: The lines that were put before the statement.
    """
    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        raise statement_error("it took too long, and was cancelled. Give it more seconds with --timeout.") from error
    except psycopg.errors.AdminShutdown as error:
        raise statement_error("PostgreSQL ended its session, as it does for a lock that a load waits for") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise _forbidden(error.diag.message_primary or "permission denied") from error
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        position = int(error.diag.statement_position or 0) - len(prefix)
        if isinstance(error, psycopg.errors.SyntaxError) and position > 0 and not statement[: position - 1].strip():
            raise _forbidden("queries only read: give a SELECT, a WITH, a TABLE or VALUES") from error
        if "multiple commands" in str(error):
            raise statement_error("there are several statements; give a single one") from error
        lines = prefix.count("\n")
        raise statement_error(_LINE.sub(lambda line: f"LINE {int(line[1]) - lines}:", str(error))) from error


def statement_error(problem: str) -> RequestError:
    """Return the error of a statement that PostgreSQL refused."""
    return RequestError(problem, code="StatementError")


def _forbidden(problem: str) -> RequestError:
    """Return the error of a statement that reads or changes what it may not."""
    return RequestError(
        problem,
        code="StatementForbiddenError",
        step="Read the schemas seller, history and marts, and of platform the accounts, receipts, reports and cost "
        "plans; all else has secrets.",
    )
