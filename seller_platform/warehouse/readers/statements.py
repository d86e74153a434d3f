"""Executes a statement of a person, which may read what people may read, and nothing else.

The statement has a cursor, in a transaction that is read-only and rolled back, with the rights of a reader. The owner
of the database makes the role for that. Where the owner may not, the plan of the statement is compared with what
readers may read. Values are the texts of PostgreSQL, so that no digit is lost.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import Format

from seller_platform.errors import RequestError
from seller_platform.warehouse.postgres.database import PARTITIONS, Database, driver_of
from seller_platform.warehouse.schema.readers import READABLE_OF_PLATFORM, READABLE_SCHEMAS, make_query_role

ROWS_PER_BLOCK = 2_000
_SHOWN = 70
"""How many characters of a line are shown around an error."""

_CURSOR = "DECLARE shown NO SCROLL CURSOR FOR "
_FETCH = f"FETCH {ROWS_PER_BLOCK} FROM shown"
# Statements that have no cursor, and few rows.
# Before Python 3.11.5 a group must not be possessive.
_WITHOUT_CURSOR = re.compile(r"(?:\s++|--[^\n]*+\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/)*(?:explain|show)\b", re.IGNORECASE)
_SYSTEM_SCHEMAS = ("pg_catalog", "information_schema")
# They hold values of tables that people may not read.
_SAMPLES = ("pg_statistic", "pg_statistic_ext_data")
# A table may be named as in Python, without its schema.
_SEARCH_PATH = sql.SQL(", ").join(map(sql.Identifier, ("seller", "marts")))

Value = str | None


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result.

    Attributes:
        kind: The name of its type, such as `numeric` or `timestamptz`.
    """

    name: str
    kind: str


@dataclass(frozen=True)
class Result:
    """The columns of a result, and its rows as texts of PostgreSQL, in blocks; one of them is in memory."""

    columns: Sequence[ResultColumn]
    blocks: Iterator[Sequence[Sequence[Value]]]


@contextmanager
def open_result(database: Database, statement: str, *, seconds: float) -> Iterator[Result]:
    """Execute a statement, and lend its result until the block ends.

    Args:
        seconds: How long PostgreSQL may take for each block of rows.

    Raises:
        RequestError: PostgreSQL refused the statement, it took too long, or it would read what people may not read.
            Also while blocks are read.
    """
    if not statement.strip():
        raise statement_error("there is no statement", statement)
    with database.connect() as connection:
        role = make_query_role(connection)
        connection.commit()
        driver = driver_of(connection)
        try:
            with _own_errors(statement):
                driver.execute("SET TRANSACTION READ ONLY")
                for name, value in (("statement_timeout", f"{round(seconds * 1000)}"), ("timezone", "UTC")):
                    driver.execute(sql.SQL("SET LOCAL {} = {}").format(sql.Identifier(name), sql.Literal(value)))
                driver.execute("SET LOCAL datestyle = 'ISO'")
                driver.execute(sql.SQL("SET LOCAL search_path = {}").format(_SEARCH_PATH))
                if role is None:
                    _require_readable(driver, statement)
                else:
                    driver.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
            yield _executed(driver, statement, role)
        finally:
            connection.rollback()


def _executed(driver: psycopg.Connection[Any], statement: str, role: str | None) -> Result:
    has_cursor = _WITHOUT_CURSOR.match(statement) is None
    prefix = _CURSOR if has_cursor else ""
    with _own_errors(statement, offset=len(prefix)):
        # A prepared statement is a single one; without, PostgreSQL would execute several with semicolons between them.
        cursor = driver.execute(prefix + statement, prepare=True)
        if has_cursor:
            cursor = driver.execute(_FETCH, prepare=True)
    result = cursor.pgresult
    assert result is not None, "a statement that was executed has a result"
    if role is not None and driver.execute("SELECT current_user").fetchone() != (role,):
        raise _forbidden("the statement changes the rights that it runs with")
    oids = [result.ftype(index) for index in range(result.nfields)]
    names = dict(driver.execute("SELECT oid, typname FROM pg_type WHERE oid = ANY (%s)", [oids]).fetchall())
    columns = [
        ResultColumn((result.fname(index) or b"").decode(), names.get(oid, "text")) for index, oid in enumerate(oids)
    ]
    return Result(columns, _blocks(driver, statement, _texts(result), has_cursor=has_cursor))


def _blocks(
    driver: psycopg.Connection[Any], statement: str, first: Sequence[Sequence[Value]], *, has_cursor: bool
) -> Iterator[Sequence[Sequence[Value]]]:
    block = first
    while block:
        yield block
        if not has_cursor:
            return
        with _own_errors(statement):
            block = _texts(driver.execute(_FETCH, prepare=True).pgresult)


def _texts(result: Any) -> list[tuple[Value, ...]]:
    """Return the values as PostgreSQL spells them."""
    fields = range(result.nfields)
    assert all(result.fformat(index) == Format.TEXT for index in fields), "text was asked for"

    def value(row: int, index: int) -> Value:
        sent = result.get_value(row, index)
        return None if sent is None else bytes(sent).decode()

    return [tuple(value(row, index) for index in fields) for row in range(result.ntuples)]


@contextmanager
def _own_errors(statement: str, *, offset: int = 0) -> Iterator[None]:
    """Turn PostgreSQL's errors about a statement into ours, with the position in the text that a person wrote."""
    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        hint = "Give it more seconds with --timeout"
        raise statement_error("it took too long, and was cancelled", statement, hint=hint) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise _forbidden(error.diag.message_primary or "permission denied") from error
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        position = int(error.diag.statement_position or 0) - offset
        if isinstance(error, psycopg.errors.SyntaxError) and position > 0 and not statement[: position - 1].strip():
            raise _forbidden("queries only read: give a SELECT, a WITH, a TABLE or VALUES") from error
        if "multiple commands" in str(error):
            raise statement_error("there are several statements; give a single one", statement) from error
        raise statement_error(
            error.diag.message_primary or str(error),
            statement,
            position=position if position > 0 else None,
            hint=error.diag.message_hint,
        ) from error


def statement_error(
    problem: str, statement: str = "", *, position: int | None = None, hint: str | None = None
) -> RequestError:
    """Return the error of a statement that PostgreSQL refused.

    The message shows the line with the problem.
    """
    lines = [problem]
    if position is not None:
        before = statement[: position - 1]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)
        lines = [f"{problem}, line {line}, column {column + 1}"]
        first = max(0, column - _SHOWN // 2)
        shown = statement.split("\n")[line - 1].replace("\t", " ")[first : first + _SHOWN]
        lines += [f"  {shown}", f"  {' ' * (column - first)}^"]
    if hint:
        lines.append(f"Hint: {hint.removesuffix('.')}.")
    return RequestError("\n".join(lines), code="StatementError")


def _forbidden(problem: str) -> RequestError:
    """Return the error of a statement that reads or changes what it may not."""
    return RequestError(
        problem,
        code="StatementForbiddenError",
        step="Read the schemas seller, history and marts, and of platform the accounts, receipts, reports and cost "
        "plans; all else has secrets.",
    )


def _require_readable(driver: psycopg.Connection[Any], statement: str) -> None:
    """Check that the plan of a statement names only tables that people may read.

    Raises:
        RequestError: It names another, or the user is a superuser.
    """
    if driver.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (True,):
        # Its functions read any file, and the plan does not name them.
        raise _forbidden("a superuser of this server cannot take the rights of a reader for a query")
    explain = "EXPLAIN (VERBOSE, FORMAT JSON) "
    if _WITHOUT_CURSOR.match(statement):
        raise _forbidden("EXPLAIN and SHOW need a role for reading, which this user may not create")
    with _own_errors(statement, offset=len(explain)):
        (plan,) = driver.execute(explain + statement, prepare=True).fetchone() or (None,)
    for schema, table in _relations(plan if not isinstance(plan, str) else json.loads(plan)):
        # A plan names the partitions of a table, which are all of the schemas seller and history.
        is_readable = (schema in (*READABLE_SCHEMAS, PARTITIONS, *_SYSTEM_SCHEMAS) and table not in _SAMPLES) or (
            schema == "platform" and table in READABLE_OF_PLATFORM
        )
        if not is_readable:
            raise _forbidden(f"permission denied for table {schema}.{table}")


def _relations(plan: Any) -> Iterator[tuple[str, str]]:
    match plan:
        case list():
            for each in plan:
                yield from _relations(each)
        case dict():
            if "Relation Name" in plan:
                yield plan.get("Schema", ""), plan["Relation Name"]
            for each in plan.values():
                yield from _relations(each)
