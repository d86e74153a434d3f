"""The parameters that every connection to PostgreSQL begins with, and the check of what it is connected to.

The values that programs exchange depend on settings of the session. PostgreSQL takes them from its configuration, the
database, the role, variables of the environment, and last from the connection itself, which therefore names them all.
"""

import os
import re
import sys
from collections.abc import Mapping
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from select import select
from typing import Any

import psycopg
import sqlalchemy
from psycopg.conninfo import make_conninfo

from seller_platform.errors import WarehouseError
from seller_platform.warehouse.postgres.urls import parsed_url, place_of

SETTINGS: Mapping[str, str] = {
    "DateStyle": "ISO,MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "search_path": "",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "array_nulls": "on",
    "transform_null_equals": "off",
}
"""Settings that decide how values are written and read, and which table a name means."""

ENCODING = "UTF8"
_LOST_CLIENTS = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
"""The locks of a machine that is gone end after a minute. By default PostgreSQL notices it after two hours."""
# libpq has no parameters for the last three, and they count more than the options of a connection.
_VARIABLES = ("PGCLIENTENCODING", "PGOPTIONS", "PGDATESTYLE", "PGTZ", "PGGEQO")
_SPECIAL, _ESCAPED = re.compile(r"([\\ ])"), r"\\\1"
_WORD = re.compile(r"[a-z][a-z_-]*")
_POOLER_SECONDS = 5.0
# What PgBouncer says of parameters that it does not pass on, and PostgreSQL of an encoding that it cannot convert.
_UNSUPPORTED_PARAMETER = "unsupported startup parameter"
_OTHER_ENCODING = re.compile(rf"conversion between {ENCODING} and (\w+) is not supported")


def session(url: sqlalchemy.URL, settings: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Return the parameters of libpq that a connection needs beside those of its URL.

    Options of the URL stay, except where they change one of these settings. Settings beside `SETTINGS`, or in their
    place, may be given; one that is None is left as it is. Of libpq's variables only those of the address, the login
    and TLS stay in the environment of this process and those that it starts.
    """
    for name in _VARIABLES:
        os.environ.pop(name, None)
    given = url.query.get("options", ())
    named = {**SETTINGS, **(settings or {})}
    own = [f"-c {name}={_SPECIAL.sub(_ESCAPED, value)}" for name, value in named.items() if value is not None]
    # PGHOSTADDR would count more than the socket.
    address = {"hostaddr": ""} if str(url.query.get("host", "")).startswith("/") else {}
    # This program with its command, such as `seller-platform sync`.
    path, *words = sys.argv or [""]
    program = Path(path).parent.name if path.endswith("__main__.py") else Path(path).name
    command = " ".join([program or "seller-platform", *takewhile(_WORD.fullmatch, words[:2])])
    return {
        **address,
        "application_name": str(url.query.get("application_name") or command),
        "client_encoding": ENCODING,
        "options": " ".join([_LOST_CLIENTS, *([given] if isinstance(given, str) else given), *own]),
    }


def parameters(url: str, settings: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Return all parameters of a connection by the names of libpq; with settings as in `session`."""
    parsed = parsed_url(url).set(drivername="postgresql+psycopg")
    _, given = parsed.get_dialect()().create_connect_args(parsed)
    return {name: str(value) for name, value in given.items()} | session(parsed, settings)


def conninfo(url: str, settings: Mapping[str, str | None] | None = None) -> str:
    """Return `parameters` as a connection string of libpq, which cannot read every URL that SQLAlchemy writes."""
    return make_conninfo("", **parameters(url, settings))


def check_server(driver: Any, url: str, settings: Mapping[str, str | None] | None = None) -> None:
    """Return if a new connection leads to a database of UTF-8, and is a session with the settings of `SETTINGS`.

    Args:
        driver: The connection of psycopg or psycopg2.
        url: What it was made with, as the settings.

    Raises:
        WarehouseError: The database has another encoding, or a pooler shares its sessions or changes its settings.
    """
    where, names = place_of(parsed_url(url)), [name for name in SETTINGS if name not in (settings or {})]
    columns = ", ".join(f"current_setting('{name}')" for name in ("server_encoding", *names))
    process, encoding, *values = _row(driver, f"SELECT pg_backend_pid(), {columns}")
    if encoding != ENCODING:
        raise _encoding_error(where, encoding)
    # A pooler gives its clients numbers of its own.
    if process != driver.info.backend_pid and _is_shared(driver, process, conninfo(url, settings)):
        raise _pooler_error(where, "it is in transaction mode, in which connections share locks and settings")
    for name, value in zip(names, values, strict=True):
        if value.replace(" ", "") != SETTINGS[name]:
            raise _pooler_error(where, f"connections begin with {name}={SETTINGS[name]}, and the server has {value!r}")


def refused_begin(where: str, message: str) -> WarehouseError | None:
    """Return the error for a server that refuses how a connection begins; None for another message."""
    if encoding := _OTHER_ENCODING.search(message):
        return _encoding_error(where, encoding[1])
    return _pooler_error(where, message) if _UNSUPPORTED_PARAMETER in message else None


def _encoding_error(where: str, encoding: str) -> WarehouseError:
    return WarehouseError(
        f"the database {where} has the encoding {encoding}, which cannot store every text; UTF8 is needed",
        code="DatabaseEncodingError",
        step="Create another one in psql with `CREATE DATABASE name TEMPLATE template0 ENCODING 'UTF8' LOCALE "
        "'C.UTF-8'`, and name it in SELLER_PLATFORM_DATABASE_URL.",
    )


def _pooler_error(where: str, problem: str) -> WarehouseError:
    return WarehouseError(
        f"a pooler, such as PgBouncer, answers at {where}: {problem}",
        code="PoolerError",
        step="Name PostgreSQL itself in SELLER_PLATFORM_DATABASE_URL, not the pooler; its port is 5432 by default.",
    )


def _is_shared(driver: Any, process: int, given: str) -> bool:
    """Whether two connections to a pooler get the same process of PostgreSQL in turn, or one of them gets several."""
    first, second, ask = {process}, set(), "SELECT pg_backend_pid()"
    with closing(psycopg.connect(given, autocommit=True)) as other:
        for _ in range(2):
            other.pgconn.send_query(ask.encode())
            if not select([other.fileno()], [], [], _POOLER_SECONDS)[0]:
                return False  # it waits until the first one ends
            while (result := other.pgconn.get_result()) is not None:
                second.add(int(result.get_value(0, 0) or 0))
    first.add(_row(driver, ask)[0])
    return len(first) > 1 or len(second) > 1 or first == second


def _row(driver: Any, statement: str) -> tuple[Any, ...]:
    with driver.cursor() as cursor:
        cursor.execute(statement)
        row: tuple[Any, ...] = cursor.fetchone()
    driver.rollback()
    return row
