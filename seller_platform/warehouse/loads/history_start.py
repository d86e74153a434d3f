"""The first day of history, stored once and moved only to earlier days, and the months since."""

import logging
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert

from seller_platform.contract import Window
from seller_platform.errors import RequestError, SellerPlatformError
from seller_platform.settings import Settings
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import EMBEDDED_FOLDER, warehouse_url
from seller_platform.warehouse.schema.tables import HISTORY_START

EARLIEST = date(2000, 1, 1)
"""The earliest day that history may begin with."""

_CONNECT_SECONDS = 5

_LOG = logging.getLogger(__name__)


def keep_history_start(database: Database, first_value: date) -> date:
    """Return the stored first day of history. If none is stored, store the first value."""
    if stored_history_start(database) is None:
        database.execute(insert(HISTORY_START).values(first_day=first_value).on_conflict_do_nothing())
    return stored_history_start(database) or first_value


def extend_history(database: Database, first_day: date) -> bool:
    """Let history begin with a day, unless it begins earlier; return whether that changed anything."""
    statement, earlier = insert(HISTORY_START).values(first_day=first_day), {"first_day": first_day}
    is_later = HISTORY_START.c.first_day > first_day
    statement = statement.on_conflict_do_update(index_elements=["is_only_row"], set_=earlier, where=is_later)
    return database.execute(statement.returning(HISTORY_START.c.first_day)).one_or_none() is not None


def history_start_in(database: Database, settings: Settings, first_month: date | None = None) -> date:
    """Return the first day of history. Nothing is stored.

    It is the stored one, else that of the variable, else the first month that is asked for unless that is too early,
    else the default of the settings.
    """
    is_migrated = database.execute(select(func.to_regclass(HISTORY_START.fullname))).scalar_one()
    stored = stored_history_start(database) if is_migrated else None
    if stored is None and first_month is not None and first_month >= EARLIEST and not is_history_start_set(settings):
        return first_month
    return stored or settings.history_start


def is_history_start_set(settings: Settings) -> bool:
    """Whether SELLER_PLATFORM_HISTORY_START has a value of the operator's."""
    return "history_start" in settings.model_fields_set


def stored_history_start(database: Database) -> date | None:
    """Return the first day of history, if it is stored."""
    return database.execute(select(HISTORY_START.c.first_day)).scalar_one_or_none()


def history_start_of(settings: Settings) -> date:
    """Return the first day of history of the settings' warehouse, also if the warehouse cannot be read.

    Definitions call it when they load. Without a stored day, and without a warehouse, the settings have the day.
    """
    if settings.database_url is None and not (settings.home / EMBEDDED_FOLDER).exists():  # it is new
        return settings.history_start
    try:
        with Database(warehouse_url(settings), connections=1, connect_seconds=_CONNECT_SECONDS) as database:
            return history_start_in(database, settings)
    except SellerPlatformError as error:
        message = "history begins with %s of the settings, for none could be read: %s"
        _LOG.warning(message, settings.history_start, str(error).partition("\n")[0])
        return settings.history_start


def months_of_history(first: date | None, last: date | None, history_start: date) -> list[Window]:
    """Return the months from the first to the last; by default from the start of history to the current one.

    Raises:
        RequestError: There are none, or some are earlier than history may begin.
    """
    # The easternmost zone is 14 hours ahead: an account's month may not have begun in UTC.
    newest = (datetime.now(UTC) + timedelta(hours=14)).date().replace(day=1)
    first = first or history_start.replace(day=1)
    last = min(last or newest, newest)
    if first > last:
        raise RequestError(
            f"there are no months from {first:%Y-%m} to {last:%Y-%m}; choose a first month that is not after the last "
            "month or after today"
        )
    earliest = min(EARLIEST, history_start.replace(day=1))
    if first < earliest:
        raise RequestError(f"history cannot begin with {first:%Y-%m}; choose {earliest:%Y-%m} or a later month")
    return [Window.month_of(window.start) for window in Window(first, Window.month_of(last).end).months()]
