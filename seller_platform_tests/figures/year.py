"""Lets a deployment run for a year, a day every eight seconds, and measures what grows and what fails.

Its programs are real processes: the sandbox's service, PostgreSQL, Dagster's code location, web server and daemon, and
one that advances the sandbox. They share a clock, which is moved to the next noon when a day is over: Dagster's
schedules load, build and prune as in a year. Planted are outages of the upstream every 20 days, as long as the shortest
day, and lists that are empty or short for a day; a reading that looks wrong is repeated after a second. Each program is
started again once a week, PostgreSQL once a month, and the key is rotated once a month. In the middle the warehouse is
upgraded to a made-up next version under load, and all programs are started again. The last days have no outages; then
the sandbox ends, and `verify` compares.

What is promised of memory and tables compares the median of the last two weeks with that of the two weeks around day
30: how many runs and connections there are at the end of a day differs from day to day. Runs of less than 60 days
compare with those around the middle, and promise nothing of growth. On a busy machine days are longer, and loads of
several days are one.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from seller_platform_tests.figures.passing_days import MONTH, WEEK, Day, PassingDays, passing_days
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.folders import temporary_folder

MOST = 1.1
# A table of a few rows may grow by some, and so may a few open files.
_FEW_ROWS, _FEW_FILES = 100, 10
_DAGSTER = "warehouse: dagster"
_RUNS = f"{_DAGSTER}.runs"
_RECEIPTS, _DAYS = "kept for 400 days", "a row for each day or month"
_KEPT = {
    "warehouse: platform.loads": _RECEIPTS,
    "warehouse: platform.comparisons": _RECEIPTS,
    "warehouse: platform.mart_builds": _RECEIPTS,
    "warehouse: platform.report_jobs": _RECEIPTS,
    "warehouse: platform.slices": _DAYS,
    "warehouse: platform.derived_partitions": _DAYS,
    "warehouse: platform.known_pages": "the pages of each slice",
    "warehouse: dagster.asset_event_tags": "those of the newest materialization of each partition",
    **{
        f"{database}: service.{name}": _DAYS
        for database in ("warehouse", "sandbox")
        for name in ("daily_counts", "product_days", "product_months", "day_sums", "changed_months")
    },
    "sandbox: service.exchange_rates": _DAYS,
    "sandbox: service.security_events": _RECEIPTS,
    "sandbox: service.unsummed_loads": "what generated rows have changed and no request has summed",
}
"""The tables of the product's bookkeeping that grow by what must be kept, with what that is."""


def measure(
    *, days: int = 365, seconds: float = 8.0, accounts: int = 1, months: int = 2, samples: str = ""
) -> Promises:
    """Options: days, the shortest length of one, accounts, months before the first day, and a file for all samples."""
    with temporary_folder() as home, passing_days(home, accounts=accounts, months=months) as passing:
        try:
            passing.run(days, seconds)
            difference = passing.settle()
            return Promises(f"{days} days", list(_figures(passing, difference)))
        finally:
            if samples:
                lines = [asdict(day) for day in passing.days] + [asdict(run) for run in passing.failed.values()]
                Path(samples).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def _figures(passing: PassingDays, difference: str) -> Iterator[Figure]:
    days = passing.days
    around = min(MONTH, len(days) // 2)
    early, late = days[max(0, around - WEEK) : around + WEEK], days[-2 * WEEK :]
    took = sorted(day.seconds for day in days)
    yield Figure("seconds of a day: median, longest", f"{took[len(took) // 2]:.1f}, {took[-1]:.1f}")
    yield Figure("runs", sum(day.runs for day in days))
    planted = Counter(each for day in days for each in day.planted)
    yield Figure("planted", ", ".join(f"{count} {name}" for name, count in sorted(planted.items())))
    growth = _growths(early, late)
    yield from growth if around == MONTH else (Figure(each.what, each.measured) for each in growth)
    without_cause = [run for run in passing.failed.values() if not run.has_cause]
    yield Figure("runs that failed", len(passing.failed))
    yield Figure("  of them without a planted cause", len(without_cause), "0", not without_cause)
    for run in without_cause:
        yield Figure(f"  day {run.day}, {run.job}", run.reason)
    held = passing.count("SELECT count(*) FROM platform.problems WHERE kind = 'held'")
    yield Figure("readings that are held at the end", held, "0", held == 0)
    yield Figure("`verify`", difference or "equal", "equal", not difference)


def _growths(early: Sequence[Day], late: Sequence[Day]) -> Iterator[Figure]:
    """Yield the memory, files, connections and rows of both times."""
    for name in late[-1].mib:
        yield _growth(f"MiB of {name}", *([day.mib[name] for day in time] for time in (early, late)))
    for name in late[-1].files:
        before, after = ([day.files[name] for day in time] for time in (early, late))
        yield _growth(f"open files of {name}", before, after, few=_FEW_FILES)
    yield _growth("connections to PostgreSQL", *([day.connections for day in time] for time in (early, late)))
    runs = [median(map(_runs, time)) for time in (early, late)]
    yield Figure("runs that Dagster keeps, of 30 days", f"{runs[0]:,.0f}, {runs[1]:,.0f}")
    had, has = ([day.home_files * runs[0] / _runs(day) for day in time] for time in (early, late))
    yield _growth("files in the home folder, for as many runs", had, has)
    yield from _tables(early, late)


def _growth(what: str, early: Sequence[float], late: Sequence[float], *, few: int = 0) -> Figure:
    before, after = median(early), median(late)
    measured = f"{before:,.0f}, {after:,.0f} (most: {max(early):,.0f}, {max(late):,.0f})"
    return Figure(what, measured, f"at most {MOST}x", after <= MOST * before + few)


def _tables(early: Sequence[Day], late: Sequence[Day]) -> Iterator[Figure]:
    """Yield the rows of Dagster's tables and of the bookkeeping, and each table of them that grew."""
    runs = median(map(_runs, early))
    for schema in (_DAGSTER, "warehouse: platform", "warehouse: service", "sandbox: service"):
        others = [name for name in late[-1].rows if name.startswith(f"{schema}.") and name not in _KEPT]
        # Days on which more was loaded have more runs, which Dagster keeps.
        scales = {day.number: runs / _runs(day) if schema == _DAGSTER else 1.0 for day in (*early, *late)}
        had, has = (
            [scales[day.number] * sum(day.rows.get(name, 0) for name in others) for day in time]
            for time in (early, late)
        )
        yield _growth(f"rows of {schema}{', for as many runs' if schema == _DAGSTER else ''}", had, has)
        for name in late[-1].rows:
            before, after = (
                median(scales[day.number] * day.rows.get(name, 0) for day in time) for time in (early, late)
            )
            if name.startswith(f"{schema}.") and after > MOST * before + _FEW_ROWS:
                kept = _KEPT.get(name)
                yield Figure(f"  {name}", f"{before:,.0f}, {after:,.0f}", kept or f"at most {MOST}x", kept is not None)
    for schema in ("warehouse: seller", "warehouse: history", "warehouse: marts"):
        yield Figure(f"rows of {schema}", ", ".join(f"{time[-1].rows_of(schema):,}" for time in (early, late)))
    sizes = [sum(time[-1].sizes.values()) >> 20 for time in (early, late)]
    yield Figure("MiB of both databases", ", ".join(map(str, sizes)))


def _runs(day: Day) -> int:
    return day.rows[_RUNS] or 1
