"""URLs of databases, checked so that no error repeats a part of one."""

import re
from collections.abc import Iterator
from functools import cache
from urllib.parse import parse_qsl

import sqlalchemy
from psycopg import pq
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from seller_platform.errors import InvalidSettingError, RequestError, did_you_mean

DATABASE_URL = "SELLER_PLATFORM_DATABASE_URL"
READER_URL = "SELLER_PLATFORM_READER_URL"
_SCHEMES = ("postgresql", "postgres")
_EXAMPLE = "postgresql://user:password@host:5432/database"
_ENCODED = "write @ as %40, / as %2F, # as %23, ? as %3F, and % as %25 in the user and the password"


def parsed_url(url: str, name: str = DATABASE_URL) -> sqlalchemy.URL:
    """Return the parts of a URL.

    Args:
        name: The variable or the option that has the URL, for errors.

    Raises:
        InvalidSettingError: The URL in a variable cannot be used. No part of it is repeated but a parameter's name.
        RequestError: The URL in an option cannot be used.
    """
    if (problem := next(_problems_of(url), None)) is None:
        try:
            return make_url(url)
        except (ArgumentError, ValueError):
            problem = f"is not a URL of PostgreSQL, such as {_EXAMPLE}"
    if name.startswith("--"):
        raise RequestError(
            f"{name}: {problem}", code="InvalidOptionError", step="Correct the option and run the command again."
        )
    raise InvalidSettingError(name, problem)


def place_of(url: sqlalchemy.URL) -> str:
    """Return the host and the name of a database, without user and password."""
    return f"{url.host or url.query.get('host', 'the local socket')}/{url.database}"


def _problems_of(url: str) -> Iterator[str]:
    """Yield what is wrong with a URL; only the first is certain."""
    scheme, separator, rest = url.partition("://")
    backend = scheme.partition("+")[0]
    if not url.strip():
        yield f"is empty; unset it to use the embedded server, or give {_EXAMPLE}"
    if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9]{0,20}", backend):
        yield f"is not a URL of PostgreSQL, such as {_EXAMPLE}"
    if backend not in _SCHEMES:
        yield f"names the database {backend!r}; use postgresql://"
    address, _, query = rest.partition("?")
    authority, _, path = address.partition("/")
    # A password that is not encoded ends the authority early, and its rest with the @ lies in the path or the query.
    if authority.count("@") > 1 or "@" in path or ("@" in query and "@" not in authority):
        yield f"has a user or a password with a character that must be encoded; {_ENCODED}"
    if "#" in rest:
        yield f"holds a character that a URL cannot hold there; {_ENCODED}"
    for host in authority.rpartition("@")[2].split(","):
        port = host.rpartition("]")[2].partition(":")[2]
        if port and not (port.isdecimal() and 0 < int(port) < 65_536):
            yield f"has a port that is no number from 1 to 65535, or a password that must be encoded; {_ENCODED}"
    for name in dict(parse_qsl(query, keep_blank_values=True)).keys() - parameters():
        if not re.fullmatch(r"[A-Za-z_]{1,40}", name):
            yield f"has a parameter that PostgreSQL does not know; {_ENCODED}"
        yield f"has the parameter {name!r}, which PostgreSQL does not know{did_you_mean(name, parameters())}"


@cache
def parameters() -> frozenset[str]:
    """Return the names of the parameters that libpq knows."""
    return frozenset(option.keyword.decode() for option in pq.Conninfo.get_defaults())
