"""Refuses to read what was never loaded, because an empty result could be wrong."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby

from sqlalchemy import text

from seller_platform.contract import Window
from seller_platform.counts import count_of
from seller_platform.errors import NotLoadedError
from seller_platform.warehouse.loads.receipts import joined
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.relations import Relation, Selection, bound, merged

_ACCOUNTS_NAMED = 3
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

_OF_DATASETS = {"receipts": "platform.published_loads", "named": "dataset"}
_OF_MARTS = {"receipts": "platform.mart_builds", "named": "mart"}


def require_loaded(database: Database, relation: Relation, parts: Iterable[Selection] | None) -> list[Selection] | None:
    """Check that every part was loaded, be it empty; of a mart, that it was built.

    Of a monthly relation, each month of a part must have been loaded. A part without days has all months from the first
    to the last that were loaded. Of others, a part must have been loaded once.

    Args:
        parts: None asks for every account that was ever loaded; there must be one.

    Returns:
        The parts; None for a relation without accounts.

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
    asked = {"name": relation.name, "moment": relation.as_of or _LATEST, "is_monthly": relation.is_monthly}
    statement = text(_ABSENT.format(**tables, loads=_LOADS.format(**tables)))
    absent = database.execute(statement, {**asked, **bound(selections)}).mappings().all()
    if not absent:
        return selections if relation.has_account_parts else None
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
