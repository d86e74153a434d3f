"""Refuses to read what was never loaded, because an empty result could be wrong."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from itertools import groupby

from psycopg.types.multirange import Multirange
from sqlalchemy import text

from seller_platform.contract import Dataset, Window
from seller_platform.counts import count_of
from seller_platform.errors import NotLoadedError, UnanswerableError
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import joined
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.relations import EVERY_DAY, Relation, Selection, merged

_ACCOUNTS_NAMED, _PAIRS_NAMED = 3, 20
_LATEST = datetime.max.replace(tzinfo=UTC)

_ACCOUNTS = "SELECT DISTINCT account FROM {receipts} WHERE {named} = :name AND finished_at <= :moment ORDER BY account"

# Without days, a part of a monthly relation has the months from the first to the last that were loaded. A month counts
# as loaded if any day of it that is asked for was. Null is the month where nothing was loaded. A part of another
# relation is loaded as a whole, and has no months.
_LOADS = """{receipts}
    WHERE {named} = :name AND account = part.account
      AND (window_start IS NULL
           OR window_start < coalesce(least(part.end_day, CAST(months.month + interval '1 month' AS date)), 'infinity')
              AND window_end > coalesce(greatest(part.first_day, CAST(months.month AS date)), '-infinity'))"""
_ABSENT = """
SELECT part.account, coalesce(CAST(months.month AS date), part.first_day) AS month,
       (SELECT min(finished_at) FROM {loads}) AS first_load
FROM unnest(CAST(:accounts AS text[]), CAST(:firsts AS date[]), CAST(:ends AS date[]))
         AS part (account, first_day, end_day)
LEFT JOIN LATERAL (
    SELECT min(window_start) AS first_day, max(window_end) AS end_day
    FROM {receipts} WHERE {named} = :name AND account = part.account AND finished_at <= :moment
) AS stored ON :is_monthly AND part.first_day IS NULL
LEFT JOIN LATERAL generate_series(
    date_trunc('month', CAST(coalesce(part.first_day, stored.first_day) AS timestamp)),
    CAST(coalesce(part.end_day, stored.end_day) - 1 AS timestamp),
    interval '1 month'
) AS months (month) ON :is_monthly
WHERE NOT EXISTS (SELECT FROM {loads} AND finished_at <= :moment)
ORDER BY 1, 2
"""

# A day counts as stored if it was read after it was over; until then its rows are a part of it. The first row is of all
# datasets and accounts.
_DAYS = text("""
    WITH asked AS (
        SELECT dataset, lookback, account, zone, CAST(day AS date) AS day
        FROM unnest(CAST(:datasets AS text[]), CAST(:lookbacks AS integer[])) AS of_dataset (dataset, lookback)
        CROSS JOIN unnest(CAST(:accounts AS text[]), CAST(:zones AS text[])) AS of_account (account, zone)
        CROSS JOIN generate_series(CAST(:first AS timestamp), CAST(:last AS timestamp), interval '1 day') AS day
    ),
    read AS (
        SELECT asked.*, daterange(day, day + 1) AS span, moment,
               CAST(moment AT TIME ZONE coalesce(time_zone, zone) AS date) - day AS after_days
        FROM asked
        LEFT JOIN platform.slices AS slice ON slice.dataset = asked.dataset AND slice.account = asked.account
                                          AND slice.month = date_trunc('month', asked.day)
        CROSS JOIN LATERAL (SELECT slice.days_read[extract(day FROM day)::integer]) AS of_day (moment)
    )
    SELECT dataset || ' of ' || account AS named, min(moment) AS read_at,
           range_agg(span) FILTER (WHERE coalesce(after_days, 0) < 1) AS missing,
           range_agg(span) - range_agg(span) FILTER (WHERE coalesce(after_days, 0) < 1) AS stored,
           range_agg(span) FILTER (WHERE after_days BETWEEN 1 AND lookback - 1) AS changing
    FROM read GROUP BY GROUPING SETS ((), (dataset, account)) ORDER BY dataset NULLS FIRST, account
""")

_OF_DATASETS = {"receipts": "platform.published_loads", "named": "dataset"}
_OF_MARTS = {"receipts": "platform.mart_builds", "named": "mart"}


def require_loaded(database: Database, relation: Relation, parts: Iterable[Selection] | None) -> None:
    """Check that every part was loaded, be it empty; of a mart, that it was built.

    Of a monthly relation, each month of a part must have been loaded. A part without days has all months from the first
    to the last that were loaded. Of others, a part must have been loaded once.

    Args:
        parts: None asks for every account that was ever loaded; there must be one.

    Raises:
        NotLoadedError: A part, or a month of it, was never loaded, or not yet at the moment of the relation.
        RequestError: The relation has no such parts.
    """
    tables = _OF_MARTS if relation.is_mart else _OF_DATASETS
    if parts is None:
        selections = [Selection(account) for account in loaded_accounts(database, relation)]
        if not selections:
            raise NotLoadedError(relation.table, relation.name)
    else:
        selections = merged(relation, parts)
    windows = [None if each.window == EVERY_DAY else each.window for each in selections]
    bound = {
        "name": relation.name,
        "moment": relation.as_of or _LATEST,
        "is_monthly": relation.is_monthly,
        "accounts": [each.account for each in selections],
        "firsts": [window and window.start for window in windows],
        "ends": [window and window.end for window in windows],
    }
    statement = text(_ABSENT.format(**tables, loads=_LOADS.format(**tables)))
    absent = database.execute(statement, bound).mappings().all()
    if not absent:
        return
    first_loads = [row["first_load"] for row in absent if row["first_load"] is not None]
    # If a part was never loaded, no later moment helps, and that part is named.
    first_load = max(first_loads) if len(first_loads) == len(absent) else None
    absent = absent if first_load else [row for row in absent if row["first_load"] is None]
    of_account = {account: list(rows) for account, rows in groupby(absent, key=lambda row: row["account"])}
    named = []
    for account, rows in of_account.items():
        days = [row["month"] for row in rows if row["month"] is not None]
        spelled = map(str, days)
        if relation.is_monthly:  # 2026-04 to 2026-06, 2026-08
            ranges = ((each.start, each.last_day) for each in joined([Window.month_of(month) for month in days]))
            spelled = map(" to ".join, (dict.fromkeys((f"{first:%Y-%m}", f"{last:%Y-%m}")) for first, last in ranges))
        named.append(", ".join([f"{relation.name} of {account}", *spelled]))
    more = [count_of(len(named) - _ACCOUNTS_NAMED, "more account")] if len(named) > _ACCOUNTS_NAMED else []
    months = [row["month"] for row in absent if row["month"] is not None]
    raise NotLoadedError(
        relation.table,
        "; ".join([*named[:_ACCOUNTS_NAMED], *more]),
        accounts=[] if more else list(of_account),
        months=(min(months), max(months)) if months and relation.is_monthly else None,
        as_of=relation.as_of,
        first_load=first_load,
    )


def require_days(
    database: Database, datasets: Sequence[Dataset], accounts: Sequence[KnownAccount], window: Window
) -> tuple[datetime, str]:
    """Check that every day of dated datasets and accounts was read after it was over.

    Returns:
        When the first of them was read, and those that the upstream may still change; an empty text without any.

    Raises:
        UnanswerableError: Some were not; the message names them, and those that can be asked for.
    """
    bound = {
        "datasets": [each.name for each in datasets],
        "lookbacks": [each.lookback_days for each in datasets],
        "accounts": [each.key for each in accounts],
        "zones": [each.account.timezone for each in accounts],
        "first": window.start,
        "last": window.last_day,
    }
    total, *pairs = database.execute(_DAYS, bound).all()
    if total.missing:
        named = [f"{each.named}, {_spelled(each.missing)}" for each in pairs if each.missing]
        longest = max(_windows(total.stored), key=lambda each: each.days, default=None)
        raise UnanswerableError(
            f"days are not stored as a whole: {'; '.join(named[:_PAIRS_NAMED])}",
            f"{f'Ask for {longest}, which are stored, or first' if longest else 'First'} let "
            "`seller-platform sync` load them; a day is whole when it was read after its end.",
        )
    return total.read_at, _spelled(total.changing)


def loaded_accounts(database: Database, relation: Relation) -> Sequence[str]:
    """Return the accounts of which something was ever loaded or built; of the accounts themselves, the connections.

    Of a former moment they are those of which something was loaded by then; without any, those of now.
    """
    statement = text(_ACCOUNTS.format(**(_OF_MARTS if relation.is_mart else _OF_DATASETS)))
    with database.begin() as connection:
        for moment in (relation.as_of or _LATEST, _LATEST):
            if keys := connection.execute(statement, {"name": relation.name, "moment": moment}).scalars().all():
                return keys
    return []


def _windows(days: Multirange[date] | None) -> list[Window]:
    return [Window(each.lower, each.upper) for each in days or () if each.lower and each.upper]


def _spelled(days: Multirange[date] | None) -> str:
    return ", ".join(str(each) if each.days > 1 else str(each.start) for each in _windows(days))
