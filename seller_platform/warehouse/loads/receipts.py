"""Reads the receipts: covered days, days that may have changed since, loads of a run."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import ARRAY, ColumnElement, Connection, Select, Text, and_, bindparam, func, select, text

from seller_platform.contract import DATASETS, Dataset, Window
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import (
    ACCOUNTS,
    CONNECTIONS,
    HELD,
    IS_PUBLISHED,
    IS_READING,
    LOADS,
    loads_of,
)

CLOCKS_DIFFER = timedelta(days=1)
"""A load that began further ahead of now was stored by a wrong clock and does not count."""

_SOON = timedelta(hours=1)
"""How long after midnight a reading of yesterday and today does not count as the day's reading of yesterday."""

_NEWEST = 10
"""How many loads of each dataset and number of days tell how many rows a day has."""


def receipts_of_run(database: Database, run_id: str) -> tuple[Receipt, ...]:
    """Return the receipts of a Dagster run, in the order in which its loads began."""
    statement = select(LOADS).where(LOADS.c.run_id == run_id).order_by(LOADS.c.id)
    with database.begin() as connection:
        return tuple(Receipt.of(row) for row in connection.execute(statement).mappings())


def windows_of_loads(database: Database, loads: Sequence[int]) -> dict[int, Window]:
    """Return the windows of those of these loads that have a receipt, by number."""
    statement = select(LOADS.c.id, LOADS.c.window_start, LOADS.c.window_end).where(LOADS.c.id.in_(loads))
    with database.begin() as connection:
        return {load: Window(start, end) for load, start, end in connection.execute(statement)} if loads else {}


def count_loads(database: Database, run_ids: Sequence[str]) -> int:
    """Return how many loads those runs have stored so far."""
    statement = select(func.count()).select_from(LOADS).where(LOADS.c.run_id.in_(run_ids))
    with database.begin() as connection:
        return connection.execute(statement).scalar_one()


@dataclass(frozen=True)
class StoredWindow:
    """Days of a dataset and account that loads have stored.

    Attributes:
        started_at: When the newest load of the dataset and account began.
    """

    dataset: str
    account: str
    window: Window
    started_at: datetime


# Rows that sum up their window replace each other: of each month, the newest window follows after those of all days.
_STORED_WINDOWS = text("""
    SELECT dataset, account, lower(stored), upper(stored), started_at
    FROM (
        SELECT dataset, account, range_agg(daterange(window_start, window_end)) AS days, max(started_at) AS started_at
        FROM platform.loads WHERE verdict <> 'held' GROUP BY dataset, account
    ) AS pair, unnest(days) AS stored
    UNION ALL (
        SELECT DISTINCT ON (dataset, account, date_trunc('month', window_start))
               dataset, account, window_start, window_end, started_at
        FROM platform.loads WHERE verdict <> 'held' AND dataset = ANY (:sums)
        ORDER BY dataset, account, date_trunc('month', window_start), id DESC
    )
""")


def stored_windows(database: Database) -> list[StoredWindow]:
    """Return the stored windows of every dataset and account, without the rows of former windows that are replaced."""
    sums = [dataset.name for dataset in DATASETS if dataset.is_dated and not dataset.is_divisible]
    with database.begin() as connection:
        return [
            StoredWindow(dataset, account, Window(first, after), started_at)
            for dataset, account, first, after, started_at in connection.execute(_STORED_WINDOWS, {"sums": sums})
        ]


def newest_receipts(database: Database, dataset: Dataset) -> dict[str, Receipt]:
    """Return the receipt of the last load of each account; of `accounts`, of each connection."""
    statement = (
        select(LOADS)
        .distinct(LOADS.c.account)
        .where(LOADS.c.dataset == dataset.name, IS_PUBLISHED)
        .order_by(LOADS.c.account, LOADS.c.id.desc())
    )
    with database.begin() as connection:
        return {row["account"]: Receipt.of(row) for row in connection.execute(statement).mappings()}


def newest_receipt(database: Database, dataset: Dataset, account: str, window: Window | None = None) -> Receipt | None:
    """Return the receipt of the last published reading of an account's days; None if there is none.

    Args:
        window: The days; None for any.
    """
    statement = select(LOADS).where(loads_of(dataset, account, window)).order_by(LOADS.c.id.desc()).limit(1)
    with database.begin() as connection:
        row = connection.execute(statement).mappings().one_or_none()
    return None if row is None else Receipt.of(row)


def was_loaded(database: Database, dataset: Dataset, account: str, window: Window | None = None) -> bool:
    """Return whether the dataset was ever loaded for an account, be it empty.

    With a window, whether any of its days was.
    """
    with database.begin() as connection:
        return connection.execute(
            select(select(LOADS.c.id).where(loads_of(dataset, account, window)).exists())
        ).scalar_one()


def newest_load(database: Database) -> datetime | None:
    """Return when the newest load ended; None if there is none."""
    with database.begin() as connection:
        newest = select(LOADS.c.finished_at).order_by(LOADS.c.id.desc()).limit(1)
        return connection.execute(newest).scalar_one_or_none()


_ROWS_A_DAY = text("""
    SELECT dataset, sum(rows)::float8 / sum(days)
    FROM unnest(CAST(:datasets AS text[])) AS chosen (dataset)
    CROSS JOIN generate_series(1, 31) AS days
    CROSS JOIN LATERAL (
        SELECT rows FROM platform.loads
        WHERE loads.dataset = chosen.dataset AND window_end - window_start = days AND verdict <> 'held'
        ORDER BY window_end - window_start, id DESC LIMIT :newest
    ) AS receipt
    GROUP BY dataset
""")


def rows_a_day(database: Database, datasets: Sequence[Dataset]) -> dict[str, float]:
    """Return how many rows a day of an account had, by name of dataset.

    The newest loads of each number of days count, so that many loads of one day do not outweigh those of a month.
    """
    bound = {"datasets": [dataset.name for dataset in datasets], "newest": _NEWEST}
    with database.begin() as connection:
        return dict(connection.execute(_ROWS_A_DAY, bound).tuples().all())


def upstream_offers(database: Database, dataset: Dataset, account: str) -> bool:
    """Return whether the dataset was ever loaded from the upstream of an account, for this account or for another."""
    own, same = (CONNECTIONS.alias() for _ in range(2))
    upstream = (
        select(own.c.base_url)
        .join(ACCOUNTS, ACCOUNTS.c.connection == own.c.name)
        .where(ACCOUNTS.c.key == account)
        .scalar_subquery()
    )
    readers = ACCOUNTS.alias()
    loads = (
        select(LOADS.c.id)
        .join(readers, readers.c.key == LOADS.c.account)
        .join(same, same.c.name == readers.c.connection)
        .where(LOADS.c.dataset == dataset.name, same.c.base_url == upstream)
    )
    with database.begin() as connection:
        return connection.execute(select(loads.exists())).scalar_one()


def days_read(
    database: Database,
    dataset: Dataset,
    account: str,
    window: Window,
    zone: ZoneInfo,
    *,
    now: datetime,
    held_too: bool = False,
) -> dict[date, date]:
    """Return the local day on which each covered day of the window was last read.

    A revert is not a reading. Days whose last reading is held are left out, because they are to be read again; so are
    days that were read under another time zone or currency than the account's present one.

    Args:
        held_too: Return those, too, with their last published reading.
    """
    of = {"of_dataset": dataset.name, "of_account": account}
    span = {"begin": window.start, "end": window.end, "before": now + CLOCKS_DIFFER}
    read: dict[date, date] = {}
    with database.begin() as connection:
        for start, end, started_at in connection.execute(_READINGS, of | span):
            for day in Window(start, end).since(window.start).until(window.end).each_day():
                read[day] = max(read.get(day, date.min), started_at.astimezone(zone).date())
        for receipt in () if held_too else _receipts(connection, _OPEN_HOLDS_OF, of):
            for day in receipt.window.each_day():
                read.pop(day, None)
    return read


def open_holds(database: Database) -> tuple[Receipt, ...]:
    """Return the receipts of readings that are held: no later loads published their days, or held them again."""
    with database.begin() as connection:
        return _receipts(connection, _OPEN_HOLDS, {})


def open_hold(database: Database, dataset: Dataset, account: str, window: Window | None) -> Receipt | None:
    """Return the receipt of a reading of an account's days that is held; None if there is none.

    Args:
        window: The days; None for any.
    """
    with database.begin() as connection:
        held = _receipts(connection, _OPEN_HOLDS_OF, {"of_dataset": dataset.name, "of_account": account})
    of_days = (each for each in held if window is None or each.window.start < window.end)
    return next((each for each in of_days if window is None or each.window.end > window.start), None)


def _receipts(connection: Connection, statement: Select[Any], values: Mapping[str, object]) -> tuple[Receipt, ...]:
    return tuple(Receipt.of(row) for row in connection.execute(statement, values).mappings())


_IS_OPEN = """
    NOT (SELECT count(*) > 0 AND (coalesce(CAST(held.notes #>> '{held,covers_all}' AS boolean), false)
                                  OR daterange(held.window_start, held.window_end)
                                     <@ range_agg(daterange(later.window_start, later.window_end)))
         FROM platform.loads AS later
         WHERE later.dataset = held.dataset AND later.account = held.account AND later.id > held.id)
"""
"""The condition for open holds: later loads, published or held, do not have all days of the window together.

Any later load ends the hold of a whole list.
"""

_HOLDS = LOADS.alias("held")


def _open_holds(condition: ColumnElement[bool]) -> Select[Any]:
    statement = select(_HOLDS).where(condition, text(_IS_OPEN))
    return statement.order_by(_HOLDS.c.dataset, _HOLDS.c.account, _HOLDS.c.window_start)


# Readings of the present zone and currency count only from after the last one of others, whose rows lie on other days.
_STALE_TO = """
    (SELECT coalesce(max(former.id), 0)
     FROM platform.accounts AS present JOIN platform.loads AS former ON former.account = present.key
     WHERE present.key = {account} AND former.dataset = {dataset}
       AND former.verdict <> 'held' AND former.notes -> 'reverts_load' IS NULL
       AND (former.time_zone <> nullif(present.timezone, '') OR former.currency <> present.currency_code))
"""


# Built once: every load executes them, and to build such a statement takes as long as to execute it.
_OPEN_HOLDS = _open_holds(_HOLDS.c.verdict == HELD)
_OPEN_HOLDS_OF = _open_holds(
    and_(
        _HOLDS.c.dataset == bindparam("of_dataset"),
        _HOLDS.c.account == bindparam("of_account"),
        _HOLDS.c.verdict == HELD,
    )
)
_READINGS = (
    select(LOADS.c.window_start, LOADS.c.window_end, func.max(LOADS.c.started_at))
    .where(
        LOADS.c.dataset == bindparam("of_dataset"),
        LOADS.c.account == bindparam("of_account"),
        LOADS.c.window_start < bindparam("end"),
        LOADS.c.window_end > bindparam("begin"),
        LOADS.c.started_at < bindparam("before"),
        IS_PUBLISHED,
        IS_READING,
        text(f"loads.id > {_STALE_TO.format(dataset=':of_dataset', account=':of_account')}"),
    )
    .group_by(LOADS.c.window_start, LOADS.c.window_end)
)


def unsettled(
    dataset: Dataset, window: Window, read: dict[date, date], *, lookback_days: int | None = None
) -> Window | None:
    """Return the part of a window that may have changed since; None if none may.

    A day is settled once it was read later than the lookback after it. The part is the smallest window with every
    unsettled day in it.

    Args:
        lookback_days: How many days back rows may still change; by default as the dataset says.
    """
    lookback = timedelta(days=dataset.lookback_days if lookback_days is None else lookback_days)
    open_days = [day for day in window.each_day() if day not in read or read[day] <= day + lookback]
    return Window(open_days[0], open_days[-1] + timedelta(days=1)) if open_days else None


@dataclass(frozen=True)
class AccountDay:
    """The local day of an account at a moment.

    Attributes:
        moment: The moment itself; that of a late tick of a schedule may be past.
        begins_at: The instant at which the day begins.
        utc_offset: What the zone is ahead of UTC; the lesser of the two where it changes by the season.
    """

    account: str
    today: date
    moment: datetime
    begins_at: datetime
    utc_offset: timedelta

    @classmethod
    def at(cls, moment: datetime, account: str, zone: ZoneInfo) -> "AccountDay":
        today = moment.astimezone(zone).date()
        midnights = [datetime.combine(today + timedelta(days=ahead), time(), zone) for ahead in (0, 91, 182, 273)]
        offset = min(midnight.utcoffset() or timedelta() for midnight in midnights)
        return cls(account, today, moment, midnights[0], offset)


_DUE_DAYS = """
    SELECT due.dataset, due.account, lower(part) AS first, upper(part) AS after
    FROM (
        SELECT wanted.dataset, wanted.account,
               datemultirange(daterange(CASE WHEN is_dated THEN least(CAST(:since AS date), today + 1) ELSE today END,
                                        today + 1))
               - (coalesce(done.days, '{{}}') - coalesce(held.days, '{{}}')) AS days
        FROM unnest(CAST(:datasets AS text[]), CAST(:are_dated AS boolean[]), CAST(:lookbacks AS integer[]),
                    CAST(:accounts AS text[]), CAST(:todays AS date[]), CAST(:moments AS timestamptz[]),
                    CAST(:begin_at AS timestamptz[]), CAST(:offsets AS interval[]))
             AS wanted (dataset, is_dated, lookback, account, today, moment, begins_at, utc_offset)
        LEFT JOIN LATERAL (
            SELECT range_agg(daterange(CASE
                       WHEN started_at >= wanted.begins_at AND started_at < wanted.begins_at + CAST(:soon AS interval)
                            AND window_end - window_start <= 2 AND wanted.lookback > 0
                       THEN least(greatest(window_start, wanted.today), window_end)
                       ELSE window_start
                   END, greatest(window_start, CASE
                       WHEN started_at >= wanted.begins_at THEN window_end
                       ELSE least(window_end,
                                  CAST(started_at AT TIME ZONE 'UTC' + wanted.utc_offset AS date) - wanted.lookback)
                   END))) AS days
            FROM (
                SELECT window_start, window_end, started_at FROM platform.loads
                WHERE loads.dataset = wanted.dataset AND loads.account = wanted.account
                  AND verdict <> 'held' AND notes -> 'reverts_load' IS NULL AND id > {stale_to}
                UNION ALL
                SELECT window_start, window_end, started_at FROM platform.loads
                WHERE loads.dataset = wanted.dataset AND loads.account = wanted.account
                  AND verdict = 'held' AND started_at >= wanted.begins_at
            ) AS reading
            WHERE started_at < greatest(wanted.moment, now()) + CAST(:clocks_differ AS interval)
              AND (started_at >= wanted.begins_at
                   OR window_start < CAST(started_at AT TIME ZONE 'UTC' + wanted.utc_offset AS date) - wanted.lookback)
        ) AS done ON true
        LEFT JOIN LATERAL (
            SELECT range_agg(daterange(window_start, window_end)) AS days
            FROM platform.loads AS held
            WHERE held.dataset = wanted.dataset AND held.account = wanted.account AND verdict = 'held'
              AND held.started_at < wanted.begins_at
              AND {is_open}
        ) AS held ON true
    ) AS due, unnest(due.days) AS part
    ORDER BY 1, 2, 3
"""
_DUE = text(
    _DUE_DAYS.format(is_open=_IS_OPEN, stale_to=_STALE_TO.format(dataset="wanted.dataset", account="wanted.account"))
)


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

    Pairs without such days are left out. A day is due if it is not settled (see `unsettled`) and was not read since its
    account's today began, or if it was read under another time zone or currency than the account's present one. Of a
    snapshot only today can be due. One statement serves all accounts. Where a zone changed its clocks between a load
    and today, the statement takes a load within an hour of midnight for one of the day before: a day may be read once
    too often, never once too seldom. A reading of one or two days in the first hour of today does not count for the
    days before, because it was made for the last orders of yesterday.

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
        "are_dated": [dataset.is_dated for dataset, _ in pairs],
        "lookbacks": [lookbacks.get((dataset.name, day.account), dataset.lookback_days) for dataset, day in pairs],
        "accounts": [day.account for _, day in pairs],
        "todays": [day.today for _, day in pairs],
        "moments": [day.moment for _, day in pairs],
        "begin_at": ["infinity" if again else day.begins_at for _, day in pairs],
        "offsets": [day.utc_offset for _, day in pairs],
        "clocks_differ": CLOCKS_DIFFER,
        "soon": _SOON,
    }
    due: dict[tuple[str, str], list[Window]] = defaultdict(list)
    with database.begin() as connection:
        for dataset, account, first, after in connection.execute(_DUE, bound):
            due[(dataset, account)].append(Window(first, after))
    return {pair: tuple(windows) for pair, windows in due.items()}


def last_reads(database: Database, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], datetime]:
    """Return when each dataset of an account was read last, by name and account; without those never read."""
    chosen = (
        func.unnest(
            bindparam("datasets", [name for name, _ in pairs], ARRAY(Text)),
            bindparam("accounts", [account for _, account in pairs], ARRAY(Text)),
        )
        .table_valued("dataset", "account")
        .render_derived()
    )
    newest = (
        select(func.max(LOADS.c.started_at))
        .where(LOADS.c.dataset == chosen.c.dataset, LOADS.c.account == chosen.c.account, IS_READING)
        .scalar_subquery()
    )
    statement = select(chosen.c.dataset, chosen.c.account, newest).distinct()
    with database.begin() as connection:
        return {(name, account): at for name, account, at in connection.execute(statement) if at is not None}


def pairs_read(database: Database, datasets: Sequence[Dataset]) -> frozenset[tuple[str, str]]:
    """Return each pair of a dataset's name and an account that was ever read."""
    statement = select(LOADS.c.dataset, LOADS.c.account).distinct()
    with database.begin() as connection:
        rows = connection.execute(statement.where(LOADS.c.dataset.in_([dataset.name for dataset in datasets])))
        return frozenset((dataset, account) for dataset, account in rows)
