"""Everything that the screen of `status` shows, read from the warehouse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from seller_platform.warehouse.connections.accounts import KnownAccount, account_titles, accounts
from seller_platform.warehouse.connections.grants import GrantFacts, grant_facts
from seller_platform.warehouse.connections.sent_requests import requests_sent
from seller_platform.warehouse.monitoring.problems import Problem, problems
from seller_platform.warehouse.monitoring.restatements import Activity, activity_since
from seller_platform.warehouse.monitoring.sampling import Sample, sample
from seller_platform.warehouse.monitoring.slice_states import SliceStates, slice_states
from seller_platform.warehouse.postgres.database import Database

_RECENT = timedelta(days=1)


@dataclass(frozen=True)
class Overview:
    """The state of the warehouse at a moment.

    Attributes:
        since: The first day of history.
        accounts: The accounts that are listed today.
        titles: The titles of all accounts, by key.
        activity: What was read and restated since yesterday.
        requests_per_day: How many requests each connection may send on one day; None for any number.
        requests_today: How many requests of today (UTC) each connection has sent; None unless they are limited.
        sample: What random comparisons say of all slices.
    """

    now: datetime
    since: date
    accounts: Sequence[KnownAccount]
    titles: Mapping[str, str]
    states: SliceStates
    problems: Sequence[Problem]
    activity: Activity
    grants: Sequence[GrantFacts]
    requests_per_day: int | None
    requests_today: Mapping[str, int] | None
    sample: Sample


def overview(database: Database, *, since: date, now: datetime, requests_per_day: int | None = None) -> Overview:
    """Read the state of the warehouse at a moment.

    Args:
        since: The first day of history.
        requests_per_day: How many requests each connection may send on one day; None for any number.
    """
    listed = accounts(database)
    return Overview(
        now,
        since,
        listed,
        account_titles(database),
        slice_states(database, since=since, now=now, listed=listed),
        problems(database),
        activity_since(database, now - _RECENT),
        grant_facts(database),
        requests_per_day,
        None if requests_per_day is None else requests_sent(database, now.astimezone(UTC).date()),
        sample(database, now),
    )
