"""Measures an upgrade of millions of orders beside readers: their longest wait, and what the plan said before.

The upgrade is that of the two made-up next versions: columns, an index, then two columns that every row gets and an
index of one of them. Readers ask for a month of an account, for the rows of a moment, and what is wrong, each on a
connection of its own, again and again. Rows are filled with SQL. Seconds are wall time: compare them with one another.
The planned room is the most that may be needed: autovacuum frees some of it meanwhile.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg

from seller_platform.warehouse.migrations.upgrade import plan, upgrade
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.next_versions import migrations
from seller_platform_tests.support.installation import temporary_server

MOST_SECONDS = 2.0
"""The longest that a reader may wait."""

_FILL = """
INSERT INTO seller.orders (platform_order_id, purchase_date, order_status, order_total, currency_code, quantity_ordered,
                           sku, asin, product_name, local_day, account, load_id, page, row_hash)
SELECT '305-' || number || '-' || account, day, 'Shipped', mod(number, 9000) / 100.0, 'EUR', 1,
       'SKU-' || mod(number, 500), 'B0' || mod(number, 500), 'A mug, blue, 350 ml', day, 'S' || account || '.DE', 1, 1,
       gen_random_uuid()
FROM generate_series(1, %(accounts)s) AS account, generate_series(date '2026-01-01', '2026-12-31', '1 day') AS day,
     generate_series(1, %(rows)s) AS number
"""
_READERS = {
    "a month of an account": "SELECT count(*), sum(order_total) FROM seller.orders WHERE account = 'S1.DE' "
    "AND local_day BETWEEN '2026-03-01' AND '2026-03-31'",
    "a month at a moment": "SELECT count(*) FROM history.orders_as_of(now()) WHERE account = 'S1.DE' "
    "AND local_day BETWEEN '2026-03-01' AND '2026-03-31'",
    "problems": "SELECT count(*) FROM platform.problems",
}


def measure(*, rows: int = 6_000_000, accounts: int = 100, partitions: int = 4) -> Promises:
    """Options: orders, accounts that have them, and partitions of each table."""
    with temporary_server() as (server, _), Database(server.database("upgraded")) as database:
        database.migrate(partitions)
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(_FILL, {"accounts": accounts, "rows": max(1, round(rows / accounts / 365))})
            connection.execute("VACUUM (ANALYZE) seller.orders")
        with _reading(database.url) as before:
            time.sleep(10)
        planned = plan(database, migrations())
        began, size = time.monotonic(), _size(database)
        with _reading(database.url) as during:
            upgrade(database, report=lambda line: print(line, flush=True), migrations=migrations())
        seconds, growth = time.monotonic() - began, _size(database) - size
    figures = [
        Figure("orders", planned[-1].rows),
        Figure("planned seconds", round(sum(step.seconds for step in planned))),
        Figure("seconds", round(seconds)),
        Figure("planned MiB", sum(step.disk_bytes for step in planned) >> 20),
        Figure("MiB of tables and indexes", growth >> 20),
    ]
    for name in _READERS:
        longest = during[name]
        figures.append(Figure(f"longest {name} before, s", round(before[name], 2)))
        figures.append(Figure(f"longest {name}, s", round(longest, 2), f"<= {MOST_SECONDS}", longest <= MOST_SECONDS))
    return Promises("An upgrade beside readers", figures)


@contextmanager
def _reading(url: str) -> Iterator[Mapping[str, float]]:
    """Read until the block ends; the longest seconds of each reader."""
    ended, longest = threading.Event(), dict.fromkeys(_READERS, 0.0)

    def read(name: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not ended.is_set():
                began = time.monotonic()
                connection.execute(_READERS[name].encode())
                longest[name] = max(longest[name], time.monotonic() - began)

    with ThreadPoolExecutor(len(_READERS)) as threads:
        reading = [threads.submit(read, name) for name in _READERS]
        try:
            yield longest
        finally:
            ended.set()
    for reader in reading:
        reader.result()  # raises what it met


def _size(database: Database) -> int:
    with psycopg.connect(database.url) as connection:
        (size,) = connection.execute("SELECT pg_database_size(current_database())").fetchone() or (0,)
    return int(size)
