"""Databases for tests, emptied after each test and used again.

A copy of the template takes a quarter of a second.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import psycopg
from psycopg import sql

from seller_platform.warehouse.postgres.database import Database
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


@dataclass
class Databases:
    """Lends migrated, empty databases of one server."""

    server: EmbeddedServer
    template: str = TEMPLATE
    _free: list[str] = field(default_factory=list)
    _definitions: dict[str, tuple[object, ...]] = field(default_factory=dict)
    _kept: dict[tuple[str, str], object] = field(default_factory=dict)

    def lend(self) -> str:
        """Return the name of a database."""
        if self._free:
            return self._free.pop()
        name = f"test_{next(_NUMBERS)}"
        with psycopg.connect(self.server.database(name, template=self.template), autocommit=True) as connection:
            if not self._kept:
                self._kept = {
                    table: content
                    for table in _with_pages(connection)
                    if (content := _content(connection, table)) != (None,)
                }
            self._definitions[name] = _definitions(connection)
        return name

    @contextmanager
    def lent(self) -> Iterator[Database]:
        """Lend a database until the block ends, and open it; that of a block that fails is not used again."""
        name = self.lend()
        with Database(self.server.url(name)) as database:
            yield database
        self.take_back(name)

    def take_back(self, name: str) -> None:
        """Empty a database, or drop it if a test changed more than rows."""
        with psycopg.connect(self.server.url(name), autocommit=True) as connection:
            connection.execute(_END_OTHERS)
            definitions = _definitions(connection)
            is_whole = definitions == self._definitions.pop(name) and all(
                _content(connection, table) == content for table, content in self._kept.items()
            )
            if is_whole:
                has_new_files = self._empty(connection)
                self._definitions[name] = _definitions(connection) if has_new_files else definitions
        if is_whole:
            self._free.append(name)
        else:
            drop_database(self.server, name)

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


def end_connections(server: EmbeddedServer, name: str) -> None:
    """End all connections to a database, so that it may be copied."""
    with psycopg.connect(server.url(name), autocommit=True) as connection:
        connection.execute(_END_OTHERS)


def count_transactions(url: str) -> None:
    """Let a server count more transactions than a new one has."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "DO $$ BEGIN FOR number IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
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
