"""Measures what it costs to replace slices of an exported table that has 36,000 of them.

1,000 accounts have 36 months. Of one account 1, 12 and 36 months are loaded anew and exported, in one commit each; the
CPU is that of the export alone, in milliseconds for each slice. A slice of the account has 200 orders, the others one.
"""

from datetime import date
from decimal import Decimal
from pathlib import Path

from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.lake.delta_tables import prune_tables
from seller_platform.lake.partitions import Exported, export_partitions
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.measuring import spent
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.installation import temporary_server

ORDERS, MONTHS, MOST_MILLISECONDS = dataset_named("orders"), 36, 25
_LOADS = text("""
    INSERT INTO platform.loads (dataset, account, window_start, window_end, requests, pages, body_bytes, announced,
                                rows, digest, verdict, changed, started_at, finished_at)
    SELECT 'orders', account, month, month + interval '1 month', 1, 1, 0, :rows, :rows, '', 'match', true, now(), now()
    FROM unnest(CAST(:accounts AS text[])) AS account CROSS JOIN unnest(CAST(:months AS date[])) AS month
""")
_ROWS = text("""
    INSERT INTO seller.orders (platform_order_id, purchase_date, order_status, order_total, currency_code,
                               quantity_ordered, sku, sales_channel, local_day, account, load_id, page)
    SELECT 'order-' || number, month, 'Shipped', CAST(:total AS numeric) + number, 'EUR', 1, 'SKU-' || number, 'web',
           month, account, 1, 1
    FROM unnest(CAST(:accounts AS text[])) AS account CROSS JOIN unnest(CAST(:months AS date[])) AS month
    CROSS JOIN generate_series(1, :rows) AS number
""")


def _store(database: Database, accounts: list[str], months: list[Window], *, rows: int, total: Decimal) -> None:
    values = {"accounts": accounts, "months": [month.start for month in months], "rows": rows, "total": total}
    with database.begin() as connection:
        replaced = "account = ANY (:accounts) AND local_day = ANY (:months)"
        connection.execute(text(f"DELETE FROM seller.orders WHERE {replaced}"), values)
        connection.execute(_LOADS, values)
        connection.execute(_ROWS, values)


def measure(accounts: int = 1_000, rows: int = 200) -> Promises:
    """Options: how many accounts the table has, and how many rows a slice that is replaced."""
    months = list(Window(date(2023, 1, 1), date(2026, 1, 1)).months())
    keys, figures = [f"A{number}.DE" for number in range(accounts)], []
    with temporary_server() as (server, home), Database(server.database("lake")) as database:
        folder = str(home / "lake")
        migrate(database)
        _store(database, keys, months, rows=1, total=Decimal(0))
        for first in range(0, accounts, 25):
            slices = [(key, month) for key in keys[first : first + 25] for month in months]
            export_partitions(database, ORDERS, slices, folder)
        prune_tables(database, folder, dry=False)  # as the daily job does
        for number, count in enumerate((1, 12, MONTHS, 1, 12, MONTHS), start=1):
            parts = [(keys[0], month) for month in months[:count]]
            _store(database, keys[:1], months[:count], rows=rows, total=Decimal(number))

            def export(parts: list[tuple[str, Window]] = parts) -> None:
                results = export_partitions(database, ORDERS, [*parts], folder).values()
                assert all(isinstance(each, Exported) and each.replaced for each in results)

            cost = spent(export, server)
            own, postgres = (round(1_000 * seconds / count, 1) for seconds in (cost.own, cost.postgres))
            is_promised = count == MONTHS
            figures.append(
                Figure(
                    f"{count} slices a commit: own CPU ms a slice (PostgreSQL {postgres})",
                    own,
                    f"at most {MOST_MILLISECONDS}, with PostgreSQL's" if is_promised else "",
                    not is_promised or own + postgres <= MOST_MILLISECONDS,
                )
            )
        files = sum(1 for _ in Path(folder).rglob("*.parquet"))
    return Promises(f"One table of {accounts * MONTHS:,} slices, {files:,} files", figures)
