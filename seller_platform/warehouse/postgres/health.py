"""The state of the database: its server, its schema, and whether it can be written."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text

from seller_platform.errors import MissingRightError
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.versions import SchemaVersion, stored_version

OLDEST_VERSION = 15
"""The oldest major version of PostgreSQL that this program is tested with."""

CONNECTIONS = 40
"""How many connections the code location (20, while its sensors evaluate), the daemon (8) and a web server hold."""

CONNECTIONS_OF_A_RUN = 20
"""How many connections a run holds at most: 8 to the warehouse, the others to Dagster's tables."""

_SERVER = text("""
    SELECT current_setting('server_version_num')::integer / 10000 AS major,
           split_part(current_setting('server_version'), ' ', 1) AS version,
           pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS is_read_only,
           has_database_privilege(current_database(), 'CREATE') AS may_create,
           pg_database_size(current_database()) AS size_bytes,
           ARRAY(
               SELECT name FROM pg_settings
               WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off' ORDER BY name
           ) AS unsafe
""")

_MOST_CONNECTIONS = text("""
    SELECT CAST(current_setting('max_connections') AS integer)
           - CAST(current_setting('superuser_reserved_connections') AS integer)
""")


@dataclass(frozen=True)
class DatabaseHealth:
    """The server, the rights and the schema of a database.

    Attributes:
        unsafe: The settings of durability that are off for this user and database: `fsync`, `full_page_writes`,
            `synchronous_commit`.
        schema: The version of the tables; None where there are none yet, or none that may be read.
        missing_right: That this user may not read them.
    """

    major: int
    version: str
    is_read_only: bool
    may_create: bool
    size_bytes: int
    unsafe: Sequence[str]
    schema: SchemaVersion | None
    missing_right: MissingRightError | None = None


def most_connections(database: Database) -> int:
    """Return how many connections users who are not superusers may have at once."""
    return int(database.execute(_MOST_CONNECTIONS).scalar_one())


def check_health(database: Database) -> DatabaseHealth:
    """Return the state of a database and change nothing."""
    schema, missing = None, None
    try:
        with database.begin() as connection:
            schema = stored_version(connection)
    except MissingRightError as error:  # any other statement would be refused too
        missing = error
    return DatabaseHealth(**database.execute(_SERVER).mappings().one(), schema=schema, missing_right=missing)
