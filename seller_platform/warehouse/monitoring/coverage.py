"""What should be stored of each dataset and account, and what is: days, rows and age."""

from collections.abc import Sequence
from datetime import date, datetime
from itertools import repeat

import msgspec
from sqlalchemy import text

from seller_platform.contract import REFRESHED, Dataset
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts, connections
from seller_platform.warehouse.history.settledness import settledness
from seller_platform.warehouse.postgres.database import Database


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a dataset and an account. Without a load, the facts about it are null.

    Attributes:
        account: The account key; for the accounts themselves the connection.
        first_day: The first local day that was ever read.
        last_day: The last.
        missing_days: Days that no load has covered, from the start of history to the last day that was read; always 0
            where the dataset has no days.
        rows: Rows stored; of a snapshot those of the newest day.
        read_at: When any of it was last read.
        settles_after_days: How long days may still change.
    """

    dataset: str
    account: str
    first_day: date | None
    last_day: date | None
    missing_days: int | None
    rows: int | None
    read_at: datetime | None
    age_hours: float | None
    settles_after_days: int | None


_FACTS = ("first_day", "last_day", "missing_days", "rows", "read_at", "age_hours")
_STORED = text("""
    SELECT dataset, account, min(coalesce(month + first - 1, first_day)), max(coalesce(month + last - 1, newest_day)),
           coalesce(max(month + last) - least(min(month + first - 1), CAST(:since AS date))
                    - CAST(sum(days) AS integer), 0),
           CAST(sum(rows) AS bigint), max(slices.read_at),
           CAST(round(extract(epoch FROM CAST(:now AS timestamptz) - max(slices.read_at)) / 3600, 1) AS float8)
    FROM platform.slices
    LEFT JOIN LATERAL (
        SELECT min(number)::integer AS first, max(number)::integer AS last, count(*) AS days
        FROM unnest(days_read) WITH ORDINALITY AS day (read_at, number)
        WHERE day.read_at IS NOT NULL
    ) AS read ON true
    WHERE load_id IS NOT NULL
    GROUP BY dataset, account
""")


def coverage(
    database: Database,
    *,
    since: date,
    now: datetime,
    datasets: Sequence[Dataset] = REFRESHED,
    listed: Sequence[KnownAccount] | None = None,
) -> list[Coverage]:
    """Return what should be stored or is stored since the first day of history, by dataset and account.

    Every account that is listed should have every dataset that is read, by default all that are refreshed, and every
    connection its accounts. Others have a line only if something of them was loaded.
    """
    listed = accounts(database) if listed is None else listed
    expected = {(dataset.name, account.key) for account in listed for dataset in datasets}
    expected |= {(ACCOUNTS.name, connection.name) for connection in connections(database)}
    rows = database.execute(_STORED, {"since": since, "now": now})
    stored = {(dataset, account): facts for dataset, account, *facts in rows}
    pairs = sorted({*expected, *stored})
    settled = settledness(database, REFRESHED, sorted({account for _, account in pairs}))
    lookbacks = {dataset.name: dataset.lookback_days for dataset in REFRESHED}
    return [
        Coverage(
            dataset=pair[0],
            account=pair[1],
            settles_after_days=settled[pair].settles_after(lookbacks[pair[0]]) if pair in settled else None,
            **dict(zip(_FACTS, stored.get(pair, repeat(None)), strict=False)),
        )
        for pair in pairs
    ]
