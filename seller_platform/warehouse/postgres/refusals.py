"""PostgreSQL's refusals as errors: missing rights, a full disk, too few locks, a server that only reads."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

from seller_platform.errors import DatabaseFullError, MissingRightError, WarehouseError
from seller_platform.warehouse.postgres.sessions import refused_begin

_MISSING_RIGHT, _FULL_DISK, _READ_ONLY = "42501", "53100", "25006"
_LOCKS = "max_locks_per_transaction"
DATA_LINK = "data"
"""In the folder of a socket that is not that of the data, the link to the data."""
# The connection was lost, or the server starts, stops or recovers.
_LOST = (None, "57P01", "57P02", "57P03", "58030")
_LOG_SEGMENT_BYTES = 16 << 20
"""PostgreSQL stops where it has no room for the next file of its write-ahead log."""
_FULL_WORDS = (os.strerror(errno.ENOSPC), "Check free disk space", "wrote only")


def refusal_of(error: BaseException, *, where: str) -> WarehouseError | None:
    """Return the error for a refusal of PostgreSQL, by any driver, of what a user wants; None for another error."""
    driver = getattr(error, "orig", None) or error
    # psycopg names it `sqlstate`, and psycopg2, which Dagster uses, `pgcode`.
    state = getattr(driver, "sqlstate", None) or getattr(driver, "pgcode", None)
    message, data = first_line(error), local_data(where)
    # The drivers say by this class that the database, and not the statement, is the reason.
    is_operational = "OperationalError" in {each.__name__ for each in type(driver).__mro__}
    if state == _FULL_DISK or (state in _LOST and is_operational and data and has_no_room(data)):
        return DatabaseFullError(str(data / Path(where).name) if data else where, message)
    if state == _READ_ONLY:
        return WarehouseError(
            f"{where} can only be read: {message}",
            code="ReadOnlyDatabaseError",
            step="Name the primary server in the URL of the database, or a user that may write.",
        )
    if refusal := refused_begin(where, message):
        return refusal
    if _LOCKS in str(driver):
        return WarehouseError(
            f"{where} has too few locks for one transaction: {message}",
            code="TooFewLocksError",
            step="Raise max_locks_per_transaction of the server and restart it, or choose fewer partitions.",
        )
    if state == _MISSING_RIGHT:
        return MissingRightError(f"the user of {where} lacks a right: {message}")
    return None


def first_line(error: BaseException) -> str:
    """Return the first line of what a driver says, also of an error of SQLAlchemy."""
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def has_no_room(data: Path) -> bool:
    """Whether the disk of a server's data has no room for the next file of its write-ahead log."""
    with suppress(OSError):
        return shutil.disk_usage(data).free < _LOG_SEGMENT_BYTES
    return False


def full_disk_line(output: str) -> str | None:
    """Return the first line of a program's output that says that a disk is full."""
    return next((line.strip() for line in output.splitlines() if any(word in line for word in _FULL_WORDS)), None)


def local_data(where: str) -> Path | None:
    """Return the folder of the data of a server that is reached through its socket on this machine."""
    if not where.startswith("/"):
        return None
    sockets = Path(where).parent
    with suppress(OSError, StopIteration):
        return next(folder for folder in (sockets, (sockets / DATA_LINK).resolve()) if (folder / "PG_VERSION").exists())
    return None
