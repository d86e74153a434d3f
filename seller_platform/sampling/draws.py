"""Draws stored slices at random, by their rows, and bounds how many of them differ from the upstream.

Drawn slices are requested again and compared by value. Months that have settled and months that may still change are
drawn apart. A slice is drawn with a probability that is proportional to its rows (and one), and may be drawn again.
Undated lists are not drawn: the upstream has no former snapshots.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from math import ceil, exp, floor, lgamma, log, log1p, log10
from zoneinfo import ZoneInfo

from sqlalchemy import delete, func, insert, select, text

from seller_platform.contract import DATASETS, Dataset, Source, Window, dataset_named
from seller_platform.counts import count_of
from seller_platform.sampling.tables import COMPARISONS, SAMPLED_SLICES
from seller_platform.warehouse.loads.expectations import fewest_requests
from seller_platform.warehouse.monitoring.comparable_slices import ended_days
from seller_platform.warehouse.monitoring.metrics import Evidence, Gauge
from seller_platform.warehouse.postgres.database import Database

CONFIDENCE = 0.95

COMPARISONS_COUNT = timedelta(days=30)
"""How long a comparison counts."""

_MOST_SLICES = 10_000
_PRECISION = 1e-7


class Stratum(StrEnum):
    """Whether the days of a slice may still change."""

    SETTLED = "settled"
    CHANGING = "changing"


@dataclass(frozen=True)
class SampledStratum:
    """What is known of a stratum from the comparisons that count.

    Attributes:
        slices: How many slices it has.
        effective_slices: How many slices of equal weight say as much as these.
        left_out_percent: The share of rows in slices that are never drawn, because they take too many requests.
        different_lately: How many differed in the newer half of the comparisons, which is not larger than the other.
        since: When the first of the comparisons began; None without any.
        open: How many of those that differed are held now.
    """

    slices: int
    effective_slices: int
    left_out_percent: float
    comparisons: int
    different: int
    different_lately: int
    since: datetime | None
    open: int = 0

    @property
    def bound(self) -> float | None:
        """The share of slices, by their rows, that differ at most; None without comparisons.

        Where differences become more frequent, it is at least the bound that follows from the newer comparisons.
        """
        if not self.comparisons:
            return None
        bound = upper_bound(self.comparisons, self.different, self.effective_slices)
        if self.different_lately > self.different - self.different_lately:
            bound = max(bound, upper_bound(self.comparisons // 2, self.different_lately, self.effective_slices))
        return bound


@dataclass(frozen=True)
class Sample:
    """What random comparisons say of the stored slices of dated lists, by stratum."""

    strata: dict[Stratum, SampledStratum]

    @property
    def bounds(self) -> dict[Stratum, float]:
        """The share of slices, by their rows, that differ at most, of each stratum with comparisons."""
        return {name: bound for name, each in self.strata.items() if (bound := each.bound) is not None}

    def __str__(self) -> str:
        settled, changing = (self.strata.get(each) for each in Stratum)
        if settled is None or settled.bound is None or settled.since is None:
            return "How many slices differ from the upstream is not known: no settled one was compared yet"
        since = settled.since.astimezone(UTC)
        repaired = settled.different - settled.open
        found = f"{settled.different} differed, {repaired} repaired, {settled.open} open" * (settled.different > 0)
        sentence = (
            f"Since {since.day} {since:%B %Y}, {count_of(settled.comparisons, 'check')} compared months that should no "
            f"longer change with the API: {found or 'none differed'}. Unless something happened since, at most "
            f"{_percent(settled.bound)} of the rows are in months that differ, with {100 * CONFIDENCE:.0f} % confidence"
        )
        if changing is not None and changing.bound is not None:
            checks = count_of(changing.comparisons, "check")
            sentence += f"; of months that may still change at most {_percent(changing.bound)}, from {checks}"
        if settled.left_out_percent:
            sentence += f". Slices with {_percent(settled.left_out_percent / 100)} of the rows are too large to compare"
        return sentence


@dataclass(frozen=True)
class DrawnSlice:
    """A slice that is to be compared.

    Attributes:
        window: Its days that were read after they had ended; of a large month some of them.
    """

    stratum: Stratum
    dataset: Dataset
    account: str
    connection: str
    window: Window


# Only days that had ended when they were read are compared: the others are not expected to be equal. A month that takes
# too many requests is drawn in parts of so many days that twice their rows would fit. It has not more parts than days.
# One that is stored as empty may be so by mistake: it counts as many rows as were announced last.
_SLICES = """
    SELECT slice.dataset, slice.account, account.connection, month, days_read, listed.rows + 1 AS weight, parts,
           parts > 28 OR most_rows = 0 AS is_too_large, coalesce(slice.time_zone, 'UTC') AS time_zone,
           CASE WHEN coalesce(read_after_days > lookback_days, false) THEN 'settled' ELSE 'changing' END AS stratum
    FROM platform.slices AS slice
    JOIN unnest(CAST(:datasets AS text[]), CAST(:lookbacks AS integer[]), CAST(:most_rows AS bigint[]),
                CAST(:divisible AS boolean[])) AS list (dataset, lookback_days, most_rows, is_divisible) USING (dataset)
    JOIN platform.accounts AS account ON account.key = slice.account AND account.retired_at IS NULL
    CROSS JOIN LATERAL (
        SELECT CASE WHEN slice.rows > 0 THEN slice.rows ELSE coalesce((
                   SELECT announced FROM platform.loads AS load
                   WHERE load.dataset = slice.dataset AND load.account = slice.account AND announced > 0
                     AND window_start >= month AND window_start < month + interval '1 month'
                   ORDER BY id DESC LIMIT 1), 0) END AS rows
    ) AS listed
    CROSS JOIN LATERAL (
        SELECT CASE WHEN listed.rows <= most_rows THEN 1
                    WHEN is_divisible THEN div(2 * listed.rows - 1, nullif(most_rows, 0)) + 1 ELSE 29 END AS parts
    ) AS divided
    WHERE slice.month IS NOT NULL AND slice.load_id IS NOT NULL
      AND CASE WHEN is_divisible
               THEN CAST(days_read[1] AT TIME ZONE coalesce(slice.time_zone, 'UTC') AS date) > month
               ELSE read_after_days > 0 END
"""
_COUNT = text(f"""
    INSERT INTO platform.sampled_slices (stratum, account, slices, weight, squares, left_out_weight, counted_at)
    SELECT stratum, account, coalesce(sum(parts) FILTER (WHERE NOT is_too_large), 0),
           coalesce(sum(weight) FILTER (WHERE NOT is_too_large), 0),
           coalesce(sum(weight ^ 2 / parts) FILTER (WHERE NOT is_too_large), 0),
           coalesce(sum(weight) FILTER (WHERE is_too_large), 0), :now
    FROM ({_SLICES}) AS slice GROUP BY stratum, account
""")  # noqa: S608  # a constant
_DRAW = text(f"""
    SELECT *, CAST((:point * total - upto + weight) / weight AS float8) AS position
    FROM (
        SELECT *, sum(weight) OVER (ORDER BY dataset, account, month) AS upto, sum(weight) OVER () AS total
        FROM ({_SLICES}) AS slice
        WHERE stratum = :stratum AND NOT is_too_large
    ) AS slice
    WHERE upto > :point * total ORDER BY upto LIMIT 1
""")  # noqa: S608  # a constant
_SAMPLE = text("""
    SELECT stratum, slices, CAST(weight ^ 2 / squares AS bigint), CAST(left_out_percent AS float8), count(differed),
           count(*) FILTER (WHERE differed), count(*) FILTER (WHERE differed AND half = 2), min(started_at),
           count(*) FILTER (WHERE is_open)
    FROM (
        SELECT stratum, CAST(sum(slices) AS bigint) AS slices, sum(weight) AS weight, sum(squares) AS squares,
               100 * sum(left_out_weight) / sum(weight + left_out_weight) AS left_out_percent
        FROM platform.sampled_slices
        WHERE CAST(:accounts AS text[]) IS NULL OR account = ANY (CAST(:accounts AS text[]))
        GROUP BY stratum
    ) AS counted
    LEFT JOIN (
        SELECT stratum, differed, started_at, ntile(2) OVER (PARTITION BY stratum ORDER BY id) AS half,
               differed AND compared.load_id IS NULL AND held_load_ids <> '{}' AS is_open
        FROM platform.comparisons AS compared
        LEFT JOIN platform.slices AS slice
               ON slice.dataset = compared.dataset AND slice.account = compared.account
              AND slice.month = platform.month_of_slice(compared.dataset, window_start)
        WHERE started_at > :after AND differed IS NOT NULL
          AND (CAST(:accounts AS text[]) IS NULL OR compared.account = ANY (CAST(:accounts AS text[])))
    ) AS comparison USING (stratum)
    WHERE slices > 0
    GROUP BY stratum, slices, weight, squares, left_out_percent ORDER BY stratum
""")
_SENT = text("""
    SELECT account.connection, CAST(sum(requests) AS integer)
    FROM platform.comparisons AS comparison JOIN platform.accounts AS account ON account.key = comparison.account
    WHERE started_at >= :midnight GROUP BY 1
""")


def count_slices(database: Database, requests: int, now: datetime) -> None:
    """Count the slices that may be drawn, and store how many they are. One process may do it at a time.

    Args:
        requests: How many requests the comparison of a slice may take.
    """
    with database.begin() as connection:
        connection.execute(delete(SAMPLED_SLICES))
        connection.execute(_COUNT, {**_lists(requests), "now": now})


def draw(database: Database, stratum: Stratum, point: float, requests: int) -> DrawnSlice | None:
    """Return the slice at a point of all rows of a stratum, from 0 to 1; None if no slice may be drawn."""
    bound = {**_lists(requests), "stratum": stratum, "point": point}
    row = database.execute(_DRAW, bound).one_or_none()
    if row is None:
        return None
    days = next(ended_days(Window.month_of(row.month), row.days_read, ZoneInfo(row.time_zone)))
    parts = min(int(row.parts), days.days)
    part = min(int(row.position * parts), parts - 1)
    first, after = (days.start + timedelta(days=days.days * number // parts) for number in (part, part + 1))
    return DrawnSlice(stratum, dataset_named(row.dataset), row.account, row.connection, Window(first, after))


def keep_comparison(
    database: Database,
    drawn: DrawnSlice,
    *,
    started_at: datetime,
    requests: int,
    differed: bool | None,
    load_id: int | None = None,
) -> None:
    """Store how a drawn slice compares.

    Args:
        requests: How many requests were sent.
        differed: None if the upstream did not answer.
        load_id: The load that was published, if any.
    """
    of_slice = {"stratum": drawn.stratum, "dataset": drawn.dataset.name, "account": drawn.account}
    window = {"window_start": drawn.window.start, "window_end": drawn.window.end}
    facts = {"requests": requests, "differed": differed, "load_id": load_id, "started_at": started_at}
    database.execute(insert(COMPARISONS).values({**of_slice, **window, **facts}))


def sample(database: Database, now: datetime, accounts: Collection[str] | None = None) -> Sample:
    """Return what the comparisons that count at a moment say.

    Args:
        accounts: The keys of the accounts whose slices it is said of, from comparisons of theirs; None for all.
    """
    bound = {"after": now - COMPARISONS_COUNT, "accounts": None if accounts is None else list(accounts)}
    rows = database.execute(_SAMPLE, bound)
    return Sample({Stratum(name): SampledStratum(*facts) for name, *facts in rows})


def evidence(database: Database, now: datetime, accounts: Collection[str] | None) -> Evidence:
    """Return what the comparisons say as the core tells it."""
    measured, label = sample(database, now, accounts), "stratum"
    bounds = {str(stratum): bound for stratum, bound in measured.bounds.items()}
    compared = {str(name): float(each.comparisons) for name, each in measured.strata.items()}
    differed = {str(name): float(each.different) for name, each in measured.strata.items()}
    share = "Share of slices, by their rows, that differ from the upstream at most, with 95 % confidence."
    gauges = (
        Gauge("slices_differing_at_most", share, label, bounds),
        Gauge("slices_compared", "Random comparisons with the upstream that count.", label, compared),
        Gauge("slices_differed", "Those of them that found a difference.", label, differed),
    )
    return Evidence(str(measured), bounds, gauges)


def last_comparison(database: Database) -> int:
    """Return the number of the newest comparison; 0 without any."""
    return int(database.execute(select(func.coalesce(func.max(COMPARISONS.c.id), 0))).scalar_one())


def requests_of_comparisons(database: Database, day: date) -> dict[str, int]:
    """Return how many requests comparisons have sent on a day (UTC), by connection."""
    midnight = datetime.combine(day, time(), UTC)
    return dict(database.execute(_SENT, {"midnight": midnight}).tuples().all())


def upper_bound(comparisons: int, different: int, slices: int) -> float:
    """Return the share of slices that differ at most, with the confidence of the module.

    It is the larger of two bounds. One is that of Clopper and Pearson, for the share in the long run. The other is for
    the slices of this moment, which are a finite population: the quantile of a beta-binomial distribution, whose
    distribution of the share in the long run is the one of Clopper and Pearson.

    Args:
        slices: How many there are, of equal weight. More than 10,000 count as so many, which makes the bound
            a little larger.
    """
    if different >= comparisons:
        return 1.0
    lower, upper = different / comparisons, 1.0
    while upper - lower > _PRECISION:
        middle = (lower + upper) / 2
        at_most = sum(
            exp(_log_choose(comparisons, each) + each * log(middle) + (comparisons - each) * log1p(-middle))
            for each in range(different + 1)
        )
        lower, upper = (middle, upper) if at_most > 1 - CONFIDENCE else (lower, middle)
    population = max(1, min(slices, _MOST_SLICES))
    return max(upper, _differing_now(comparisons, different, population) / population)


def _differing_now(comparisons: int, different: int, slices: int) -> int:
    """Return how many of the slices differ at most at this moment."""
    hits, misses, reached = different + 1, comparisons - different, 0.0
    for each in range(slices):
        reached += exp(
            _log_choose(slices, each) + _log_beta(hits + each, misses + slices - each) - _log_beta(hits, misses)
        )
        if reached >= CONFIDENCE:
            return each
    return slices


def _log_choose(whole: int, part: int) -> float:
    return lgamma(whole + 1) - lgamma(part + 1) - lgamma(whole - part + 1)


def _log_beta(first: int, second: int) -> float:
    return lgamma(first) + lgamma(second) - lgamma(first + second)


def _lists(requests: int) -> dict[str, Sequence[object]]:
    """Return the lists whose slices may be drawn, with the rows that so many requests suffice for."""
    lists = [each for each in DATASETS if each.is_dated and each.source is Source.LIST]
    return {
        "datasets": [each.name for each in lists],
        "lookbacks": [each.lookback_days for each in lists],
        "most_rows": [
            max(1, requests - fewest_requests(each)) * max(each.page_sizes, default=each.fixed_page_size or 1)
            if requests >= fewest_requests(each)
            else 0
            for each in lists
        ],
        "divisible": [each.is_divisible for each in lists],
    }


def _percent(share: float) -> str:
    """Return a share with two digits, rounded up: a smaller one might not be a bound."""
    percent = 100 * share
    digits = max(0, 1 - floor(log10(percent))) if percent > 0 else 0
    return f"{ceil(percent * 10**digits - 1e-9) / 10**digits:g} %"
