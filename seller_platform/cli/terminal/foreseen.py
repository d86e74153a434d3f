"""Errors of PostgreSQL and the file system as sentences with a next step."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from seller_platform.errors import SellerPlatformError, full_disk, unusable_home
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.postgres.location import EMBEDDED_FOLDER, WAREHOUSE, has_database
from seller_platform.warehouse.postgres.refusals import refusal_of
from seller_platform.warehouse.postgres.root_user import DATA
from seller_platform.warehouse.postgres.urls import parsed_url, place_of


def foreseen_error(error: BaseException) -> SellerPlatformError | None:
    """Return the error that names cause and next step; None for bugs of this program."""
    settings, seen = None, set()
    cause: BaseException | None = error
    where = "the database"
    with suppress(SellerPlatformError):
        settings = read_settings()
        if settings.database_url is not None:
            where = place_of(parsed_url(settings.database_url.get_secret_value()))
        elif has_database(settings.home):
            where = str((settings.home / EMBEDDED_FOLDER / DATA).resolve() / WAREHOUSE)
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, SellerPlatformError):
            return cause
        if refusal := refusal_of(cause, where=where):
            return refusal
        if isinstance(cause, OSError) and (of_file := _error_of_file(cause, settings)):
            return of_file
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def _error_of_file(error: OSError, settings: Settings | None) -> SellerPlatformError | None:
    path = "" if error.filename is None else os.fsdecode(error.filename)
    problem = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full_disk(path or "a folder of this machine", problem)
    if error.errno == errno.EIO:
        return SellerPlatformError(
            f"the disk of {path or 'a folder of this machine'} fails: {problem}",
            code="FailingDiskError",
            step="Look at the messages of the kernel (`dmesg`), move the files to another disk, and run the command "
            "again; what was stored before is kept.",
        )
    if not path:
        return None
    home = None if settings is None else settings.home
    if home is not None and (Path(path) in (home, *home.parents) or home in Path(path).parents):
        return unusable_home(path, problem)
    return SellerPlatformError(
        f"{path}: {problem}",
        code="FileAccessError",
        step="Name another file or folder, or give your user the right to it, and run the command again.",
    )
