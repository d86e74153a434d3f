"""Writes the next migration: `python -m seller_platform_tests.migration "Returns"`, from what the tables lack.

An empty database is brought to the newest migration and compared with the tables that the code declares; the file says
how it becomes them. Read it before it is committed: a renamed column looks like one dropped and one added.
"""

import argparse
import tempfile
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

from seller_platform.warehouse import migrations
from seller_platform.warehouse.database import VERSION_SCHEMA, VERSION_TABLE, Database, is_declared, revisions
from seller_platform.warehouse.server import EmbeddedServer
from seller_platform.warehouse.tables import METADATA

_FOLDER = Path(migrations.__file__).parent
_HOOKS = {"check": "check --fix --quiet REVISION_SCRIPT_FILENAME", "format": "format --quiet REVISION_SCRIPT_FILENAME"}


def differences(database: Database) -> list[object]:
    """Return what the tables of a database lack to be those that the code declares."""
    options = {
        "include_schemas": True,
        "include_name": is_declared,
        "version_table": VERSION_TABLE,
        "version_table_schema": VERSION_SCHEMA,
        "compare_server_default": True,
    }
    with database.begin() as connection:
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), METADATA))


def write_migration(database: Database, message: str, folder: Path = _FOLDER) -> Path | None:
    """Write the migration that a database at the newest one lacks, and return its file; None if it lacks nothing.

    Args:
        message: The first line of its docstring, and its name.
        folder: Holds `env.py`, the template and `versions`.
    """
    if not differences(database):
        return None
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_section_option("post_write_hooks", "hooks", ", ".join(_HOOKS))
    for name, options in _HOOKS.items():
        for key, value in {"type": "exec", "executable": "ruff", "options": options}.items():
            config.set_section_option("post_write_hooks", f"{name}.{key}", value)
    number = f"{int(revisions()[-1]) + 1:04d}"
    with database.begin() as connection:
        config.attributes["connection"] = connection
        command.revision(config, message, autogenerate=True, rev_id=number)
    return next((folder / "versions").glob(f"{number}_*.py"))


def main() -> None:
    """Compare the tables of a database of its own, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("message", help="what changes, in a few words")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="seller-migration-", ignore_cleanup_errors=True) as name:
        server = EmbeddedServer(Path(name) / "postgres")
        with Database(server.database("migration")) as database:
            database.migrate()
            written = write_migration(database, asked.message)
        server.close()
    print(f"{written} is written. Read it, then run the tests" if written else "The tables need no migration")


if __name__ == "__main__":
    main()
