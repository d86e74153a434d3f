"""How many reports there are, counted for monitoring over a connection of its own."""

from dataclasses import dataclass

import psycopg

from seller_platform.errors import WarehouseUnavailableError
from seller_platform.service.reports.jobs import COMPLETED, FAILED, PROCESSING
from seller_platform.warehouse.postgres.database import conninfo, driver_url

_CONNECT_SECONDS = 3
_COUNT = """
SELECT state, count(*), coalesce(extract(epoch FROM now() - min(requested_at)), 0)
FROM service.report_jobs GROUP BY state
"""


@dataclass(frozen=True)
class ReportCounts:
    """How many reports are in which state, and for how long the oldest that is not done has been waited for."""

    states: dict[str, int]
    oldest_open_seconds: float


def count_reports(database_url: str) -> ReportCounts:
    """Return how many reports there are now, of all users together.

    Raises:
        WarehouseUnavailableError: PostgreSQL did not answer in a few seconds.
    """
    url, options = driver_url(database_url, "psycopg"), "-c statement_timeout=5000 -c search_path="
    try:
        with psycopg.connect(
            conninfo(database_url),
            connect_timeout=_CONNECT_SECONDS,
            application_name="seller-platform metrics",
            options=options,
        ) as connection:
            found = connection.execute(_COUNT).fetchall()
    except psycopg.Error as error:
        raise WarehouseUnavailableError(f"{url.host}/{url.database}", str(error).partition("\n")[0]) from error
    states = {state: count for state, count, _ in found}
    oldest = next((float(age) for state, _, age in found if state == PROCESSING), 0.0)
    return ReportCounts({state: states.get(state, 0) for state in (PROCESSING, COMPLETED, FAILED)}, oldest)
