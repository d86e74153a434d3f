"""Compares a backfill of `seller-platform dev` with `sync --full` of the same rows.

`python -m seller_platform_tests.benchmarks.backfilling [--accounts 20] [--months 36]` prints a table.

`seller-platform dev` runs, and a backfill of every month of every account is launched as the UI does it. Then the rows
and receipts are deleted, and `sync` reads the same lists from the same service into the same tables, with Dagster as a
library only. The sensors of marts and exports are stopped. The table has two times of the backfill: until the UI shows
the end, which Dagster checks every 30 seconds, and from the start of the first run to the end of the last run.
"""

import argparse
import time
from datetime import date

from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from seller_platform_tests.support.deployment import Deployment, deployment
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.processes import document, environment, run
from seller_platform_tests.support.waiting import wait_for

DATASETS = ("orders", "daily_product_sales", "transactions")
_LONGEST_SECONDS = 3_000

_SENSORS = """
{
  sensorsOrError(repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "seller_platform"}) {
    ... on Sensors { results { id name } }
  }
}
"""
_STOP = "mutation ($id: String!) { stopSensor(id: $id) { __typename } }"
_RUNS = """
query ($tags: [ExecutionTag!]!) {
  runsOrError(filter: {tags: $tags}) { ... on Runs { results { startTime endTime } } }
}
"""


def stop_following(installed: Deployment) -> None:
    """Stop the sensors that build marts and exports after loads."""
    for sensor in installed.ask(_SENSORS)["sensorsOrError"]["results"]:
        if sensor["name"].endswith("_follow_their_inputs"):
            installed.ask(_STOP, id=sensor["id"])


def backfilled(installed: Deployment) -> tuple[float, float]:
    """Backfill everything; return the seconds until the UI shows the end, and of the runs."""
    began = time.perf_counter()
    number = installed.backfill(DATASETS)
    state = wait_for(
        installed.state,
        lambda state: state.backfills[number] not in ("REQUESTED", "FAILING", "CANCELING"),
        pause_seconds=2,
        seconds=_LONGEST_SECONDS,
    )
    seconds = time.perf_counter() - began
    assert state.backfills[number] == "COMPLETED_SUCCESS", installed.failures()
    runs = installed.ask(_RUNS, tags=[{"key": "dagster/backfill", "value": number}])["runsOrError"]["results"]
    return seconds, max(run["endTime"] for run in runs) - min(run["startTime"] for run in runs)


def forget(installed: Deployment) -> date:
    """Delete rows and receipts of these lists, and return the first day of their history."""
    with installed.databases() as (_, warehouse), warehouse.begin() as connection:
        first = connection.execute(text("SELECT min(local_day) FROM seller.orders")).scalar_one()
        connection.execute(text(f"TRUNCATE {', '.join(f'seller.{name}' for name in DATASETS)}"))
        connection.execute(text("DELETE FROM platform.loads WHERE dataset = ANY(:names)"), {"names": list(DATASETS)})
    return date(first.year, first.month, 1)


def synced(installed: Deployment, first: date) -> float:
    """Run `sync` from a day on, and return its seconds."""
    datasets = [word for name in DATASETS for word in ("--dataset", name)]
    began = time.perf_counter()
    variables = {**environment(installed.sandbox), "SELLER_PLATFORM_HISTORY_START": first.isoformat()}
    document(run(["sync", "--full", "--json", *datasets], variables, timeout=_LONGEST_SECONDS))
    return time.perf_counter() - began


def rows_of(installed: Deployment) -> int:
    """Return the number of rows of these lists in the warehouse."""
    counts = " + ".join(f"(SELECT count(*) FROM seller.{name})" for name in DATASETS)
    with installed.databases() as (_, warehouse), warehouse.begin() as connection:
        return int(connection.execute(text(f"SELECT {counts}")).scalar_one())


def main() -> None:
    """Measure both and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accounts", type=int, default=20)
    parser.add_argument("--months", type=int, default=36)
    chosen = parser.parse_args()
    with temporary_folder() as folder:
        size = ("--accounts", str(chosen.accounts), "--months", str(chosen.months))
        with deployment(folder / "home", *size) as installed:
            stop_following(installed)
            backfill, runs = backfilled(installed)
            rows = rows_of(installed)
            sync = synced(installed, forget(installed))
            assert rows_of(installed) == rows
    slices = chosen.accounts * chosen.months * len(DATASETS)
    table = Table(title=f"{chosen.accounts} accounts, {chosen.months} months: {rows:,} rows, {slices:,} slices")
    for name in ("", "seconds", "us a row", "ms a slice", "x sync"):
        table.add_column(name, justify="right" if name else "left")
    for name, seconds in (
        ("backfill, until the UI says so", backfill),
        ("backfill, its runs", runs),
        ("sync --full", sync),
    ):
        figures = (f"{seconds:.1f}", f"{1e6 * seconds / rows:.1f}", f"{1e3 * seconds / slices:.1f}")
        table.add_row(name, *figures, f"{seconds / sync:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
