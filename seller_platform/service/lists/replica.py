"""Copies: what may be answered of accounts whose rows come from another service.

A list of a copy that was never read has no rows, and looks like one that is empty. So each request names what its
answer is made of, and where no receipt covers that, it is refused:

- Of a dated list every day asked for must have been read, up to the account's today. Later days have no rows anywhere.
  Days before the history that is read are not known either.
- Of a list without dates any snapshot will do; the newest is taken for what is true today.

Receipts may be pruned, but the newest of each window stays. Accounts of our own need no receipts, and nothing is asked
for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from seller_platform.contract import Dataset
from seller_platform.errors import NotReadError
from seller_platform.service.access import SelectedAccounts
from seller_platform.service.lists.sql import Days
from seller_platform.service.pool import Connection


@dataclass(frozen=True)
class Need:
    """Rows that an answer is made of.

    Attributes:
        parameter: The parameter that asks for them.
        days: Those of each selected account; None for the newest snapshot, or for every day since the first that was
            read where the dataset is dated.
    """

    dataset: Dataset
    parameter: str
    days: Sequence[Days] | None = None


@dataclass(frozen=True)
class Gap:
    """What was never read of a need: in an account, the days from the first to the last that lack a receipt."""

    need: Need
    account: str
    days: tuple[date, date] | None

    @property
    def error(self) -> NotReadError:
        return NotReadError(self.need.dataset.name, self.account, parameter=self.need.parameter, days=self.days)


_GAPS = """
SELECT asked.place - 1, asked.account, lower(missing.days), upper(missing.days) - 1
FROM unnest(%(datasets)s::text[], %(accounts)s::text[], %(first_days)s::date[], %(last_days)s::date[])
     WITH ORDINALITY AS asked (dataset, account, first_day, last_day, place)
CROSS JOIN LATERAL (
    SELECT min(load.window_start) AS first_day, range_agg(daterange(load.window_start, load.window_end)) AS days
    FROM platform.loads AS load
    WHERE load.dataset = asked.dataset AND load.account = asked.account
      AND load.window_start <= coalesce(asked.last_day, 'infinity')
      AND load.window_end > coalesce(asked.first_day, '-infinity')
) AS read
CROSS JOIN LATERAL (
    SELECT datemultirange(daterange(coalesce(asked.first_day, read.first_day, asked.last_day), asked.last_day, '[]'))
           - coalesce(read.days, '{}') AS days
    WHERE asked.last_day IS NOT NULL
    UNION ALL
    SELECT NULL WHERE asked.last_day IS NULL AND read.days IS NULL
) AS missing
WHERE missing.days IS NULL OR NOT isempty(missing.days)
ORDER BY asked.place
"""


async def require_read(
    connection: Connection, selected: SelectedAccounts, needs: Sequence[Need], now: datetime
) -> None:
    """Return if all that an answer is made of was read.

    Raises:
        NotReadError: Something of an account that is a copy was not.
    """
    for gap in await find_gaps(connection, selected, needs, now):
        raise gap.error


async def find_gaps(
    connection: Connection, selected: SelectedAccounts, needs: Sequence[Need], now: datetime
) -> tuple[Gap, ...]:
    """Return what was never read of what an answer is made of, in the order of the needs."""
    asked = [wanted for need in needs for wanted in _wanted(need, selected, now)]
    if not asked:
        return ()
    values = {
        "datasets": [need.dataset.name for need, *_ in asked],
        "accounts": [account for _, account, *_ in asked],
        "first_days": [first for *_, first, _ in asked],
        "last_days": [last for *_, last in asked],
    }
    found = await (await connection.execute(_GAPS, values)).fetchall()
    return tuple(
        Gap(asked[place][0], account, (first, last) if first else None) for place, account, first, last in found
    )


def _wanted(need: Need, selected: SelectedAccounts, now: datetime) -> list[tuple[Need, str, date | None, date | None]]:
    """Return the first and last day wanted of each account that is a copy; a snapshot has neither."""
    wanted: list[tuple[Need, str, date | None, date | None]] = []
    for place, account in enumerate(selected.accounts):
        if not account.is_copy:
            continue
        if not need.dataset.is_dated:
            wanted.append((need, account.key, None, None))
            continue
        today = now.astimezone(ZoneInfo(account.timezone)).date()
        days = need.days[place] if need.days is not None else None
        if days is None or days.first <= today:
            wanted.append((need, account.key, days.first if days else None, min(days.last, today) if days else today))
    return wanted
