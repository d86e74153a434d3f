"""Says whether exported tables have other rows than the database, such as one that was restored, and prunes them."""

from collections.abc import Iterator

from sqlalchemy import text

from seller_platform.cli.doctor.findings import Finding, ok, warn
from seller_platform.contract import Window
from seller_platform.counts import count_of
from seller_platform.errors import PartsFailedError
from seller_platform.lake.derived import exported_to
from seller_platform.lake.settings import LakeSettings
from seller_platform.settings import Settings
from seller_platform.warehouse.derived.due import partition_states
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.relations import SOURCES

_ACCOUNTS = text("SELECT key FROM platform.accounts WHERE retired_at IS NULL ORDER BY key")
_MONTHS = text("SELECT DISTINCT month FROM platform.slices WHERE month IS NOT NULL")


def examine(database: Database, settings: Settings) -> Iterator[Finding]:
    """Yield how many partitions of the tables in the folder an export would write or compare now.

    After a database was restored, these are all of them: the tables may have older or newer rows.
    """
    if (folder := settings.of(LakeSettings).export_dir) is None:
        return
    with database.begin() as connection:
        accounts = connection.execute(_ACCOUNTS).scalars().all()
        months = [Window.month_of(month) for month in connection.execute(_MONTHS).scalars()]
        outdated = sum(
            not state.is_current and not state.missing
            for source in SOURCES
            for state in partition_states(connection, exported_to(source, folder), accounts, months)
        )
    if not outdated:
        yield ok("exports", f"{folder} has the rows of the database")
        return
    problem = f"{count_of(outdated, 'partition', 'is')} not exported to {folder} as the database has them now"
    step = f"run `seller-platform export --folder {folder}`, or let the sensor marts_and_exports write them"
    yield warn("exports", problem, step)


def prune_files(database: Database, settings: Settings, *, dry: bool) -> tuple[int, PartsFailedError | None] | None:
    """Prune the tables of the folder as `prune_tables` does; None without a folder.

    Raises:
        SettingsError: The extra `lake` is not installed.
    """
    if (folder := settings.of(LakeSettings).export_dir) is None:
        return None
    from seller_platform.lake.delta_tables import prune_tables  # its import takes a while, and needs the extra

    return prune_tables(database, folder, dry=dry)
