"""Says whether exported tables have other rows than the database, such as one that was restored."""

from sqlalchemy import text

from seller_platform.contract import Window
from seller_platform.counts import count_of
from seller_platform.warehouse.marts.due import partition_states
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.relations import SOURCES, exported_to

_ACCOUNTS = text("SELECT key FROM platform.accounts WHERE retired_at IS NULL ORDER BY key")
_MONTHS = text("SELECT DISTINCT month FROM platform.slices WHERE month IS NOT NULL")


def other_rows(database: Database, folder: str) -> tuple[str, str] | None:
    """Return how many partitions of the tables in a folder an export would write or compare now, and the next step.

    After a database was restored, these are all of them: the tables may have older or newer rows.
    """
    with database.begin() as connection:
        accounts = connection.execute(_ACCOUNTS).scalars().all()
        months = [Window.month_of(month) for month in connection.execute(_MONTHS).scalars()]
        outdated = sum(
            not state.is_current and not state.missing
            for source in SOURCES
            for state in partition_states(connection, exported_to(source, folder), accounts, months)
        )
    if not outdated:
        return None
    problem = f"{count_of(outdated, 'partition', 'is')} not exported to {folder} as the database has them now"
    return problem, f"run `seller-platform export --folder {folder}`, or let the sensor marts_and_exports write them"
