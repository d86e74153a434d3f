"""Writes all generated files: `python -m seller_platform_tests.regenerate "Returns"`.

It writes the migration that the declared tables lack, the pages of reference, the tree of ARCHITECTURE.md and the
file of stored names. Read the difference before it is committed: in a migration, a renamed column looks like one
dropped and one added.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.folders import temporary_folder


def main() -> None:
    """Write the files and print their paths."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("message", nargs="?", help="what changes, in a few words: the name of the migration, if any")
    message = parser.parse_args().message
    # The pages of reference and the stored names must not depend on the environment.
    for variable in [name for name in os.environ if name.startswith(("SELLER_PLATFORM_", "SELLER_API_"))]:
        del os.environ[variable]
    from seller_platform_tests import documentation, migration, stored_names  # they import Dagster's definitions

    with temporary_folder() as folder:
        with _migrated_database(folder) as database:
            file = migration.write_migration(database, message or "Tables as declared")
        print(file or "The tables need no migration")
        # A migration that was just written is applied by a database that is opened anew.
        with _migrated_database(folder) as database:
            stored_names.GOLDEN.write_text(stored_names.written(stored_names.read_names(database.url)))
        print(stored_names.GOLDEN)
    for document in documentation.documents():
        document.write_text(documentation.written(document.read_text()))
        print(document)


@contextmanager
def _migrated_database(folder: Path) -> Iterator[Database]:
    server = EmbeddedServer(folder / "postgres")
    with Database(server.database("regenerate")) as database:
        database.migrate()
        yield database
    server.close()


if __name__ == "__main__":
    main()
