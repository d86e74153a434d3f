"""Measures how long runs of checks alone take with many accounts and months.

`python -m seller_platform_tests.benchmarks.check_runs [--accounts 1000] [--months 36] [--rows 20]` prints seconds.

Dagster's tables say that every month of every account of the dated lists was loaded and checked, and the warehouse has
receipts and rows of the transactions. Then all their checks are executed without a partition, as Dagster's UI does it:
with nothing new, and after one row of every hundredth partition was deleted.
"""

import argparse
import time
from datetime import UTC, date, datetime

import dagster as dg

from seller_platform.contract import REFRESHED, Window, dataset_named
from seller_platform.orchestration.assets.checks import checks_of
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.partitions import asset_key
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.warehouse.monitoring.freshness import last_readings
from seller_platform.warehouse.monitoring.repeated_ledgers import compare_ledgers
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.benchmarks.interface import fill
from seller_platform_tests.benchmarks.serving import month_before
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.folders import temporary_folder

TRANSACTIONS = dataset_named("transactions")

_ACCOUNTS = """
INSERT INTO platform.connections (name, base_url, auth_url, client_id) VALUES ('c', 'u', 'u', 'i');
INSERT INTO platform.accounts (key, connection, id, title, timezone, marketplace, seller_id)
SELECT account, 'c', row_number() OVER (), account, 'Europe/Berlin', 'M', 'S'
FROM unnest(%(accounts)s::text[]) AS account
"""
_RECEIPTS = """
INSERT INTO platform.loads (dataset, account, window_start, window_end, requests, pages, body_bytes, announced, rows,
                            digest, verdict, changed, started_at, finished_at)
SELECT dataset, account, month, month + interval '1 month', 1, 1, 0, %(rows)s, %(rows)s, '', 'match', true, now(), now()
FROM unnest(%(datasets)s::text[]) AS dataset, unnest(%(accounts)s::text[]) AS account,
     unnest(%(months)s::date[]) AS month
"""
_ROWS = """
INSERT INTO seller.transactions (account, local_day, load_id, page, order_id, sku, quantity, amount, currency)
SELECT account, window_start + (number % 28)::integer, loads.id, 1, loads.id || '-' || number, 'SKU', 1, number, 'EUR'
FROM platform.loads, generate_series(1, rows) AS number
WHERE dataset = 'transactions'
"""
_DELETE = """
DELETE FROM seller.transactions
WHERE ctid IN (SELECT min(ctid) FROM seller.transactions WHERE load_id %% 100 = 0 GROUP BY load_id)
"""


def main() -> None:
    """Fill the tables, run the checks, and print the seconds of each step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accounts", type=int, default=1_000)
    parser.add_argument("--months", type=int, default=36)
    parser.add_argument("--rows", type=int, default=20)
    chosen = parser.parse_args()
    today = datetime.now(UTC).date().replace(day=1)
    first = month_before(today, chosen.months - 1)
    months = list(Window(first, Window.month_of(today).end).months())
    accounts = [f"S{number:04}.US" for number in range(1, chosen.accounts + 1)]
    values = {
        "accounts": accounts,
        "months": [month.start for month in months],
        "rows": chosen.rows,
        "datasets": [dataset.name for dataset in REFRESHED],
    }
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        fill(server.database("dagster"), folder, accounts, months)
        url = server.database("warehouse")
        with Database(url) as database:
            database.migrate()
            with database.begin() as connection:
                driver = driver_of(connection)
                for part in _ACCOUNTS.split(";"):
                    driver.execute(part, values)
                driver.execute(_RECEIPTS, values)
                driver.execute(_ROWS)
            with postgres_instance(server.database("dagster"), folder) as instance:
                _measure(database, url, instance, first)
        server.close()


def _measure(database: Database, url: str, instance: dg.DagsterInstance, first: date) -> None:
    warehouse = WarehouseResource(database_url=url)
    resources = {"warehouse": warehouse, "seller_api": SellerApiResource(warehouse=warehouse)}
    definitions = dg.Definitions(assets=[asset_for(TRANSACTIONS, first)], resources=resources)
    checks = {dg.AssetCheckKey(asset_key(TRANSACTIONS), check.name) for check in checks_of(TRANSACTIONS)}
    job = definitions.resolve_implicit_global_asset_job_def().get_subset(
        asset_selection=set(), asset_check_selection=checks
    )
    for what in ("nothing new", "one partition of a hundred has lost a row", "the same again"):
        if what.startswith("one"):
            with database.begin() as connection:
                driver_of(connection).execute(_DELETE.replace("%%", "%"))
        began = time.perf_counter()
        result = job.execute_in_process(instance=instance)
        reported = len(result.get_asset_check_evaluations())
        print(f"checks of {TRANSACTIONS.name}, {what}: {time.perf_counter() - began:.1f} s, {reported} evaluations")
    began = time.perf_counter()
    compare_ledgers(database)
    print(f"of it, the comparison of the ledgers of all accounts: {time.perf_counter() - began:.2f} s")
    began = time.perf_counter()
    readings = last_readings(database, REFRESHED, now=datetime.now(UTC))
    print(f"last readings of {len(readings)} datasets of accounts: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
