"""How long days keep changing, and so how many of them a refresh reads again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import text

from seller_platform.contract import Dataset
from seller_platform.warehouse.postgres.database import Database

FEWEST_DAYS = 3
"""The fewest days that a refresh reads again."""

_SETTLED_PERCENT = Decimal("0.1")
_MOST = 64
"""Of how many datasets and accounts the settledness is computed at once: each takes milliseconds."""

_EVIDENCE = text("""
    WITH chosen AS (
        SELECT dataset, account, computed_at
        FROM unnest(CAST(:datasets AS text[])) AS datasets (dataset)
        CROSS JOIN unnest(CAST(:accounts AS text[])) AS accounts (account)
        LEFT JOIN platform.kept_settledness AS kept USING (dataset, account)
        ORDER BY computed_at NULLS FIRST, dataset, account LIMIT :most
    ),
    computed AS (
        INSERT INTO platform.kept_settledness AS kept (dataset, account, percent, observed_days, computed_at)
        SELECT dataset, account, percent, observed_days, clock_timestamp()
        FROM (SELECT * FROM chosen ORDER BY dataset, account) AS chosen
        CROSS JOIN LATERAL (
            SELECT jsonb_object_agg(after_days, greatest(rows_percent, amounts_percent)) AS percent,
                   max(observed_days) AS observed_days
            FROM platform.settledness AS of_pair
            WHERE of_pair.dataset = chosen.dataset AND of_pair.account = chosen.account
        ) AS evidence
        ON CONFLICT (dataset, account) DO UPDATE
        SET percent = excluded.percent, observed_days = excluded.observed_days, computed_at = excluded.computed_at
        RETURNING dataset, account, percent, observed_days
    )
    SELECT * FROM computed WHERE percent IS NOT NULL
    UNION ALL
    SELECT dataset, account, percent, observed_days FROM platform.kept_settledness AS kept
    WHERE dataset = ANY (:datasets) AND account = ANY (:accounts) AND percent IS NOT NULL
      AND NOT EXISTS (SELECT FROM chosen WHERE chosen.dataset = kept.dataset AND chosen.account = kept.account)
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
    """Return how long days keep changing, by dataset and account; without those never read twice.

    It is computed anew for the 64 of them for which this was done the longest ago. Of the others it is as it was then.
    """
    bound = {"datasets": [each.name for each in datasets if each.is_dated], "accounts": list(accounts), "most": _MOST}
    return {
        (dataset, account): Settledness(
            {int(days): Decimal(str(share)) for days, share in percent.items()}, observed_days
        )
        for dataset, account, percent, observed_days in database.execute(_EVIDENCE, bound)
    }


def lookbacks(
    database: Database, datasets: Sequence[Dataset], accounts: Sequence[str], *, adaptive: bool
) -> dict[tuple[str, str], int]:
    """Return how many days back a refresh reads again, by dataset and account: the dataset's lookback.

    If it is adaptive, it may be less by what changed so far, but not less than three days.
    """
    known = settledness(database, datasets, accounts) if adaptive else {}
    days = {(dataset.name, account): dataset.lookback_days for dataset in datasets for account in accounts}
    for pair, evidence in known.items():
        after = evidence.settles_after(days[pair])
        if after is not None:
            days[pair] = min(max(after, FEWEST_DAYS), days[pair])
    return days
