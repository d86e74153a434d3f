"""Measures whether an account's load, page, statistics and `status` become dearer as the tables grow.

Two databases have the same account, the larger one beside a hundred others with as many rows. Dated lists have 12
months, the inventory a snapshot a week, and each slice its receipt. The CPU is that of PostgreSQL in seconds, with that
of the processes where they are ours; a page and a view are requested as often as `repeats` says.
"""

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from statistics import median

import psycopg
from psycopg import sql
from sqlalchemy import Table

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.contract.datasets.sales import ORDERS
from seller_platform.service.users.store import grant_accounts
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.service_tables import DAILY_COUNTS, DAY_SUMS, PRODUCT_DAYS, SUMMARIES
from seller_platform.warehouse.schema.tables import LOADS, table_for
from seller_platform.warehouse.sums.keeping import write_sums
from seller_platform_tests.figures.measuring import spent, spent_by_command
from seller_platform_tests.figures.results import Figure, Promises, Samples
from seller_platform_tests.support.installation import temporary_server
from seller_platform_tests.support.postgres import drop_database
from seller_platform_tests.support.processes import COMMAND, environment
from seller_platform_tests.support.served import ANN, Served, list_accounts, served
from seller_platform_tests.support.stored_rows import store_slice
from seller_platform_tests.warehouse.schema.test_questions import DATED, fill

MOST = 1.25
KEY, TITLE = "us-1042", "Growing"
_OWNED = [*(table_for(dataset_named(name)) for name in (*DATED, "inventory"))]
_SUMS = [SUMMARIES, DAILY_COUNTS, PRODUCT_DAYS, DAY_SUMS]
_PAGE = {"account_title": TITLE, "start_date": "2026-02-03", "end_date": "2026-02-20", "per_page": "2000"}
_VIEW = {
    "account_title": TITLE,
    "start_date": "2026-01-01",
    "end_date": "2026-02-28",
    "view_by": "product",
    "group_by": "sku",
}


def measure(
    *, rows: int = 15_000, others: int = 99, partitions: int = 16, runs: int = 5, repeats: int = 20
) -> Promises:
    """Options: rows of a month and list, other accounts, partitions, runs whose medians count, and requests of each."""
    samples = Samples("")
    with temporary_server() as (server, folder):
        with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        counts = {}
        for number in (0, others):
            with Database(server.database(f"others_{number}")) as database:
                migrate(database, partitions)
                counts[number] = _fill(database, rows, number)
                variables = environment(folder, SELLER_PLATFORM_DATABASE_URL=database.url)
                with served(database, database.url) as service:
                    list_accounts(database, {KEY: Account(9, TITLE, "US", "USD", "UTC", "US", "A1B2")})
                    grant_accounts(database, ANN, [KEY])
                    for run in range(runs):
                        for name, work in _works(service, run, repeats).items():
                            took = spent(work, server)
                            samples.add(f"{number} {name}", CPU=took.postgres)
                for _ in range(runs):
                    took = spent_by_command([*COMMAND, "status", "--json"], variables, server)
                    samples.add(f"{number} `status --json`", CPU=took.postgres + took.own)
            drop_database(server, f"others_{number}")
    return _promises(samples, counts, others)


def _fill(database: Database, rows: int, others: int) -> int:
    """Store an account with its receipts and sums, and copies of it under other keys; return how many rows there are.

    A copy has loads of its own.
    """
    with psycopg.connect(database.url, autocommit=True) as connection:
        fill(connection, 1, rows)
        with database.begin() as opened:
            write_sums(opened, [KEY])
        (last,) = connection.execute("SELECT max(id) FROM platform.loads").fetchone() or (0,)
        connection.execute(
            "INSERT INTO platform.accounts (key, connection, id, title, timezone) "
            "SELECT 'other ' || number, 'default', number + 1, 'Shop', 'UTC' FROM generate_series(1, %s) AS number",
            [others],
        )
        for number in range(1, others + 1):
            for table in (LOADS, *_OWNED, *_SUMS):
                connection.execute(_copy(table, number, number * last))
        connection.execute("SELECT setval(pg_get_serial_sequence('platform.loads', 'id'), %s)", [last * (others + 1)])
        connection.execute("VACUUM ANALYZE")
        counted = [f"(SELECT count(*) FROM {table.fullname})" for table in _OWNED]
        (count,) = connection.execute(f"SELECT {' + '.join(counted)}".encode()).fetchone() or (0,)
    return int(count)


def _copy(table: Table, number: int, offset: int) -> sql.Composed:
    """Return the statement that stores the account's rows under another key, with later numbers of loads."""
    later = "id" if table is LOADS else "load_id"
    names = [column.name for column in table.columns if column.name not in ("account", later)]
    numbered = later in table.columns
    return sql.SQL(
        "INSERT INTO {table} (account, {names}{later}) SELECT {key}, {names}{moved} FROM {table} WHERE account = {own}"
    ).format(
        table=sql.Identifier(str(table.schema), table.name),
        names=sql.SQL(", ").join(map(sql.Identifier, names)),
        later=sql.SQL(f", {later}" if numbered else ""),
        moved=sql.SQL(f", {later} + {offset}" if numbered else ""),
        key=sql.Literal(f"other {number}"),
        own=sql.Literal(KEY),
    )


def _works(service: Served, run: int, repeats: int) -> Mapping[str, Callable[[], object]]:
    """Return what is measured in each run, by name. A run loads a month that no other has loaded."""
    window = Window.month_of(date(2027 + run, 1, 1))
    rows = [_order(number, window) for number in range(20_000)]
    changed = [(*row[:3], "1.00", *row[4:]) if not number % 100 else row for number, row in enumerate(rows)]

    def request(path: str, query: Mapping[str, str]) -> None:
        with service.client(ANN) as client:
            for _ in range(repeats):
                answer = client.get(path, params=dict(query))
                assert answer.status_code == 200, answer.text

    return {
        "load of 20,000 rows": lambda: store_slice(service.database, ORDERS, window, rows, KEY),
        "change of 1 %": lambda: store_slice(service.database, ORDERS, window, changed, KEY),
        f"{repeats} pages": lambda: request(ORDERS.path, _PAGE),
        f"{repeats} views by SKU": lambda: request("/sales/statistics-dashboard", _VIEW),
    }


def _order(number: int, window: Window) -> Row:
    day = window.start + timedelta(days=number % window.days)
    order = f"305-{number:07}-{day:%Y%m%d}"
    return (order, f"{day}T08:00:00Z", "Shipped", "19.90", "USD", 1, f"SKU-{number % 2000}", "B0", "A product", day)


def _promises(samples: Samples, counts: Mapping[int, int], others: int) -> Promises:
    figures = []
    for name in (line.partition(" ")[2] for line in samples.values if line.startswith("0 ")):
        small, large = (median(samples.values[f"{number} {name}"]["CPU"]) for number in (0, others))
        measured = f"{small:.2f} s, {large:.2f} s: {large / small:.2f}x"
        figures.append(Figure(name, measured, f"at most {MOST}x", is_kept=large <= MOST * small))
    return Promises(f"CPU at {counts[0]:,} and at {counts[others]:,} stored rows", figures)
