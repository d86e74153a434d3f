"""Roles of PostgreSQL that may read what people ask for, and nothing else.

A role is a reader if it has the comment `READER`. What it may read is granted again after each upgrade, so that
tables of later versions are readable too. The grants are what protects the rest: a user can end a read-only session.
"""

import re
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from seller_platform.errors import ReaderError, WarehouseError
from seller_platform.settings import Settings
from seller_platform.warehouse.postgres.advisory_locks import lock
from seller_platform.warehouse.postgres.database import Database, driver_of, identifiers
from seller_platform.warehouse.postgres.programs import QUERY_ROLE, READER
from seller_platform.warehouse.postgres.urls import READER_URL, parsed_url
from seller_platform.warehouse.schema.tables import HISTORY, PLATFORM, READABLE, SELLER, declared

READABLE_SCHEMAS = (SELLER, HISTORY, "marts")
"""The schemas of which a reader may read every table and view."""

_VIEWS = ("offered_slices", "problems", "published_loads", "readings", "settledness")

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
_IS_READY = """
SELECT rolcanlogin AND has_schema_privilege(oid, %s, 'USAGE')
       AND NOT has_function_privilege('public', 'pg_advisory_lock(bigint)', 'EXECUTE')
FROM pg_roles WHERE rolname = %s
"""
_REVOKE_FROM_ALL = """
DO $$
DECLARE routine regprocedure;
BEGIN
    FOR routine IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^(pg_(try_)?advisory_|lo_(creat|from_))'
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', routine);
    END LOOP;
END $$
"""


def readable_of_platform() -> Sequence[str]:
    """Return the tables and views of schema `platform` that a reader may read."""
    return [*_VIEWS, *(table.name for table in declared().tables.values() if table.info.get(READABLE))]


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
        step = "Use lower-case letters, digits and underscores, at most 63; not pg_..."
        raise ReaderError(f"{name!r} is no name for a reader", step=step)
    if len(password) < _SHORTEST_PASSWORD or not password.isprintable():
        step = f"Give one with at least {_SHORTEST_PASSWORD} printable characters."
        raise ReaderError(f"{name!r} cannot have that password", step=step)
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
                statements = [f"{each};" for each in _statements(driver, name, is_new=True)]
                raise rights_of_readers_lack(name, [*statements, f"\\password {name}"]) from error
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
            raise ReaderError(f"{name!r} is no role of this server")
        schemas = identifiers((*READABLE_SCHEMAS, PLATFORM))
        driver.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM {}").format(schemas, identifier))
        driver.execute(sql.SQL("REVOKE ALL ON SCHEMA {} FROM {}").format(schemas, identifier))
    drop = sql.SQL("DROP ROLE {}").format(identifier)
    with database.begin() as connection:
        driver = driver_of(connection)
        try:
            driver.execute(drop)
        except psycopg.errors.InsufficientPrivilege as error:
            raise rights_of_readers_lack(name, [f"{drop.as_string(driver)};"]) from error
        except psycopg.errors.DependentObjectsStillExist as error:
            where = (error.diag.message_detail or "").replace("\n", ", ")
            problem = f"{name!r} reads nothing of this database any more, but is not dropped"
            raise ReaderError(problem, where) from error


def reader_url(database: Database, settings: Settings) -> str:
    """Return the URL as which a statement of a person connects, which may turn out to be no reader's.

    Raises:
        InvalidSettingError: The URL of the settings cannot be used.
        ReaderError: As `embedded_reader` does.
    """
    if settings.database_url is None:
        return embedded_reader(database)
    if settings.reader_url is None:
        return database.url
    url = settings.reader_url.get_secret_value()
    parsed_url(url, READER_URL)  # its errors name the variable
    return url


def embedded_reader(database: Database) -> str:
    """Return the URL of the embedded server's reader, which is made if it does not exist.

    Its socket admits only the user of this process, so it needs no password. As the owner is a superuser, all others
    lose the right to take advisory locks and to create large objects.

    Raises:
        ReaderError: A role of that name was made for something else.
    """
    with database.begin() as connection:
        driver = driver_of(connection)
        if driver.execute(_IS_READY, [SELLER, QUERY_ROLE]).fetchone() != (True,):
            lock(connection, _LOCK)
            _alter(driver, QUERY_ROLE, None, is_new=not _is_reader(driver, QUERY_ROLE))
            _grant(driver, QUERY_ROLE)
            driver.execute(_REVOKE_FROM_ALL)
    return database.url_of_user(QUERY_ROLE)


def open_reading(url: str, *, seconds: float = 30.0, connections: int = 2) -> Database:
    """Return a database for answers of programs, whose transactions only read, and whose statements end in time."""
    settings = _SETTINGS | {"statement_timeout": f"{round(seconds * 1000)}"}
    return Database(url, connections=connections, settings=settings)


def readers_of(connection: Connection) -> Sequence[str]:
    """Return the names of the readers of this database."""
    return [name for (name,) in driver_of(connection).execute(_READERS, [SELLER, READER]).fetchall()]


def grant_to_readers(connection: Connection) -> None:
    """Grant every reader what readers may read, with tables that are new."""
    lock(connection, _LOCK)
    for name in readers_of(connection):
        _grant(driver_of(connection), name)


def _is_reader(driver: psycopg.Connection[Any], name: str) -> bool:
    """Return whether the role exists; a role that is no reader is an error."""
    role = driver.execute(_ROLE, [READER, name]).fetchone()
    if role == (False,):
        raise ReaderError(f"{name!r} is a role that was not made for reading", step="Choose another name.")
    return role is not None


def _alter(driver: psycopg.Connection[Any], name: str, password: str | None, *, is_new: bool) -> None:
    for statement in _statements(driver, name, is_new=is_new):
        driver.execute(statement.encode())
    if password is not None:
        # Statements may be logged: PostgreSQL gets what it stores, not the password.
        stored = driver.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
        driver.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(name), sql.Literal(stored)))


def _statements(driver: psycopg.Connection[Any], name: str, *, is_new: bool) -> list[str]:
    """Return the statements that make a role a reader, whose sessions the owner may end. Its name needs no quotes."""
    owner = sql.Identifier(driver.info.user).as_string(driver)
    created = [f"CREATE ROLE {name}", f"COMMENT ON ROLE {name} IS '{READER}'"] if is_new else []
    return [
        *created,
        f"ALTER ROLE {name} LOGIN CONNECTION LIMIT {_CONNECTIONS}",
        *(f"ALTER ROLE {name} SET {setting} = '{value}'" for setting, value in _SETTINGS.items()),
        f"GRANT {name} TO {owner}",
    ]


def _grant(driver: psycopg.Connection[Any], name: str) -> None:
    reader, tables = sql.Identifier(name), identifiers(readable_of_platform(), PLATFORM)
    schemas = (identifiers(READABLE_SCHEMAS), identifiers((*READABLE_SCHEMAS, PLATFORM)))
    driver.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(schemas[0], reader))
    driver.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schemas[1], reader))
    driver.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(tables, reader))


def rights_of_readers_lack(name: str, statements: Sequence[str]) -> WarehouseError:
    """Return the error of an owner who may not create, alter or drop the role of a reader."""
    lines = "\n".join(f"  {statement}" for statement in statements)
    return WarehouseError(
        f"the user of the database may not create, alter or drop the role {name!r}. Let an administrator of the "
        f"server type these lines in psql, and try again.\n{lines}",
        code="ReaderRightsError",
    )
