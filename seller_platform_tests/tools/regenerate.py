"""Writes all generated files: `python -m seller_platform_tests.tools.regenerate`.

It writes the pages of reference, the tree of ARCHITECTURE.md and the file of names. Read the difference before it is
committed.
"""

import os

from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.folders import temporary_folder


def main() -> None:
    """Write the files and print their paths."""
    # The pages of reference and the names must not depend on the environment.
    for variable in [name for name in os.environ if name.startswith(("SELLER_PLATFORM_", "SELLER_API_"))]:
        del os.environ[variable]
    from seller_platform_tests import names  # these two import Dagster's definitions
    from seller_platform_tests.tools import documentation

    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        with Database(server.database("regenerate")) as database:
            migrate(database)
            # The names of documents are read from the pages.
            for document in documentation.documents():
                document.write_text(documentation.written(document.read_text()))
                print(document)
            names.NAMES.write_text(names.renewed(names.stored_names(), names.current_names(database.url)))
        server.close()
    print(names.NAMES)


if __name__ == "__main__":
    main()
