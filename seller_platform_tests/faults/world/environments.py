"""Variables, settings of roles and databases, proxies and certificates around a command."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from seller_platform_tests.faults.world.bodies import Ending

_CLOSED = "http://127.0.0.1:9"
_GARBLING = {
    "client_encoding": "LATIN1",
    "DateStyle": "SQL, DMY",
    "TimeZone": "Asia/Tokyo",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "search_path": "pg_catalog",
}
_SLOW = {"statement_timeout": "3s", "default_transaction_isolation": "serializable", "lock_timeout": "3s"}


@dataclass(frozen=True)
class Environment:
    """What surrounds a command.

    Attributes:
        variables: Of the process; the URLs of the world stand in braces.
        ending: How each command ends; None where the environment changes nothing.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    base_url: str = "{http}"
    role: Mapping[str, str] = field(default_factory=dict)
    database: Mapping[str, str] = field(default_factory=dict)
    encoding: str = "UTF8"
    ending: Ending | None = None


_OPTIONS = " ".join(f"-c {name}={value.replace(' ', '')}" for name, value in _GARBLING.items())
_UNTRUSTED = Ending(4, ("certificate", "localhost", "SSL_CERT_FILE"))

ENVIRONMENTS: dict[str, Environment] = {
    "nothing": Environment(),
    "PGCLIENTENCODING": Environment({"PGCLIENTENCODING": "LATIN1"}),
    "PGDATESTYLE and PGTZ": Environment({"PGDATESTYLE": "SQL, DMY", "PGTZ": "Asia/Tokyo", "PGGEQO": "off"}),
    "PGOPTIONS": Environment({"PGOPTIONS": _OPTIONS}),
    "PG* of another server": Environment({"PGDATABASE": "other", "PGHOSTADDR": "127.0.0.9", "PGPORT": "5999"}),
    "a role with an encoding": Environment(role={"client_encoding": "LATIN1"}),
    "a role with settings": Environment(role=_GARBLING),
    "a role in a hurry": Environment(role=_SLOW),
    "a database with settings": Environment(database=_GARBLING),
    "a proxy that is closed, and the loopback": Environment({"HTTP_PROXY": _CLOSED, "http_proxy": _CLOSED}),
    "SOCKS, and the loopback": Environment({"ALL_PROXY": "socks5://127.0.0.1:9", "all_proxy": "socks5h://127.0.0.1:9"}),
    "a proxy": Environment({"http_proxy": "{proxy}"}, "http://world.example/api"),
    "a proxy without a scheme": Environment({"HTTP_PROXY": "{host}"}, "http://world.example/api"),
    "NO_PROXY that cannot be read": Environment(
        {"http_proxy": "{proxy}", "NO_PROXY": "fd00::/8, [::1, *.corp:x, ,10.0.0.0/8"}, "http://world.example/api"
    ),
    "its own authority": Environment({"SSL_CERT_FILE": "{authority}"}, "{https}"),
    "a database in LATIN1": Environment(encoding="LATIN1", ending=Ending(1, ("LATIN1", "UTF8"))),
    "a database in SQL_ASCII": Environment(encoding="SQL_ASCII", ending=Ending(1, ("SQL_ASCII", "UTF8"))),
    "a proxy that is closed": Environment(
        {"HTTP_PROXY": _CLOSED}, "http://world.example/api", ending=Ending(4, ("proxy", "127.0.0.1:9"))
    ),
    "SOCKS": Environment(
        {"ALL_PROXY": "socks5://127.0.0.1:9"}, "http://world.example/api", ending=Ending(2, ("ALL_PROXY", "SOCKS"))
    ),
    "a certificate of an unknown authority": Environment(base_url="{https}", ending=_UNTRUSTED),
    "a certificate of another host": Environment(
        {"SSL_CERT_FILE": "{authority_of_another}"}, "{https_of_another}", ending=_UNTRUSTED
    ),
}
"""The surroundings of a command, by name."""
