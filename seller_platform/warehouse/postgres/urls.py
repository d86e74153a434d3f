"""URLs of databases, checked so that no error repeats a part of one."""

import difflib
import re
from functools import cache
from urllib.parse import parse_qsl

import sqlalchemy
from psycopg import pq
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from seller_platform.errors import InvalidSettingError, RequestError

DATABASE_URL = "SELLER_PLATFORM_DATABASE_URL"
READER_URL = "SELLER_PLATFORM_READER_URL"
_SCHEMES = ("postgresql", "postgres")
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(\?(?P<query>[^#]*))?"
)
_AUTHORITY = re.compile(r"([^@:]*(:[^@]*)?@)?(?P<hosts>[^@]*)")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^@:\[\]\s]*)(:(?P<port>[^:]*))?")
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
    if (problem := _problem_of(url)) is None:
        try:
            return make_url(url)
        except (ArgumentError, ValueError):
            problem = f"is not a URL of PostgreSQL, such as {_EXAMPLE}"
    if name.startswith("--"):
        raise RequestError(
            f"{name}: {problem}", code="InvalidOptionError", step="Correct the option and run the command again."
        )
    raise InvalidSettingError(name, problem)


def user_of(url: sqlalchemy.URL) -> str:
    """Return the user that a URL names, before the host or as a parameter."""
    return str(url.query.get("user", url.username or ""))


def place_of(url: sqlalchemy.URL) -> str:
    """Return the host and the name of a database, without user and password."""
    return f"{url.host or url.query.get('host', 'the local socket')}/{url.database}"


def _problem_of(url: str) -> str | None:
    """Return what is wrong with a URL."""
    scheme, separator, _ = url.partition("://")
    backend = scheme.partition("+")[0]
    if not url.strip():
        return f"is empty; unset it to use the embedded server, or give {_EXAMPLE}"
    if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9]{0,20}", backend):
        return f"is not a URL of PostgreSQL, such as {_EXAMPLE}"
    if backend not in _SCHEMES:
        return f"names the database {backend!r}; use postgresql://"
    match = _URL.fullmatch(url)
    if match is None:
        return f"holds a character that a URL cannot hold there; {_ENCODED}"
    return _problem_of_hosts(match) or _problem_of_parameters(match["query"] or "")


def _problem_of_hosts(url: re.Match[str]) -> str | None:
    authority, query = url["authority"], url["query"] or ""
    # A password that is not encoded ends the authority early, and its rest with the @ lies in the path or the query.
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None or "@" in (url["path"] or "") or ("@" in query and "@" not in authority):
        return f"has a user or a password with a character that must be encoded; {_ENCODED}"
    for host in parts["hosts"].split(","):
        address = _HOST.fullmatch(host)
        if address is None:
            return f"has a host that cannot be read; {_ENCODED}"
        if address["port"] and not (address["port"].isdigit() and 0 < int(address["port"]) < 65_536):
            return f"has a port that is no number from 1 to 65535, or a password that must be encoded; {_ENCODED}"
    return None


def _problem_of_parameters(query: str) -> str | None:
    for name, _ in parse_qsl(query, keep_blank_values=True):
        if name in parameters():
            continue
        if not re.fullmatch(r"[A-Za-z_]{1,40}", name):
            return f"has a parameter that PostgreSQL does not know; {_ENCODED}"
        close = difflib.get_close_matches(name, sorted(parameters()), 1)
        hint = f"; {close[0]!r} is one" if close else f"; it knows {', '.join(sorted(parameters()))}"
        return f"has the parameter {name!r}, which PostgreSQL does not know{hint}"
    return None


@cache
def parameters() -> frozenset[str]:
    """Return the names of the parameters that libpq knows."""
    return frozenset(option.keyword.decode() for option in pq.Conninfo.get_defaults())
