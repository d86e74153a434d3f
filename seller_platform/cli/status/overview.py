"""Everything that the screen of `status` shows, read from the warehouse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from seller_platform.contract import REFRESHED
from seller_platform.errors import ReadingHeldError, RequestsUsedUpError
from seller_platform.warehouse.connections.accounts import KnownAccount, account_titles, accounts
from seller_platform.warehouse.connections.grants import GrantFacts, grant_facts
from seller_platform.warehouse.connections.sent_requests import requests_sent
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.refusals import Refusal, refusals
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.monitoring.freshness import READ_WITHIN, LastReading, last_readings
from seller_platform.warehouse.monitoring.problems import Problem, problems
from seller_platform.warehouse.monitoring.repeated_ledgers import RepeatedLedger, repeated_ledgers
from seller_platform.warehouse.monitoring.restatements import Activity, activity_since
from seller_platform.warehouse.monitoring.sampling import Sample, sample
from seller_platform.warehouse.monitoring.slice_states import SliceStates, slice_states
from seller_platform.warehouse.monitoring.zone_changes import ZoneChange, zone_changes
from seller_platform.warehouse.postgres.database import Database

_RECENT = timedelta(days=1)
_DERIVED = ("marts.", "exports.")
_SHOWN_OTHERWISE = (ReadingHeldError.__name__, RequestsUsedUpError.__name__)
_KINDS_SHOWN = frozenset({"mismatched", "rezoned", "repeated", "expiring"})
"""The kinds of warnings of `platform.problems` that the screen shows by themselves."""


@dataclass(frozen=True)
class Overview:
    """The state of the warehouse at a moment.

    Attributes:
        since: The first day of history.
        accounts: The accounts that are listed today.
        titles: The titles of all accounts, by key.
        late: Datasets of accounts whose last reading is too long ago, the oldest first.
        unread: Datasets of accounts that were never read.
        failed: The slices that failed when they were last tried, by name of dataset and account.
        held: The readings that are held.
        activity: What was read and restated since yesterday.
        postponed: How many slices wait because the requests of a day did not suffice for them.
        requests_per_day: How many requests each connection may send on one day; None for any number.
        requests_today: How many requests of today (UTC) each connection has sent; None unless they are limited.
        repeated: Months of accounts whose entries another account of the seller has, too.
        moved: Accounts with rows that were read under a former time zone or currency.
        sample: What random comparisons say of all slices.
        others: The warnings, and what is wrong with marts and their files, in `platform.problems`.
    """

    now: datetime
    since: date
    accounts: Sequence[KnownAccount]
    titles: Mapping[str, str]
    states: SliceStates
    late: Sequence[LastReading]
    unread: Sequence[LastReading]
    failed: Mapping[tuple[str, str], Sequence[Refusal]]
    held: Sequence[Receipt]
    activity: Activity
    grants: Sequence[GrantFacts]
    postponed: int
    requests_per_day: int | None
    requests_today: Mapping[str, int] | None
    repeated: Sequence[RepeatedLedger]
    moved: Sequence[ZoneChange]
    sample: Sample
    others: Sequence[Problem]


def overview(database: Database, *, since: date, now: datetime, requests_per_day: int | None = None) -> Overview:
    """Read the state of the warehouse at a moment.

    Args:
        since: The first day of history.
        requests_per_day: How many requests each connection may send on one day; None for any number.
    """
    listed = accounts(database)
    keys = {account.key for account in listed}
    refused = refusals(database)
    failed = {
        pair: others
        for pair, of_pair in refused.items()
        if (others := [each for each in of_pair if each.error not in _SHOWN_OTHERWISE])
        and (pair[1] in keys or pair[0] == "accounts")
    }
    held = [receipt for receipt in open_holds(database) if receipt.account in keys or receipt.dataset == "accounts"]
    readings = last_readings(database, REFRESHED, listed, now=now)
    oldest = now - READ_WITHIN
    late = [each for each in readings if each.read_at is not None and each.read_at < oldest]
    return Overview(
        now,
        since,
        listed,
        account_titles(database),
        slice_states(database, since=since, now=now, listed=listed),
        sorted(late, key=lambda each: each.age_hours(now), reverse=True),
        [each for each in readings if not each.is_loaded],
        failed,
        held,
        activity_since(database, now - _RECENT),
        grant_facts(database),
        sum(each.error == RequestsUsedUpError.__name__ for of_pair in refused.values() for each in of_pair),
        requests_per_day,
        None if requests_per_day is None else requests_sent(database, now.astimezone(UTC).date()),
        repeated_ledgers(database),
        zone_changes(database, [(each.key, each.account) for each in listed]),
        sample(database, now),
        [
            each
            for each in problems(database, expected=REFRESHED, accounts=keys, now=now)
            if (each.is_warning and each.kind not in _KINDS_SHOWN) or each.dataset.startswith(_DERIVED)
        ],
    )
