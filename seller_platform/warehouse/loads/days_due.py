"""The days that were read, and those that are due: read never, or before their rows stopped changing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from zoneinfo import ZoneInfo

from sqlalchemy import text

from seller_platform.contract import Dataset, Window
from seller_platform.warehouse.postgres.database import Database

CLOCKS_DIFFER = timedelta(days=1)
"""A load that began further ahead of now was stored by a wrong clock and does not count."""

_SOON = timedelta(hours=1)
"""How long after midnight a reading of yesterday and today does not count as the day's reading of yesterday."""

_IS_PRESENT = """
    (slice.time_zone <> nullif(present.timezone, '') OR slice.currency <> present.currency_code) IS NOT TRUE
"""
"""The condition for slices that were read under the account's present time zone and currency."""

_MONTHS_READ = text(f"""
    SELECT month, days_read
    FROM platform.slices AS slice LEFT JOIN platform.accounts AS present ON present.key = slice.account
    WHERE slice.dataset = :of_dataset AND slice.account = :of_account AND days_read IS NOT NULL
      AND month >= date_trunc('month', CAST(:begin AS timestamp)) AND month < :end AND (:under_any OR {_IS_PRESENT})
""")  # noqa: S608  # a constant


def days_read(
    database: Database,
    dataset: Dataset,
    account: str,
    window: Window,
    zone: ZoneInfo,
    *,
    now: datetime,
    under_any: bool = False,
) -> dict[date, date]:
    """Return the local day on which each day of a dated list that was read was last read.

    A reading that is held does not count, and a revert is none. One under another time zone or currency than the
    account's present one counts only if `under_any`.
    """
    days = {"begin": window.start, "end": window.end, "under_any": under_any}
    bound = {"of_dataset": dataset.name, "of_account": account, **days}
    return {
        day: moment.astimezone(zone).date()
        for month, moments in database.execute(_MONTHS_READ, bound)
        for day, moment in zip(Window.month_of(month).each_day(), moments, strict=False)
        if moment is not None and moment < now + CLOCKS_DIFFER and day in window
    }


@dataclass(frozen=True)
class AccountDay:
    """The local day of an account at a moment.

    Attributes:
        moment: The moment itself; that of a late tick of a schedule may be past.
        begins_at: The instant at which the day begins.
    """

    account: str
    today: date
    moment: datetime
    begins_at: datetime

    @classmethod
    def at(cls, moment: datetime, account: str, zone: ZoneInfo) -> "AccountDay":
        today = moment.astimezone(zone).date()
        return cls(account, today, moment, datetime.combine(today, time(), zone))


# A month that has settled is told by one number; of the others, each day is looked at.
_DUE = text(f"""
    SELECT due.dataset, due.account, lower(part) AS first, upper(part) AS after
    FROM (
        SELECT wanted.dataset, wanted.account,
               datemultirange(daterange(CASE WHEN dataset = ANY (:dated) THEN least(CAST(:since AS date), today + 1)
                                             ELSE today END, today + 1))
               - (coalesce(done.days, '{{}}') + coalesce(held.again, '{{}}') - coalesce(held.before, '{{}}')) AS days
        FROM unnest(CAST(:datasets AS text[]), CAST(:accounts AS text[]), CAST(:lookbacks AS integer[]))
             AS wanted (dataset, account, lookback)
        JOIN unnest(CAST(:keys AS text[]), CAST(:todays AS date[]), CAST(:moments AS timestamptz[]),
                    CAST(:begin_at AS timestamptz[])) AS day (key, today, moment, begins_at) ON day.key = wanted.account
        CROSS JOIN LATERAL (
            SELECT begins_at + CASE WHEN lookback > 0 THEN CAST(:soon AS interval) ELSE '0' END AS soon_over,
                   greatest(moment, now()) + CAST(:clocks_differ AS interval) AS latest
        ) AS moments
        LEFT JOIN platform.accounts AS present ON present.key = wanted.account
        LEFT JOIN LATERAL (
            SELECT range_agg(CASE
                       WHEN month IS NULL AND read_at >= begins_at AND read_at < latest
                       THEN datemultirange(daterange(today, today + 1))
                       WHEN read_after_days > lookback AND (latest <= ANY (days_read)) IS NOT TRUE
                       THEN datemultirange(daterange(month, CAST(month + interval '1 month' AS date)))
                       ELSE (
                           SELECT range_agg(daterange(day, day + 1))
                           FROM unnest(days_read) WITH ORDINALITY AS each (last_read, number),
                                LATERAL (SELECT month + CAST(number AS integer) - 1 AS day) AS of_month
                           WHERE last_read < latest
                             AND (last_read >= soon_over
                                  OR last_read >= begins_at
                                     AND (day >= today OR cardinality(array_positions(days_read, last_read)) > 2)
                                  OR CAST(last_read AT TIME ZONE coalesce(time_zone, 'UTC') AS date) - lookback > day)
                       )
                   END) AS days
            FROM platform.slices AS slice
            WHERE slice.dataset = wanted.dataset AND slice.account = wanted.account
              AND (month IS NULL OR month >= date_trunc('month', CAST(:since AS timestamp)))
              AND {_IS_PRESENT}
        ) AS done ON true
        LEFT JOIN LATERAL (
            SELECT range_agg(daterange(window_start, window_end)) FILTER (WHERE started_at < begins_at) AS before,
                   range_agg(daterange(window_start, window_end)) FILTER (
                       WHERE started_at >= CASE WHEN window_end - window_start > 2 THEN begins_at ELSE soon_over END
                         AND started_at < latest) AS again
            FROM platform.slices AS slice
            JOIN platform.loads AS load ON load.id = ANY (held_load_ids || mismatched_load_ids)
            WHERE slice.dataset = wanted.dataset AND slice.account = wanted.account
              AND (held_load_ids <> '{{}}' OR mismatched_load_ids <> '{{}}')
              AND (load.verdict = 'held' OR NOT platform.is_confirmed(load.id))
        ) AS held ON true
    ) AS due, unnest(due.days) AS part
    ORDER BY 1, 2, 3
""")  # noqa: S608  # a constant


def days_due(
    database: Database,
    datasets: Sequence[Dataset],
    days: Sequence[AccountDay],
    *,
    since: date,
    again: bool = False,
    lookbacks: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> dict[tuple[str, str], tuple[Window, ...]]:
    """Return the days that a refresh has to read, by name of dataset and account.

    Pairs without such days are left out. A day is settled once it was read later than the lookback after it. A day is
    due if it is not settled and was not read since its account's today began, or if it was read under another time zone
    or currency than the account's present one. Of a snapshot only today can be due. Days that are held are due each
    day, and so are those that do not add up to their total, until three days confirm it. One statement serves all
    accounts. A reading of one or two days in the first hour of today does not count for the days before, because it was
    made for the last orders of yesterday.

    Args:
        since: The first day of interest of dated datasets.
        again: Days that are not settled are due even if they were read since today began.
        lookbacks: How many days back rows may still change, by name of dataset and account; by default as the dataset
            says.
    """
    pairs = [(dataset, day) for dataset in datasets for day in days]
    bound = {
        "since": since,
        "datasets": [dataset.name for dataset, _ in pairs],
        "accounts": [day.account for _, day in pairs],
        "lookbacks": [lookbacks.get((dataset.name, day.account), dataset.lookback_days) for dataset, day in pairs],
        "dated": [dataset.name for dataset in datasets if dataset.is_dated],
        "keys": [day.account for day in days],
        "todays": [day.today for day in days],
        "moments": [day.moment for day in days],
        "begin_at": ["infinity" if again else day.begins_at for day in days],
        "clocks_differ": CLOCKS_DIFFER,
        "soon": _SOON,
    }
    rows = groupby(database.execute(_DUE, bound), key=itemgetter(0, 1))
    return {pair: tuple(Window(*days) for _, _, *days in of_pair) for pair, of_pair in rows}


_LAST_READS = text("""
    SELECT dataset, account, max(greatest(read_at, CASE WHEN held_load_ids <> '{}' THEN (
        SELECT max(started_at) FROM platform.loads WHERE id = ANY (held_load_ids)) END))
    FROM platform.slices WHERE dataset = ANY (:datasets) GROUP BY dataset, account
""")


def last_reads(database: Database, datasets: Sequence[Dataset]) -> dict[tuple[str, str], datetime]:
    """Return when each dataset of an account was read last, by name and account; without those never read."""
    rows = database.execute(_LAST_READS, {"datasets": [dataset.name for dataset in datasets]})
    return {(name, account): moment for name, account, moment in rows if moment is not None}
