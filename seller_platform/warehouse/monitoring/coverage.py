"""What should be stored of each dataset and account, and what is: days, rows, verdict and age."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from itertools import groupby
from typing import Any

from sqlalchemy import text

from seller_platform.contract import REFRESHED
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.contract.loads import CountVerdict
from seller_platform.warehouse.connections.accounts import accounts, connections
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.refusals import Refusal, refusals
from seller_platform.warehouse.loads.slices import Receipt, held_error
from seller_platform.warehouse.postgres.database import Database


class CoverageState(StrEnum):
    """Whether a dataset of an account is stored."""

    LOADED = "loaded"
    NEVER_LOADED = "never loaded"
    REFUSED = "refused"
    HELD = "held"


@dataclass(frozen=True)
class Coverage:
    """What is stored of a dataset and an account. Without a load, the facts about it are None.

    Attributes:
        account: The account key; for the accounts themselves the connection.
        state: `refused` if any slice of it was not loaded when it was last tried; `held` if a reading of it is held.
        first_day: The first local day that was ever read.
        last_day: The last.
        missing_days: Days that no load has covered, from the start of history to the last day that was read; always 0
            where the dataset has no days.
        rows: Rows stored; of a snapshot those of the newest day.
        verdict: The worst of the latest verdicts on its windows.
        read_at: When any of it was last read.
        refusals: The slices that were not loaded, oldest first; a retired account has none.
    """

    dataset: str
    account: str
    state: CoverageState
    first_day: date | None = None
    last_day: date | None = None
    missing_days: int | None = None
    rows: int | None = None
    verdict: CountVerdict | None = None
    read_at: datetime | None = None
    refusals: tuple[Refusal, ...] = ()

    @property
    def reason(self) -> str | None:
        """Why slices are refused: each message once, after the months it is about."""
        by_message = groupby(sorted(self.refusals, key=lambda refusal: refusal.message), lambda each: each.message)
        months = {message: ", ".join(refusal.month for refusal in group) for message, group in by_message}
        return "; ".join(f"{named}: {message}" if named else message for message, named in months.items()) or None


_Pairs = Container[tuple[str, str]]

_STORED = text("""
    SELECT dataset, account, min(coalesce(month + first - 1, first_day)) AS first_day,
           max(coalesce(month + last - 1, newest_day)) AS last_day,
           array_agg(DISTINCT CASE WHEN mismatched_load_ids <> '{}' THEN 'mismatch' ELSE verdict END) AS verdicts,
           max(slices.read_at) AS read_at, sum(rows) AS rows, sum(days) AS days
    FROM platform.slices
    LEFT JOIN LATERAL (
        SELECT min(number)::integer AS first, max(number)::integer AS last, count(*) AS days
        FROM unnest(days_read) WITH ORDINALITY AS day (read_at, number)
        WHERE day.read_at IS NOT NULL
    ) AS read ON true
    WHERE load_id IS NOT NULL
    GROUP BY dataset, account
""")


def coverage(database: Database, *, since: date) -> tuple[Coverage, ...]:
    """Return what should be stored or is stored, by dataset and account.

    Every account that is listed should have every dataset that is refreshed, and every connection its accounts. Other
    datasets, and accounts that are retired, have a line only if something of them was loaded.

    Args:
        since: The first day of history.
    """
    expected = {(dataset.name, account.key) for account in accounts(database) for dataset in REFRESHED}
    expected |= {(ACCOUNTS.name, connection.name) for connection in connections(database)}
    refused = {pair: of_pair for pair, of_pair in refusals(database).items() if pair in expected}
    held = {pair: each for each in open_holds(database) if (pair := (each.dataset, each.account)) in expected}
    for pair, receipt in held.items():
        refused.setdefault(pair, (_refusal_of(receipt),))
    stored = {(row["dataset"], row["account"]): row for row in database.execute(_STORED).mappings()}
    return tuple(
        Coverage(
            dataset,
            account,
            _state_of((dataset, account), stored, refused, held),
            **(_facts(stored[dataset, account], since) if (dataset, account) in stored else {}),
            refusals=refused.get((dataset, account), ()),
        )
        for dataset, account in sorted({*expected, *stored})
    )


def _state_of(pair: tuple[str, str], stored: _Pairs, refused: _Pairs, held: _Pairs) -> CoverageState:
    if pair in held:
        return CoverageState.HELD
    if pair in refused:
        return CoverageState.REFUSED
    return CoverageState.LOADED if pair in stored else CoverageState.NEVER_LOADED


def _refusal_of(receipt: Receipt) -> Refusal:
    """Return the refusal of a held reading."""
    held = held_error(receipt)
    name, moment = type(held).__name__, receipt.finished_at
    return Refusal("", name, str(held), since=moment, refused_at=moment, run_id=receipt.run_id)


def _facts(stored: Mapping[Any, Any], since: date) -> dict[str, Any]:
    first_day, last_day = stored["first_day"], stored["last_day"]
    missing = (last_day - min(first_day, since)).days + 1 - int(stored["days"]) if stored["days"] else 0
    return {
        "first_day": first_day,
        "last_day": last_day,
        "missing_days": missing,
        "rows": int(stored["rows"]),
        "verdict": CountVerdict.worst({CountVerdict(verdict) for verdict in stored["verdicts"]}),
        "read_at": stored["read_at"],
    }
