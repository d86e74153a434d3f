"""How long days keep changing, and so how many of them a refresh reads again."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import text

from seller_platform.contract import Dataset
from seller_platform.warehouse.postgres.database import Database

FEWEST_DAYS = 3
"""The fewest days that a refresh reads again."""

_SETTLED_PERCENT = Decimal("0.1")
_EVIDENCE = text("""
    SELECT dataset, account, after_days, rows_percent, amounts_percent, observed_days
    FROM platform.settledness WHERE dataset = ANY (:datasets) AND account = ANY (:accounts)
    ORDER BY dataset, account, after_days
""")


@dataclass(frozen=True)
class Settledness:
    """How much of a day still changes after some days.

    Attributes:
        percent: The share of rows or of amounts, whichever is larger, by the number of days.
        observed_days: The oldest age of a day at which a reading would have shown a change.
    """

    percent: Mapping[int, Decimal]
    observed_days: int

    def settles_after(self, lookback_days: int) -> int | None:
        """Return after how many days at most 0.1 % of a day changes; None where that is not known.

        It is known only if days were observed up to the dataset's lookback, from which on none is expected to change.
        """
        if self.observed_days < lookback_days:
            return None
        ages = (days for days, percent in sorted(self.percent.items()) if percent <= _SETTLED_PERCENT)
        return min(next(ages, lookback_days), lookback_days)


def settledness(
    database: Database, datasets: Sequence[Dataset], accounts: Sequence[str]
) -> dict[tuple[str, str], Settledness]:
    """Return how long days keep changing, by dataset and account; without those never read twice."""
    percent: dict[tuple[str, str], dict[int, Decimal]] = defaultdict(dict)
    observed: dict[tuple[str, str], int] = {}
    bound = {"datasets": [each.name for each in datasets if each.is_dated], "accounts": list(accounts)}
    with database.begin() as connection:
        for dataset, account, days, rows, amounts, observed_days in connection.execute(_EVIDENCE, bound):
            percent[dataset, account][days] = max(rows, amounts)
            observed[dataset, account] = observed_days
    return {pair: Settledness(percents, observed[pair]) for pair, percents in percent.items()}


def lookbacks(
    database: Database, datasets: Sequence[Dataset], accounts: Sequence[str], *, adaptive: bool
) -> dict[tuple[str, str], int]:
    """Return how many days back a refresh reads again, by dataset and account.

    Args:
        adaptive: By what changed so far, at least three days and at most the dataset's lookback; otherwise the latter.
    """
    known = settledness(database, datasets, accounts) if adaptive else {}
    days: dict[tuple[str, str], int] = {}
    for dataset in datasets:
        for account in accounts:
            evidence = known.get((dataset.name, account))
            after = evidence.settles_after(dataset.lookback_days) if evidence else None
            lookback = dataset.lookback_days
            days[dataset.name, account] = lookback if after is None else min(max(after, FEWEST_DAYS), lookback)
    return days
