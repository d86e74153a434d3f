"""Refuses requests for rows of a replica that were never read.

A replica is an account whose rows come from another service. A list that was never read has no rows, and looks empty.
So each request declares the rows that its answer needs, and is refused where these were never read:

- Of a dated list, every requested day must have been read, up to the account's today. Later days have no rows in any
  service. Days before the first that was read are refused, too.
- Of a list without dates, any snapshot is enough; the newest counts as today's.

Other accounts need not be read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from seller_platform.contract.wire import REPLICA
from seller_platform.service.access import SelectedAccounts, ServedAccount
from seller_platform.service.errors import ApiError
from seller_platform.service.lists.page_queries import Need
from seller_platform.service.pool import Connection


@dataclass(frozen=True)
class Gap:
    """The days of a need that were never read, from the first to the last."""

    need: Need
    account: str
    days: tuple[date, date] | None

    @property
    def error(self) -> ApiError:
        """The refusal of the request: an empty answer would be taken for a fact."""
        dataset = self.need.dataset.name
        command = f"seller-platform sync --account {self.account} --dataset {dataset}"
        if self.days is None:
            gap = "was never read"
        else:
            first, last = self.days
            gap = f"was never read for {first}"
            command += f" --from {first:%Y-%m} --to {last:%Y-%m}"
        problem = (
            f"asks for {dataset} of account {self.account}, which {gap}: the rows are a copy, loaded from another "
            f"service. Read it with `{command}`, or ask that service"
        )
        return unknown_to_replica(self.need.parameter, problem)


def unknown_to_replica(parameter: str, problem: str) -> ApiError:
    """Return the refusal of a request for what only the service can answer that the rows were loaded from."""
    return ApiError(f"{parameter} {problem}", status=422, reason=REPLICA, parameters={parameter: [problem]})


_DAYS_OF_SLICE = """
    CASE WHEN slice.read_after_days IS NOT NULL
         THEN datemultirange(daterange(slice.month, CAST(slice.month + interval '1 month' AS date)))
         ELSE (SELECT range_agg(daterange(slice.month + CAST(number AS integer) - 1,
                                          slice.month + CAST(number AS integer)))
               FROM unnest(slice.days_read) WITH ORDINALITY AS day (moment, number) WHERE moment IS NOT NULL)
    END
"""
"""The expression for the days of the month of a `slice` that were read."""

_GAPS = f"""
SELECT requested.position - 1, requested.account, lower(missing.days), upper(missing.days) - 1
FROM unnest(%(datasets)s::text[], %(accounts)s::text[], %(first_days)s::date[], %(last_days)s::date[])
     WITH ORDINALITY AS requested (dataset, account, first_day, last_day, position)
CROSS JOIN LATERAL (
    SELECT count(*) > 0 AS is_any, range_agg({_DAYS_OF_SLICE}) AS days
    FROM platform.slices AS slice
    WHERE slice.dataset = requested.dataset AND slice.account = requested.account AND slice.load_id IS NOT NULL
      AND (slice.month IS NULL OR slice.month <= requested.last_day
                              AND slice.month + interval '1 month' > coalesce(requested.first_day, '-infinity'))
) AS read
CROSS JOIN LATERAL (
    SELECT datemultirange(
               daterange(coalesce(requested.first_day, lower(read.days), requested.last_day), requested.last_day, '[]')
           ) - coalesce(read.days, '{{}}') AS days
    WHERE requested.last_day IS NOT NULL
    UNION ALL
    SELECT NULL WHERE requested.last_day IS NULL AND NOT read.is_any
) AS missing
WHERE missing.days IS NULL OR NOT isempty(missing.days)
ORDER BY requested.position
"""  # noqa: S608  # a constant


async def require_read(
    connection: Connection, selected: SelectedAccounts, needs: Sequence[Need], now: datetime
) -> None:
    """Refuse an answer that needs rows of a replica which were never read.

    Raises:
        ApiError: Rows of a replica were never read.
    """
    for gap in await find_gaps(connection, selected, needs, now):
        raise gap.error


async def find_gaps(
    connection: Connection, selected: SelectedAccounts, needs: Sequence[Need], now: datetime
) -> tuple[Gap, ...]:
    """Return what was never read, in the order of the needs."""
    requested = [(need, account.key, days) for need in needs for account, days in _needed_days(need, selected, now)]
    if not requested:
        return ()
    values = {
        "datasets": [need.dataset.name for need, _, _ in requested],
        "accounts": [account for _, account, _ in requested],
        "first_days": [first for _, _, (first, _) in requested],
        "last_days": [last for _, _, (_, last) in requested],
    }
    rows = await (await connection.execute(_GAPS, values)).fetchall()
    return tuple(
        Gap(requested[position][0], account, (first, last) if first else None)
        for position, account, first, last in rows
    )


def _needed_days(
    need: Need, selected: SelectedAccounts, now: datetime
) -> Iterator[tuple[ServedAccount, tuple[date | None, date | None]]]:
    """Yield each replica with the first and last day needed; snapshots have none."""
    for position, account in enumerate(selected.accounts):
        if not account.is_replica:
            continue
        if not need.dataset.is_dated:
            yield account, (None, None)
            continue
        today = account.today(now)
        days = need.days[position] if need.days is not None else None
        if days is None:
            yield account, (None, today)
        elif days.first <= today:
            yield account, (days.first, min(days.last, today))
