"""Counts the requests of each connection by day, for all processes together."""

from collections.abc import Mapping, Sequence
from datetime import date

from sqlalchemy import text

from seller_platform.capabilities import contributed
from seller_platform.warehouse.postgres.database import Database

_MOST_RESERVED = 4
"""What is reserved is at most the fourth part of a day's requests."""

_TAKE = """
    WITH room AS MATERIALIZED (SELECT :per_day - CASE WHEN :for_report THEN 0 ELSE {} END AS requests)
    INSERT INTO platform.sent_requests AS sent (connection, day, requests)
    SELECT :connection, :day, :count FROM room WHERE :count <= room.requests
    ON CONFLICT (connection, day) DO UPDATE SET requests = sent.requests + excluded.requests
    WHERE sent.requests + excluded.requests <= (SELECT requests FROM room)
"""

_GIVE_BACK = text("""
    UPDATE platform.sent_requests SET requests = requests - :count WHERE connection = :connection AND day = :day
""")
_SENT = text("SELECT connection, requests FROM platform.sent_requests WHERE day = :day")
_LEFT = """
    SELECT :per_day - {} - coalesce((
        SELECT requests FROM platform.sent_requests WHERE connection = :connection AND day = :day), 0)
"""


def take_requests(
    database: Database, connection: str, days: Sequence[date], count: int, *, per_day: int, for_report: bool = False
) -> date | None:
    """Count requests that are going to be sent, on each of the days; none if one day, which it returns, has fewer left.

    The count is stored when this returns, so that no crash forgets a request that was sent.

    Args:
        days: In order, because processes lock their rows one after the other.
        for_report: Use what is kept for open reports, too.
    """
    bound = {"connection": connection, "count": count, "per_day": per_day, "for_report": for_report}
    with database.connect() as session:
        for day in days:
            if not session.execute(text(_TAKE.format(_reserved())), {**bound, "day": day}).rowcount:
                session.rollback()
                return day
        session.commit()
    return None


def give_back_requests(database: Database, connection: str, days: Sequence[date], count: int) -> None:
    """Subtract requests that were counted and not sent."""
    with database.begin() as session:
        for day in days:
            session.execute(_GIVE_BACK, {"connection": connection, "day": day, "count": count})


def requests_sent(database: Database, day: date) -> Mapping[str, int]:
    """Return how many requests each connection has sent or reserved on a day; without those that sent none."""
    return dict(database.execute(_SENT, {"day": day}).tuples().all())


def requests_left(database: Database, connection: str, day: date, *, per_day: int) -> int:
    """Return how many requests a connection may send on a day, besides those that are kept for reports."""
    bound = {"connection": connection, "day": day, "per_day": per_day}
    return max(0, int(database.execute(text(_LEFT.format(_reserved())), bound).scalar_one()))


def _reserved() -> str:
    """Return the expression of the requests that are kept for what capabilities have begun."""
    counts = " + ".join(f"({select})" for select in contributed("reserved")) or "0"
    return f"least(:per_day / {_MOST_RESERVED}, {counts})"
