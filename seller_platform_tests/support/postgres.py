"""Databases for tests, emptied after each test and used again with their connection.

A copy of the template takes a quarter of a second. A new connection reads the definitions of all tables that it uses,
which takes more CPU than most tests.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

import psycopg
from psycopg import errors, sql
from sqlalchemy import QueuePool

from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.postgres.embedded import EmbeddedServer

TEMPLATE = "template_seller"
DAGSTER_TEMPLATE = "template_dagster"
"""A copy of the other template, with Dagster's tables, which take Dagster half a second."""

_NUMBERS = count(1)
# A table whose file has no page has no row. Reading all tables takes a new connection five times as long. PostgreSQL
# plans statements with a table of at most ten pages as with an empty one, unless it was vacuumed or analyzed.
_WITH_PAGES = """
SELECT namespace.nspname, class.relname,
       pg_relation_size(class.oid) <= 10 * current_setting('block_size')::integer AND class.reltuples < 0
FROM pg_class AS class JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
WHERE class.relkind = 'r' AND class.relpersistence <> 't'
  AND namespace.nspname NOT IN ('pg_catalog', 'information_schema')
  AND (pg_stat_file(pg_relation_filepath(class.oid))).size > 0
"""
# A definition, an alteration or a permission leaves a younger row in one of these. The age of the oldest possible row
# makes it a number that stays the same.
_DEFINITIONS = """
SELECT ARRAY[
           (SELECT min(age(xmin)) FROM pg_class), (SELECT min(age(xmin)) FROM pg_attribute),
           (SELECT min(age(xmin)) FROM pg_attrdef), (SELECT min(age(xmin)) FROM pg_constraint),
           (SELECT min(age(xmin)) FROM pg_proc), (SELECT min(age(xmin)) FROM pg_trigger),
           (SELECT min(age(xmin)) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'),
           (SELECT min(age(xmin)) FROM pg_rewrite)
       ]::bigint[],
       age('3'::xid),
       (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_constraint), (SELECT count(*) FROM pg_trigger),
       (SELECT count(*) FROM pg_db_role_setting), (SELECT count(*) FROM pg_largeobject_metadata)
"""
_COUNTED = """
SELECT namespace.nspname, owner.relname, sequence.seqrelid, sequence.seqstart
FROM pg_sequence AS sequence
JOIN pg_depend AS depend
    ON depend.classid = 'pg_class'::regclass AND depend.objid = sequence.seqrelid AND depend.deptype IN ('a', 'i')
JOIN pg_class AS owner ON owner.oid = depend.refobjid AND owner.relkind = 'r'
JOIN pg_namespace AS namespace ON namespace.oid = owner.relnamespace
WHERE pg_sequence_last_value(sequence.seqrelid) IS NOT NULL
"""
_END_OTHERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def copied(server: EmbeddedServer, name: str, template: str = TEMPLATE) -> str:
    """Return the URL of a database, which is created as the copy of another one unless it exists."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection, suppress(errors.DuplicateDatabase):
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
    return server.url(name)


@dataclass
class Databases:
    """Lends migrated, empty databases of one server."""

    server: EmbeddedServer
    template: str = TEMPLATE
    _free: list[Database] = field(default_factory=list)
    _definitions: dict[Database, tuple[object, ...]] = field(default_factory=dict)
    _kept: dict[tuple[str, str], object] = field(default_factory=dict)

    @contextmanager
    def lent(self) -> Iterator[Database]:
        """Lend a database until the block ends. Then it is emptied, or dropped if more than its rows was changed.

        That of a block that fails is not used again.
        """
        database = self._free.pop() if self._free else self._new()
        yield database
        with _only_connection(database) as connection:
            connection.execute(_END_OTHERS)
            definitions = _definitions(connection)
            is_whole = definitions == self._definitions[database] and all(
                _content(connection, table) == content for table, content in self._kept.items()
            )
            if is_whole and self._empty(connection):
                self._definitions[database] = _definitions(connection)
        if is_whole:
            self._free.append(database)
        else:
            database.close()
            drop_database(self.server, database.engine.url.database or "")

    def _new(self) -> Database:
        database = Database(copied(self.server, f"test_{next(_NUMBERS)}", self.template))
        with _only_connection(database) as connection:
            if not self._kept:
                self._kept = {
                    table: content
                    for table in _with_pages(connection)
                    if (content := _content(connection, table)) != (None,)
                }
            self._definitions[database] = _definitions(connection)
        return database

    def close(self) -> None:
        """Close the connections to all databases."""
        for database in self._definitions:
            database.close()

    def _empty(self, connection: psycopg.Connection) -> bool:
        """Delete all rows, let sequences begin again, and return whether tables have new files.

        TRUNCATE gives a table and its indexes new files, which takes several times as long as to delete a few rows.
        """
        changed = {table: is_small for table, is_small in _with_pages(connection).items() if table not in self._kept}
        connection.execute("SET session_replication_role = replica")  # security events refuse it otherwise
        if small := [sql.Identifier(*table) for table, is_small in sorted(changed.items()) if is_small]:
            connection.execute(sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(table) for table in small))
        if large := [sql.Identifier(*table) for table, is_small in sorted(changed.items()) if not is_small]:
            connection.execute(sql.SQL("TRUNCATE {} CASCADE").format(sql.SQL(", ").join(large)))
        connection.execute("RESET session_replication_role")
        for schema, name, sequence, start in connection.execute(_COUNTED).fetchall():
            if (schema, name) not in self._kept:
                connection.execute("SELECT setval(%s::oid::regclass, %s, false)", (sequence, start))
        return bool(large)


@contextmanager
def _only_connection(database: Database) -> Iterator[psycopg.Connection]:
    """Lend the connection that a database has kept, as it was when it was new, and close all others of its pool."""
    pool = database.engine.pool
    assert isinstance(pool, QueuePool)
    if pool.checkedin() > 1 or pool.checkedout():
        database.close()
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # With a number, because psycopg forgets its prepared statements only after one that it has not seen before.
        driver_of(connection).execute(f"DISCARD ALL -- {next(_NUMBERS)}".encode())
        yield driver_of(connection)


def end_connections(server: EmbeddedServer, name: str) -> None:
    """End all connections to a database, so that it may be copied."""
    with psycopg.connect(server.url(name), autocommit=True) as connection:
        connection.execute(_END_OTHERS)


def count_transactions(url: str) -> None:
    """Let a server count more transactions than a new one has."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "DO $$ BEGIN FOR each IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
        )


def drop_database(server: EmbeddedServer, name: str) -> None:
    """Delete a database and end the connections to it."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _with_pages(connection: psycopg.Connection) -> dict[tuple[str, str], bool]:
    """Return the tables that have rows or had some, and whether each is small."""
    return {(schema, name): is_small for schema, name, is_small in connection.execute(_WITH_PAGES).fetchall()}


def _content(connection: psycopg.Connection, table: tuple[str, str]) -> object:
    statement = sql.SQL("SELECT array_agg(stored::text ORDER BY stored::text) FROM {} AS stored")
    return connection.execute(statement.format(sql.Identifier(*table))).fetchone()


def _definitions(connection: psycopg.Connection) -> tuple[object, ...]:
    row = connection.execute(_DEFINITIONS).fetchone()
    assert row is not None
    ages, oldest, *counts = row
    return (*(oldest - age for age in ages), *counts)


def answers(url: str) -> bool:
    """Return whether a server lets a client in."""
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
