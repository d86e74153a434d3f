"""Counts which planted overlaps of ledgers are found, and how many are found where there are none.

`python -m seller_platform_tests.benchmarks.repeated_ledgers [--worlds 1000] [--overlaps 200] [--seed 1]` prints both,
and the seconds of the comparison.

A world is a seller with two to five accounts. Overlaps of 5 to 100 % are planted in further sellers.
"""

import argparse
import random
import time

from seller_platform.warehouse.monitoring.repeated_ledgers import compare_ledgers, repeated_ledgers
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.ledger_worlds import planted, random_seller, store

_LEAST_ORDERS = 60


def main() -> None:
    """Generate the worlds, compare their ledgers and print what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=1_000)
    parser.add_argument("--overlaps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    rng = random.Random(chosen.seed)
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        with Database(server.database("ledgers")) as database:
            database.migrate()
            store(database, (random_seller(number, rng) for number in range(chosen.worlds)))
            hidden = [
                planted(random_seller(chosen.worlds + number, rng, least=_LEAST_ORDERS), rng.uniform(0.05, 1), rng)
                for number in range(chosen.overlaps)
            ]
            store(database, (seller for seller, _, _ in hidden))
            with database.begin() as connection:
                (rows,) = driver_of(connection).execute("SELECT count(*) FROM seller.transactions").fetchone() or (0,)
            began = time.perf_counter()
            compare_ledgers(database)
            seconds = time.perf_counter() - began
            found = {(each.account, each.other) for each in repeated_ledgers(database)}
        server.close()
    expected = {(account, other) for _, account, other in hidden}
    either_way = expected | {(other, account) for account, other in expected}
    print(f"{len(expected & found)} of {len(expected)} planted overlaps found")
    print(f"{len(found - either_way)} found where there are none, in {chosen.worlds:,} worlds")
    print(f"{seconds:.1f} s for {rows:,} rows")


if __name__ == "__main__":
    main()
