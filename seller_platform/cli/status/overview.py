"""What is stored and what needs attention, read from the warehouse: the screen and the document of `status`."""

from datetime import date, datetime

from seller_platform.cli.output import Document, Moment, MonthText
from seller_platform.warehouse.connections.accounts import account_titles
from seller_platform.warehouse.connections.grants import GrantFacts
from seller_platform.warehouse.monitoring.coverage import Coverage, coverage
from seller_platform.warehouse.monitoring.metrics import facts
from seller_platform.warehouse.monitoring.problems import Problem, problems
from seller_platform.warehouse.monitoring.restatements import Activity
from seller_platform.warehouse.monitoring.slice_states import SliceState, slice_states
from seller_platform.warehouse.postgres.database import Database


class StatusDocument(Document, frozen=True):
    """What is stored, and what needs attention.

    Attributes:
        titles: The titles of all accounts, by key.
        problems: What is wrong, what matters most first, as in the view `platform.problems`.
        months: The worst state of any dataset, by account and month.
        requests_per_day: How many requests each connection may send; null for any number.
        requests_today: How many each connection has sent; null where they are not limited, and not counted.
        sample: What random comparisons with the upstream say of all slices, in one sentence.
        differing_at_most: The share of slices, by their rows, that differ at most with 95 % confidence: of those that
            are settled, and of those that may still change. Without those of which none was compared.
    """

    read_at: Moment
    history_start: date
    titles: dict[str, str]
    problems: tuple[Problem, ...]
    coverage: list[Coverage]
    grants: tuple[GrantFacts, ...]
    months: dict[str, dict[MonthText, SliceState]]
    requests_per_day: int | None
    requests_today: dict[str, int] | None
    since_yesterday: Activity
    sample: str
    differing_at_most: dict[str, float]


def overview(
    database: Database, *, since: date, now: datetime, requests_per_day: int | None = None, covers: bool = False
) -> StatusDocument:
    """Read the state of the warehouse at a moment.

    Args:
        since: The first day of history.
        requests_per_day: How many requests each connection may send on one day; None for any number.
        covers: Whether to read the days, rows and age of each dataset and account.
    """
    states, known = slice_states(database, since=since, now=now), facts(database, now)
    months = [f"{month.start:%Y-%m}" for month in states.months]
    return StatusDocument(
        read_at=now,
        history_start=since,
        titles=dict(account_titles(database)),
        problems=problems(database),
        coverage=coverage(database, since=since, now=now) if covers else [],
        grants=known.grants,
        months={
            account.key: dict(zip(months, states.months_of(account.key), strict=True)) for account in states.accounts
        },
        requests_per_day=requests_per_day,
        requests_today=None if requests_per_day is None else known.requests_today,
        since_yesterday=known.since_yesterday,
        sample=known.evidence.sentence,
        differing_at_most=dict(known.evidence.differing_at_most),
    )
