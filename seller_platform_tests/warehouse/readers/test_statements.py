"""Hostile SELECTs: a statement reads no secret and no file, changes nothing, and keeps no load waiting."""

import re
import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, product
from random import Random

import psycopg
import pytest
from psycopg import sql

from seller_platform.errors import SellerPlatformError
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.advisory_locks import hold, releasing
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.readers.statements import open_result
from seller_platform.warehouse.schema.readers import embedded_reader, remove_reader, save_reader
from seller_platform_tests.support.postgres import copied, drop_database
from seller_platform_tests.support.system_postgres import oldest_server

SECRET, LOCK, PASSWORD = "canary-7f3a", "orders|us-1|2026-03", "correct horse battery"
SECONDS = 0.4
_SECRETS = f"""
INSERT INTO platform.connections (name, base_url, auth_url, client_id, client_secret)
VALUES ('shop', '', '', '', '{SECRET}');
INSERT INTO platform.grants (connection, token_pair, generation, issued_at, expires_at)
VALUES ('shop', '{SECRET}', 1, now(), now());
INSERT INTO service.users (id, email, name, password_hash) VALUES (1, '{SECRET}', '{SECRET}', '{SECRET}');
"""
# A function whose result may depend on stored rows, files or settings, or that changes them.
_FUNCTIONS = """
SELECT oid::regproc::text, ARRAY(SELECT format_type(kind, NULL) FROM unnest(proargtypes) AS kind)
FROM pg_proc
WHERE prokind = 'f' AND provolatile <> 'i' AND has_function_privilege(oid, 'EXECUTE') AND proname !~ '^pg_sleep'
  AND NOT prorettype = ANY (ARRAY['trigger', 'event_trigger', 'internal']::regtype[])
  AND NOT proargtypes::oid[] && ARRAY['internal', 'cstring']::regtype[]::oid[]
ORDER BY oid::regprocedure::text
"""
_TOKENS = "SELECT array_to_tsvector(array_agg(convert_from(token_pair, 'utf8'))) FROM platform.grants"
_QUERIES = (
    _TOKENS,
    "SELECT convert_from(token_pair, 'utf8') FROM platform.grants",
    "SELECT password_hash FROM service.users",
    "SELECT pg_read_file('/etc/passwd')",
)
_TEXTS = (
    *_QUERIES,
    *("COPY (SELECT 1) TO PROGRAM 'cat /etc/passwd'", "SET SESSION AUTHORIZATION postgres"),
    *("platform.grants", "service.users", "grants", "platform", "service", "token_pair", "true"),
    *("/etc/passwd", "pg_hba.conf", "postgresql.auto.conf", "../../../../etc/passwd", "base"),
    *("role", "session_authorization", "postgres", "none", "statement_timeout", "0", "search_path"),
    *("default_transaction_read_only", "off", "log_statement", "local_preload_libraries", "client_encoding", "LATIN1"),
    *(f"dbname={{database}} host={{host}} user={user} password=x" for user in ("postgres", "{reader}")),
)
_RUNS_TEXT = re.compile("xml|xpath|stat|config|rewrite|dblink|lo_|import|export|read|file|cursor")
_OBJECTS = tuple(
    f"(SELECT oid FROM pg_class WHERE relname = '{name}' LIMIT 1)" for name in ("grants", "users", "pg_authid")
)
_NUMBERS = ("0", "1", "-1", "pg_backend_pid()", *_OBJECTS)
_LITERALS = {
    "boolean": ("true", "false"),
    **dict.fromkeys(("oid", "regclass"), _OBJECTS),
    **dict.fromkeys(("smallint", "integer", "bigint", "numeric", "double precision", "real"), _NUMBERS),
    **dict.fromkeys(("text[]", "name[]"), ("'{role,token_pair}'",)),
    "tsquery": ("'a'",),
    "xml": ("'<a/>'",),
    "interval": ("'1 s'",),
}
_SHAPES = (
    "SELECT {call}",
    "SELECT * FROM {call} AS called",
    "SELECT set_config('role', 'none', true), (SELECT string_agg(word, ' ') FROM ts_stat({tokens})) FROM {call} AS c",
    "SELECT set_config('session_authorization', 'postgres', false), c.* FROM {call} AS c",
    "SELECT query_to_xml({quoted}, true, true, '')",
    "SELECT word FROM ts_stat({vector})",
    "WITH called AS MATERIALIZED (SELECT * FROM {call} AS c) SELECT t.*, pg_notify('a', t::text) FROM called AS t",
    "EXPLAIN ANALYZE SELECT {call}",
)
_LOCKS = [
    (f"pg_{attempt}advisory_{length}lock{mode}", is_held)
    for attempt, length, mode in product(("", "try_"), ("", "xact_"), ("", "_shared"))
    for is_held in ((False, True) if attempt == "" else (False,))
]
"""Every function that takes a lock, which is free or held by another load; and who tries only gets none of a load."""

_READ = (
    SECRET,
    SECRET.encode().hex(),
    b64encode(SECRET.encode()).decode(),
    "root:x:0",
    "map=seller_platform",
    "local all all",
)
_STATE = """
SELECT (SELECT array_agg(r::text ORDER BY r::text) FROM pg_roles AS r),
       (SELECT array_agg(s::text ORDER BY s::text) FROM pg_db_role_setting AS s),
       (SELECT count(*) FROM pg_largeobject_metadata), (SELECT array_agg(g::text) FROM platform.grants AS g),
       (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc)
"""


@dataclass(frozen=True)
class Server:
    """A database with secrets, and the login that statements connect as."""

    database: Database
    reader_url: str


@contextmanager
def _embedded(postgres: EmbeddedServer) -> Iterator[Server]:
    with Database(copied(postgres, "hostile")) as database:
        yield Server(database, embedded_reader(database))
        remove_reader(database, "seller_query")
    drop_database(postgres, "hostile")


@contextmanager
def _oldest_with_contrib() -> Iterator[Server]:
    """A server whose owner is no superuser, with the extensions that run text or read files."""
    with oldest_server("dblink", "xml2", "lo", "pgcrypto") as url, Database(url) as database:
        migrate(database)
        save_reader(database, "ana", PASSWORD)
        yield Server(database, database.url_of_user("ana"))


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("oldest with contrib", marks=pytest.mark.slow)], name="server"
)
def _server(request: pytest.FixtureRequest, postgres: EmbeddedServer) -> Iterator[Server]:
    with _embedded(postgres) if request.param == "embedded" else _oldest_with_contrib() as server:
        with psycopg.connect(server.database.url) as owner:
            owner.execute(_SECRETS.encode())
        yield server


def _hostile(server: Server) -> Iterator[str]:
    """Yield 2,000 calls of every function that a reader may execute, with hostile arguments."""
    with psycopg.connect(server.reader_url) as connection:
        functions = connection.execute(_FUNCTIONS).fetchall()
        names = {"database": connection.info.dbname, "host": connection.info.host, "reader": connection.info.user}
    random, weights = Random(7), [20 if _RUNS_TEXT.search(name) else 1 for name, _ in functions]
    for name, kinds in functions + random.choices(functions, weights, k=2_000 - len(functions)):
        texts = random.choice((_QUERIES, _TEXTS))
        values = [
            random.choice(_LITERALS.get(kind) or [sql.quote(text.format(**names)) for text in texts]) for kind in kinds
        ]
        call = f"{name}({', '.join(f'({value})::{kind}' for value, kind in zip(values, kinds, strict=True))})"
        vector = f"SELECT to_tsvector('simple', called::text) FROM {call} AS called"
        yield random.choice(_SHAPES).format(
            call=call, quoted=sql.quote(f"SELECT {call}"), vector=sql.quote(vector), tokens=sql.quote(_TOKENS)
        )


@pytest.mark.needs("service")
@pytest.mark.parametrize("count", [100, pytest.param(2_000, marks=pytest.mark.nightly)])
def test_hostile_statements_read_no_secret_and_no_file_and_change_nothing(server: Server, count: int) -> None:
    with psycopg.connect(server.database.url) as owner:
        before = owner.execute(_STATE).fetchone()
        answered, leaks = 0, []

        for statement in Random(7).sample([*_hostile(server)], count):
            try:
                with open_result(server.reader_url, statement, seconds=SECONDS) as result:
                    seen = repr(list(islice(result.blocks, 2)))
                answered += 1
            except SellerPlatformError as error:
                seen = str(error)
            if any(each in seen for each in _READ):
                leaks.append((statement, seen))

        owner.commit()
        assert leaks == []
        assert owner.execute(_STATE).fetchone() == before
    assert answered > count / 20


def _ask(server: Server, statement: str) -> str:
    try:
        with open_result(server.reader_url, statement, seconds=30) as result:
            return repr(list(result.blocks))
    except SellerPlatformError as error:
        return str(error)


@pytest.mark.needs("service")
@pytest.mark.parametrize(("function", "is_held"), _LOCKS)
def test_no_load_waits_for_a_lock_of_a_statement(server: Server, function: str, is_held: bool) -> None:
    statement = f"SELECT {function}(hashtextextended('{LOCK}', 0)), pg_sleep(20)"
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
    with ThreadPoolExecutor() as threads, server.database.connect() as load, server.database.connect() as other:
        with releasing(other):
            if is_held:
                hold(other, LOCK)
            asked = threads.submit(_ask, server, statement)
            while not asked.done() and other.exec_driver_sql(waiting).scalar_one() == 0:
                time.sleep(0.01)
            held = threads.submit(hold, load, LOCK)
            while is_held and not asked.done():
                time.sleep(0.01)
        with releasing(load):
            held.result(timeout=5)

        assert "permission denied for function" in asked.result() or "a lock that a load waits for" in asked.result()
