"""Which stored days changed since a moment, and how much."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from sqlalchemy import text

from seller_platform.contract import dataset_named
from seller_platform.warehouse.postgres.database import Database


@dataclass(frozen=True)
class Restatement:
    """What changed on the days of a dataset and an account that had been read after they were over.

    Attributes:
        rows_came: Rows that are new; a changed row came and went.
        amount: The change of the first amount of the dataset; null where it has none.
        amount_name: The column of that amount, and the account's currency.
    """

    dataset: str
    account: str
    first_day: date
    last_day: date
    rows_came: int
    rows_went: int
    amount: Decimal | None
    amount_name: str | None


@dataclass(frozen=True)
class Activity:
    """What was read since a moment.

    Attributes:
        rows_came: Rows that were not stored before.
    """

    loads: int
    rows_came: int
    restatements: tuple[Restatement, ...]


_CHANGED = """
    SELECT load.id, load.dataset, load.account, CAST(changed.day AS date) AS day,
           CAST(changed.counts ->> 0 AS bigint) AS came, CAST(changed.counts ->> 1 AS bigint) AS went,
           CAST(changed.counts ->> 2 AS numeric) AS amount
    FROM platform.published_loads AS load, jsonb_each(load.changed_days) AS changed (day, counts)
    WHERE load.finished_at >= :since AND load.changed AND changed.day ~ '^[0-9-]{10}$'
"""
_RESTATED = text(f"""
    SELECT changed.dataset, changed.account, min(day), max(day), CAST(sum(came) AS bigint), CAST(sum(went) AS bigint),
           sum(amount), account.currency_code
    FROM ({_CHANGED}) AS changed
    JOIN platform.accounts AS account ON account.key = changed.account
    WHERE EXISTS (
        SELECT FROM platform.published_loads AS earlier
        WHERE earlier.dataset = changed.dataset AND earlier.account = changed.account AND earlier.id < changed.id
          AND earlier.window_start <= day AND earlier.window_end > day
          AND CAST(earlier.started_at AT TIME ZONE 'UTC' AS date) > day + 1
    )
    GROUP BY 1, 2, 8
    ORDER BY abs(sum(amount)) DESC, sum(came) + sum(went) DESC, 1, 2
""")  # noqa: S608  # a constant
_READ = text(f"""
    SELECT count(*), coalesce(sum(rows) FILTER (WHERE coalesce(jsonb_typeof(restatement), 'null') = 'null'), 0)
                     + (SELECT coalesce(sum(came), 0) FROM ({_CHANGED}) AS changed)
    FROM platform.published_loads WHERE finished_at >= :since
""")  # noqa: S608  # a constant


def activity_since(database: Database, since: datetime) -> Activity:
    """Return what was read since a moment, and which days of before changed; the largest amounts come first."""
    with database.begin() as connection:
        loads, came = connection.execute(_READ, {"since": since}).one()
        rows = connection.execute(_RESTATED, {"since": since}).all()
    restatements = []
    for dataset, *facts, amount, currency in rows:
        money = dataset_named(dataset).money
        of_money = (amount, f"{money[0].name} {currency or ''}".strip()) if money else (None, None)
        restatements.append(Restatement(dataset, *facts, *of_money))
    return Activity(loads, int(came), tuple(restatements))
