"""The version of a database's tables: what is stored, and what this program needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, func, select, text

from seller_platform.errors import unknown_schema

VERSION_TABLE = "schema_version"
VERSION_SCHEMA = "platform"
FEW_PARTITIONS = 4
"""The number of partitions of a database that is created without one."""
MIGRATION_LOCK = 0x5E11E4
"""The number of the advisory lock of who changes tables."""
_VERSIONS = Path(__file__).parents[1] / "migrations" / "versions"
# Before the first release the table had one column.
_STORED = text(
    f"SELECT version_num, to_jsonb(stored) ->> 'views' FROM {VERSION_SCHEMA}.{VERSION_TABLE} AS stored"  # noqa: S608  # constants
)


@dataclass(frozen=True)
class SchemaVersion:
    """The newest migration that a database has, and the one whose functions and views it has."""

    revision: str
    views: str

    def __str__(self) -> str:
        return self.revision

    @property
    def is_usable(self) -> bool:
        """Whether this program may use the tables, once they have its migrations.

        A migration whose number has the same thousands leaves the tables as programs of the versions before use them.
        """
        return revisions()[0] <= self.revision and self.revision[0] <= revisions()[-1][0]

    @property
    def lacks_migrations(self) -> bool:
        """Whether migrations of this program are to be run."""
        self.raise_unless_usable()
        return min(self.revision, self.views) < revisions()[-1]

    def raise_unless_usable(self) -> None:
        """Raise an error if this program may not use the tables.

        Raises:
            WarehouseError: The tables are of a later major version, or older than this program upgrades.
        """
        if not self.is_usable:
            raise unknown_schema(self.revision, first=revisions()[0])


def stored_version(connection: Connection) -> SchemaVersion | None:
    """Return the version of a database; None where there are no tables yet."""
    if not connection.execute(select(func.to_regclass(f"{VERSION_SCHEMA}.{VERSION_TABLE}"))).scalar_one():
        return None
    row = connection.execute(_STORED).one_or_none()
    return None if row is None else SchemaVersion(row[0], row[1] or "")


@cache
def revisions() -> Sequence[str]:
    """Return the numbers of this program's migrations, oldest first. Their files' names begin with them."""
    return sorted(file.name.partition("_")[0] for file in _VERSIONS.glob("[0-9]*_*.py"))
