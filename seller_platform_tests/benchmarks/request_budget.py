"""Measures what a budget of requests costs, and loads virtual days under it.

`python -m seller_platform_tests.benchmarks.request_budget [--days 30] [--accounts 16] [--per-day 96] [--slices 36000]`
prints how long it takes to count a request and to divide slices, and a line for each day: the requests that the
upstream counted, the age of the data, and the months that are not stored yet, beside the fewest that any schedule could
leave. Several threads load at once.
"""

import argparse
from datetime import UTC, date, datetime, time
from time import perf_counter, process_time

from rich.console import Console

from seller_platform.contract import REFRESHED, Account, Source, Window
from seller_platform.ingest.connections.request_budget import DailyRequests
from seller_platform.ingest.loads.due_slices import DueSlice, divide
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.budget_days import BudgetDays, best_missing
from seller_platform_tests.support.installation import temporary_warehouse

_FIRST, _SINCE = date(2026, 3, 3), date(2024, 9, 1)
_COUNTED = 2_000


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--accounts", type=int, default=16)
    parser.add_argument("--per-day", type=int, default=96)
    parser.add_argument("--slices", type=int, default=36_000)
    options = parser.parse_args()
    console = Console()
    with temporary_warehouse() as (url, _):
        _measure(url, console)
        _divide(url, console, options.slices)
        began = process_time()
        world = BudgetDays(url, accounts=options.accounts, per_day=options.per_day, since=_SINCE)
        console.print("day         sent  oldest data (days)  months not stored  fewest possible")
        best = best_missing(options.accounts, options.per_day, _SINCE, _FIRST, options.days)
        is_best = True
        for figures, fewest in zip(world.run(_FIRST, options.days), best, strict=True):
            is_best &= figures.missing == fewest and figures.sent <= options.per_day
            sums = (sum(figures.missing.values()), sum(fewest.values()))
            console.print(f"{figures.day}  {figures.sent:>4}{max(figures.ages.values()):>20}{sums[0]:>19}{sums[1]:>17}")
        console.print(f"Kept exactly, and as fresh as possible, month by month: {'yes' if is_best else 'NO'}")
        console.print(f"CPU of this process: {process_time() - began:.1f} s")


def _measure(url: str, console: Console) -> None:
    """Print how long it takes to count a request, alone and as one of a reserved block."""
    with Database(url) as database:
        meter = DailyRequests(database, "measured", 10_000_000, lambda: datetime(2026, 1, 1, 12, tzinfo=UTC))
        meter.take()
        for name, counted in (("one by one", meter), ("reserved", None)):
            began, cpu = perf_counter(), process_time()
            if counted is not None:
                for _ in range(_COUNTED):
                    counted.take()
            else:
                with meter.reserved(_COUNTED) as reserved:
                    for _ in range(_COUNTED):
                        reserved.take()
            wall, used = (1e6 * each / _COUNTED for each in (perf_counter() - began, process_time() - cpu))
            console.print(f"Counting a request, {name}: {wall:,.0f} us, of which {used:,.0f} us of CPU in this process")


def _divide(url: str, console: Console, count: int) -> None:
    """Print the CPU of a division of so many slices, of which all are of today, one in ten, or none."""
    day, now = Window.day(_FIRST), datetime.combine(_FIRST, time(12), UTC)
    datasets = [dataset for dataset in REFRESHED if dataset.source is Source.LIST]
    for name, one_in in (("all", 1), ("one in ten", 10), ("none", count + 1)):
        slices = [
            DueSlice(datasets[number % len(datasets)], f"S{number // len(datasets)}", None, day, days_behind=behind)
            for number in range(1, count + 1)
            for behind in [0 if number % one_in == 0 else 1]
        ]
        with Database(url) as database:
            save_connection(database, KnownConnection("default", "http://upstream", "http://upstream", "client"))
            account = Account(1, "Shop", "GB", "GBP", "UTC", "GB", "S")
            save_accounts(database, "default", [(key, account) for key in {each.account for each in slices}])
            began = process_time()
            divide(database, slices, requests_per_day=count // 2, now=now)
            console.print(f"Dividing {count:,} slices, {name} of today: {process_time() - began:.2f} s of CPU")


if __name__ == "__main__":
    main()
