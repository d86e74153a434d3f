"""Plants silent differences, and measures in how many days random comparisons find them, and how far the bound holds.

A clock of its own drives our comparisons over an upstream in this process. Differences are planted where no load would
see them: a value is changed in the table, a settled month is restated, a row is deleted without a trace. Before them
pass days on which nothing differs. The bound is tried in simulated installations, whose slices begin to differ and are
made equal at random: new ones and old ones, with many months and few, in which differences come one by one or together.
"""

import random
from bisect import bisect
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import accumulate, count, cycle
from statistics import mean
from typing import Any

from sqlalchemy import text

from seller_platform.ingest.loads.acceptance import accept_load
from seller_platform.sampling.comparing import compare_sample
from seller_platform.sampling.draws import COMPARISONS_COUNT, LEAST_WEIGHT, SampledStratum
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.http_upstream import api_of
from seller_platform_tests.support.installation import temporary_warehouse
from seller_platform_tests.support.moving_ledger import START, Installation, installed

TOLERANCE = 0.2
LEAST_HELD = 0.94
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_PLANTED_A_DAY = 2
_REQUESTS_PER_DAY = 1000
_HOURS_OF_TICK = 6  # what earlier hours did not spend, a tick spends; the last one is in the last hour of the day


@dataclass(frozen=True)
class Planted:
    """A difference that is planted in a slice.

    Attributes:
        expected_days: How long comparisons take to draw the slice, on average.
    """

    account: str
    month: date
    at: datetime
    expected_days: float


@dataclass
class Compared(Installation):
    """An installation in which differences are planted, and what comparisons find of them."""

    open: dict[tuple[str, date], Planted] = field(default_factory=dict)
    found_days: list[tuple[float, float]] = field(default_factory=list)
    comparisons: int = 0
    alarms: int = 0

    def __post_init__(self) -> None:
        self.kinds = cycle((self._change_value, self._restate, self._delete_row))
        super().__post_init__()

    def pass_days(self, days: int, *, plants: int = 0) -> None:
        """Let days pass with comparisons, and plant so many differences, a few each day."""
        with api_of(self.answer) as api:
            for hour in count(step=_HOURS_OF_TICK):
                left = plants > 0 or self.open
                if hour >= 24 * days and not left:
                    return
                if hour % (24 // _PLANTED_A_DAY) == 0 and plants:
                    plants -= self._plant()
                self._compare(api)
                self.now += _HOURS_OF_TICK * _HOUR

    def _compare(self, api: Any) -> None:
        for result in compare_sample(self.loader(api), requests_per_day=_REQUESTS_PER_DAY, second_reading_seconds=0):
            self.comparisons += 1
            request, receipt = result.request, result.receipt
            assert request.month is not None
            differed = receipt is None or receipt.changed
            planted = self.open.pop((request.account, request.month.start), None)
            if planted is not None and differed:
                self.found_days.append(((self.now - planted.at) / _DAY, planted.expected_days))
            elif differed or planted is not None:
                self.alarms += 1
        for held in open_holds(self.database):
            accept_load(self.loader(api), held.id)

    def _plant(self) -> bool:
        key, month = self.rng.choice(self.keys), self.rng.choice(self.months)
        if (key, month) in self.open:
            return False
        weights = {slice_: len(rows) + 1 for slice_, rows in self.rows.items()}
        share = weights[key, month] / sum(weights.values())
        # Of all that is stored nothing changes any more, so that all comparisons are of settled months.
        self.open[key, month] = Planted(key, month, self.now, 1 / (share * _REQUESTS_PER_DAY / 100))
        next(self.kinds)(key, month)
        return True

    def _change_value(self, key: str, month: date) -> None:
        row = self.rng.choice(self.rows[key, month])
        self._execute("UPDATE seller.transactions SET amount = amount - 1 WHERE account = :key AND {}", key, row)

    def _restate(self, key: str, month: date) -> None:
        self.rng.choice(self.rows[key, month])["amount"] -= 0.5

    def _delete_row(self, key: str, month: date) -> None:
        row = self.rng.choice(self.rows[key, month])
        self._execute("DELETE FROM seller.transactions WHERE account = :key AND {}", key, row)

    def _execute(self, statement: str, key: str, row: dict[str, Any]) -> None:
        statement = statement.format("sku = :sku")
        with self.database.begin() as connection:
            touched = connection.execute(text(statement), {"key": key, "sku": row["sku"]}).rowcount
        assert touched == 1


def _bound_holds(rng: random.Random) -> bool:
    """Return whether the bound holds in an installation after days or months of random differences."""
    slices, an_hour, hours = rng.choice([40, 200, 1000, 5000]), rng.choice([1, 2, 4]), 24 * rng.choice([5, 20, 60])
    # A difference also ends by itself, when the month is read for another reason.
    share, life_hours = rng.choice([0.001, 0.01, 0.05, 0.2]), 24 * rng.choice([7, 30, 365])
    at_once, spread, strikes_rows = rng.choice([1, 3]), rng.choice([0, 1, 1.5]), rng.random() < 0.5
    weights, accounts = [rng.lognormvariate(0, spread) for _ in range(slices)], rng.choice([1, 4, 20])
    # Accounts are of one size, or of very different ones.
    of = [min(int(accounts * rng.random() ** rng.choice([1, 4])), accounts - 1) for _ in range(slices)]
    sizes = [sum(weight for weight, account in zip(weights, of, strict=True) if account == each) for each in {*of}]
    least = LEAST_WEIGHT * mean(sizes)
    boosts = dict(zip({*of}, (max(1, least / size) for size in sizes), strict=True))
    drawn = [weight * boosts[account] for weight, account in zip(weights, of, strict=True)]
    upto, total = list(accumulate(drawn)), sum(drawn)

    def by_rows() -> int:
        return min(bisect(upto, rng.random() * total), slices - 1)

    ends: dict[int, float] = {}
    compared, rate = list[bool](), share * slices / life_hours / at_once
    begins = rng.expovariate(rate)
    for hour in range(hours):
        while begins < hour:
            for _ in range(at_once):
                ends[by_rows() if strikes_rows else rng.randrange(slices)] = begins + rng.expovariate(1 / life_hours)
            begins += rng.expovariate(rate)
        for _ in range(an_hour):
            differed = ends.pop(by_rows(), 0) > hour
            if hour >= hours - COMPARISONS_COUNT / _HOUR:
                compared.append(differed)
    differing = sum(weights[each] for each, end in ends.items() if end > hours) / sum(weights)
    effective = int(total**2 / sum(weight**2 for weight in drawn))
    stretch = max(1 / boost for boost in boosts.values()) * total / sum(weights)
    lately = sum(compared[-(len(compared) // 2) :])
    counted = (slices, effective, 0, len(compared), sum(compared), lately, START)
    bound = SampledStratum(*counted, stretch=stretch).bound
    return bound is not None and differing <= bound


def simulate(
    database: Database, *, accounts: int, clean_days: int, planted: int, installations: int, seed: int
) -> Promises:
    """Run both simulations and return their figures."""
    began = START + (_HOURS_OF_TICK - 1) * _HOUR
    with installed(Compared(database, accounts, now=began, rng=random.Random(seed))) as installation:
        installation.pass_days(clean_days)
        clean, false_alarms = installation.comparisons, installation.alarms
        installation.pass_days(0, plants=planted)
    found = installation.found_days
    ratio = mean(days for days, _ in found) / mean(expected for _, expected in found) if found else 0.0
    rng = random.Random(seed)
    held = sum(_bound_holds(rng) for _ in range(installations)) / installations
    return Promises(
        "Comparisons at random",
        [
            Figure("slices", len(installation.rows)),
            Figure("clean days", clean_days),
            Figure("  comparisons", clean),
            Figure("  false alarms", false_alarms, "0", false_alarms == 0),
            Figure("differences planted", planted),
            Figure("  found", len(found), "all", len(found) == planted),
            Figure("  days until found, mean", f"{mean(days for days, _ in found):.1f}"),
            Figure(
                "  beside the days that are predicted",
                f"{ratio:.2f}",
                f"{1 - TOLERANCE:g} to {1 + TOLERANCE:g}",
                abs(ratio - 1) <= TOLERANCE,
            ),
            Figure("  comparisons that found nothing, or what was not there", installation.alarms - false_alarms, "0"),
            Figure("simulated installations", installations),
            Figure("  in which the bound held", f"{held:.1%}", f"at least {LEAST_HELD:.0%}", held >= LEAST_HELD),
        ],
    )


def measure(
    *, accounts: int = 6, clean_days: int = 1000, planted: int = 200, installations: int = 1000, seed: int = 27
) -> Promises:
    """Options: accounts, days without differences, differences, installations that try the bound, and a seed."""
    with temporary_warehouse() as (url, _), Database(url) as database:
        return simulate(
            database, accounts=accounts, clean_days=clean_days, planted=planted, installations=installations, seed=seed
        )
