"""A backfill: `python -m seller_platform_tests.benchmarks.backfilling [--accounts 20] [--months 36]` prints a table.

`seller-platform dev` runs, and a backfill of every month of every account is launched as its UI does; then the same is
read by `sync --full`, of the same service into the same warehouse, with nothing but Dagster's library.
"""

import argparse
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from seller_platform_tests.journeys.deployment import Deployment, awaited, deployment
from seller_platform_tests.journeys.processes import document, environment, run

DATASETS = ("orders", "daily_product_sales", "transactions")
_LONGEST_SECONDS = 3_000


def backfilled(place: Deployment) -> float:
    """Backfill everything and return the seconds until the UI says that it is done."""
    began = time.perf_counter()
    number = place.backfill(DATASETS)
    state = awaited(
        place.state,
        lambda state: state.backfills[number] not in ("REQUESTED", "FAILING", "CANCELING"),
        _LONGEST_SECONDS,
    )
    seconds = time.perf_counter() - began
    assert state.backfills[number] == "COMPLETED_SUCCESS", place.failures()
    return seconds


def synced(place: Deployment) -> float:
    """Read everything again with a command and return its seconds."""
    datasets = [word for name in DATASETS for word in ("--dataset", name)]
    began = time.perf_counter()
    document(run(["sync", "--full", "--json", *datasets], environment(place.sandbox), timeout=_LONGEST_SECONDS))
    return time.perf_counter() - began


def rows_of(place: Deployment) -> int:
    """Return how many rows the warehouse has of these lists."""
    counts = " + ".join(f"(SELECT count(*) FROM seller.{name})" for name in DATASETS)
    with place.databases() as (_, warehouse), warehouse.begin() as connection:
        return int(connection.execute(text(f"SELECT {counts}")).scalar_one())


def main() -> None:
    """Measure both and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accounts", type=int, default=20)
    parser.add_argument("--months", type=int, default=36)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="seller-backfilling-", ignore_cleanup_errors=True) as folder:
        size = ("--accounts", str(chosen.accounts), "--months", str(chosen.months))
        with deployment(Path(folder) / "home", *size) as place:
            backfill = backfilled(place)
            rows = rows_of(place)
            sync = synced(place)
    slices = chosen.accounts * chosen.months * len(DATASETS)
    table = Table(title=f"{chosen.accounts} accounts, {chosen.months} months: {rows:,} rows, {slices:,} slices")
    for name in ("", "seconds", "us a row", "ms a slice", "x sync"):
        table.add_column(name, justify="right" if name else "left")
    for name, seconds in (("backfill", backfill), ("sync --full", sync)):
        figures = (f"{seconds:.1f}", f"{1e6 * seconds / rows:.1f}", f"{1e3 * seconds / slices:.1f}")
        table.add_row(name, *figures, f"{seconds / sync:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
