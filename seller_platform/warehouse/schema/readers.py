"""Roles of PostgreSQL that may read what people ask for, and nothing else.

A role is a reader if it has the comment of `MARK`. What it may read is granted again after each upgrade, so that
tables of later versions are readable too. The grants are what protects the rest: a user can end a read-only session.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from seller_platform.errors import ReaderError, WarehouseError
from seller_platform.warehouse.postgres.advisory_locks import lock
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.postgres.programs import QUERY_ROLE
from seller_platform.warehouse.schema.tables import HISTORY, PLATFORM, SELLER

MARK = "Reads the tables of Seller Platform; made for `seller-platform database reader`."
"""The comment of each reader."""

READABLE_SCHEMAS = (SELLER, HISTORY, "marts")
"""The schemas of which a reader may read every table and view."""

READABLE_OF_PLATFORM = (
    "accounts",
    "booked_lines",
    "bookings",
    "comparisons",
    "cost_plans",
    "cost_writes",
    "derived_partitions",
    "history_start",
    "loads",
    "mart_builds",
    "noted_slices",
    "offered_slices",
    "problems",
    "published_loads",
    "readings",
    "repeated_ledgers",
    "report_jobs",
    "sampled_slices",
    "settledness",
    "slices",
    "troubled_slices",
)
"""The tables and views of schema `platform` that a reader may read. The others have secrets, or facts for programs."""

_CONNECTIONS = 10
_SETTINGS = {
    "default_transaction_read_only": "on",
    "statement_timeout": "5min",
    "idle_in_transaction_session_timeout": "5min",
}
_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_SHORTEST_PASSWORD = 12
_LOCK = "database readers"

_ROLE = "SELECT coalesce(shobj_description(oid, 'pg_authid') = %s, false) FROM pg_roles WHERE rolname = %s"
_READERS = """
SELECT DISTINCT role.rolname
FROM pg_namespace AS namespace
CROSS JOIN LATERAL aclexplode(namespace.nspacl) AS granted
JOIN pg_roles AS role ON role.oid = granted.grantee
WHERE namespace.nspname = %s AND shobj_description(role.oid, 'pg_authid') = %s
ORDER BY 1
"""


def save_reader(database: Database, name: str, password: str) -> bool:
    """Create the role of a reader, or change its password; and grant it what readers may read.

    Returns:
        Whether the password was set. It was not if an administrator made the role, and the user of the database may not
        alter it.

    Raises:
        ReaderError: The name or the password cannot be used, or the role is none of a reader.
        WarehouseError: The user of the database may not create the role.
    """
    if _NAME.fullmatch(name) is None or name in ("none", "public"):
        raise ReaderError(
            name, "is no name for a reader. Use lower-case letters, digits and underscores, at most 63; not pg_..."
        )
    if len(password) < _SHORTEST_PASSWORD or not password.isprintable():
        raise ReaderError(
            name, f"cannot have that password. It must have at least {_SHORTEST_PASSWORD} printable characters"
        )
    with database.begin() as connection:
        lock(connection, _LOCK)
        driver = driver_of(connection)
        is_new = not _is_reader(driver, name)
        try:
            with driver.transaction():
                _alter(driver, name, password, is_new=is_new)
            is_set = True
        except psycopg.errors.InsufficientPrivilege as error:
            if is_new:
                raise rights_of_readers_lack(name, _statements_of_administrator(name)) from error
            is_set = False
        _grant(driver, name)
    return is_set


def remove_reader(database: Database, name: str) -> None:
    """Take every grant from a reader, and drop its role.

    Raises:
        ReaderError: There is no such reader, or the role has grants elsewhere. Of this database it reads nothing more.
        WarehouseError: The user of the database may not drop the role. It reads nothing more.
    """
    identifier = sql.Identifier(name)
    with database.begin() as connection:
        lock(connection, _LOCK)
        driver = driver_of(connection)
        if not _is_reader(driver, name):
            raise ReaderError(name, "is no role of this server")
        for schema in map(sql.Identifier, (*READABLE_SCHEMAS, PLATFORM)):
            driver.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM {}").format(schema, identifier))
            driver.execute(sql.SQL("REVOKE ALL ON SCHEMA {} FROM {}").format(schema, identifier))
    drop = sql.SQL("DROP ROLE {}").format(identifier)
    with database.begin() as connection:
        driver = driver_of(connection)
        try:
            driver.execute(drop)
        except psycopg.errors.InsufficientPrivilege as error:
            raise rights_of_readers_lack(name, [f"{drop.as_string(driver)};"]) from error
        except psycopg.errors.DependentObjectsStillExist as error:
            where = (error.diag.message_detail or "").replace("\n", ", ")
            raise ReaderError(name, f"reads nothing of this database any more, but is not dropped: {where}") from error


def make_query_role(connection: Connection) -> str | None:
    """Return the role whose rights a query takes, made on first use; None if the user of the database may not make it.

    Other databases of the server may have made the role: what it may read of this one is granted here.

    Raises:
        ReaderError: A role of that name was made for something else.
    """
    driver = driver_of(connection)
    can_be_taken = "SELECT pg_has_role(%s, 'MEMBER') FROM pg_roles WHERE rolname = %s"
    try:
        is_new = not _is_reader(driver, QUERY_ROLE)
        if not is_new and QUERY_ROLE in readers_of(connection):
            return QUERY_ROLE if driver.execute(can_be_taken, [QUERY_ROLE, QUERY_ROLE]).fetchone() == (True,) else None
        lock(connection, _LOCK)
        with driver.transaction():
            role = sql.Identifier(QUERY_ROLE)
            if not _is_reader(driver, QUERY_ROLE):
                driver.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(role))
                driver.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(role, sql.Literal(MARK)))
                driver.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(role))
            _grant(driver, QUERY_ROLE)
    except ReaderError:
        problem = "is a role that was not made for reading, and queries need the name. Rename or drop that role"
        raise ReaderError(QUERY_ROLE, problem) from None
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction):
        return None
    return QUERY_ROLE if driver.execute(can_be_taken, [QUERY_ROLE, QUERY_ROLE]).fetchone() == (True,) else None


@contextmanager
def open_as_reader(database: Database, *, seconds: float = 30.0, connections: int = 2) -> Iterator[Database]:
    """Lend the database with the rights of a reader: every transaction only reads, and a statement ends in time.

    Where the user of the database may not make the role, transactions only read, with the rights of that user.

    Args:
        seconds: How long a statement may take.
        connections: How many connections may be open at once.
    """
    with database.begin() as connection:
        role = make_query_role(connection)
    timeout = f"{round(seconds * 1000)}"
    settings = {**_SETTINGS, "statement_timeout": timeout, "timezone": "UTC"} | ({"role": role} if role else {})
    with Database(database.url, connections=connections, settings=settings) as reader:
        yield reader


def readers_of(connection: Connection) -> Sequence[str]:
    """Return the names of the readers of this database."""
    return [name for (name,) in driver_of(connection).execute(_READERS, [SELLER, MARK]).fetchall()]


def grant_to_readers(connection: Connection) -> None:
    """Grant every reader what readers may read, with tables that are new."""
    lock(connection, _LOCK)
    for name in readers_of(connection):
        _grant(driver_of(connection), name)


def _is_reader(driver: psycopg.Connection[Any], name: str) -> bool:
    """Return whether the role exists; a role that is no reader is an error."""
    role = driver.execute(_ROLE, [MARK, name]).fetchone()
    if role == (False,):
        raise ReaderError(name, "is a role that was not made for reading. Choose another name")
    return role is not None


def _alter(driver: psycopg.Connection[Any], name: str, password: str, *, is_new: bool) -> None:
    parts: dict[str, sql.Composable] = {"name": sql.Identifier(name), "mark": sql.Literal(MARK)}
    if is_new:
        driver.execute(sql.SQL("CREATE ROLE {name}").format(**parts))
        driver.execute(sql.SQL("COMMENT ON ROLE {name} IS {mark}").format(**parts))
    driver.execute(
        sql.SQL("ALTER ROLE {name} LOGIN CONNECTION LIMIT {limit}").format(**parts, limit=sql.Literal(_CONNECTIONS))
    )
    for setting, value in _SETTINGS.items():
        statement = sql.SQL("ALTER ROLE {name} SET {setting} = {value}")
        driver.execute(statement.format(**parts, setting=sql.Identifier(setting), value=sql.Literal(value)))
    # Statements may be logged: PostgreSQL gets what it stores, not the password.
    stored = driver.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    driver.execute(sql.SQL("ALTER ROLE {name} PASSWORD {stored}").format(**parts, stored=sql.Literal(stored)))


def _grant(driver: psycopg.Connection[Any], name: str) -> None:
    reader = sql.Identifier(name)
    for schema in map(sql.Identifier, READABLE_SCHEMAS):
        driver.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(schema, reader))
        driver.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, reader))
    tables = sql.SQL(", ").join(sql.Identifier(PLATFORM, table) for table in READABLE_OF_PLATFORM)
    driver.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(tables, reader))
    driver.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(PLATFORM), reader))


def set_password_in_psql(name: str) -> str:
    """Return the line that sets the password of a role, as an administrator types it in psql."""
    return f"\\password {name}"


def rights_of_readers_lack(name: str, statements: Sequence[str]) -> WarehouseError:
    """Return the error of an owner who may not create, alter or drop the role of a reader."""
    lines = "\n".join(f"  {statement}" for statement in statements)
    return WarehouseError(
        f"the user of the database may not create, alter or drop the role {name!r}. Let an administrator of the "
        f"server type these lines in psql, and try again.\n{lines}",
        code="ReaderRightsError",
    )


def _statements_of_administrator(name: str) -> list[str]:
    """Return what a user with CREATEROLE types, as psql reads it. The names need no quotes."""
    return [
        f"CREATE ROLE {name} LOGIN CONNECTION LIMIT {_CONNECTIONS};",
        *(f"ALTER ROLE {name} SET {setting} = '{value}';" for setting, value in _SETTINGS.items()),
        f"COMMENT ON ROLE {name} IS '{MARK}';",
        set_password_in_psql(name),
    ]
