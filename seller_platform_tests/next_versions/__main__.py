"""Upgrades a database to a made-up version: `python -m seller_platform_tests.next_versions NUMBER [--database URL]`."""

import argparse

from seller_platform.settings import read_settings
from seller_platform.warehouse.migrations.upgrade import upgrade
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import stored_warehouse_url
from seller_platform_tests.next_versions import NEWEST, migrations


def main() -> None:
    """Upgrade, and print a line for each step."""
    parser = argparse.ArgumentParser(prog="python -m seller_platform_tests.next_versions", description=__doc__)
    parser.add_argument("number", type=int, choices=range(1, NEWEST + 1))
    parser.add_argument("--database", metavar="URL", help="by default the one that SELLER_PLATFORM_HOME names")
    options = parser.parse_args()
    with Database(options.database or stored_warehouse_url(read_settings())) as database:
        upgrade(database, report=lambda line: print(line, flush=True), migrations=migrations(options.number))
        print(f"{database.where} is at version {database.version()}.")


if __name__ == "__main__":
    main()
