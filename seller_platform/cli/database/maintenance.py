"""`seller-platform migrate` and `prune`: the schema of this version, and the deletion of old rows."""

from itertools import starmap

import click

from seller_platform.cli.installation import open_installation, open_stored_installation
from seller_platform.cli.output import Counted, DoneDocument, Outcome, Output, json_option
from seller_platform.counts import count_of
from seller_platform.errors import RequestError
from seller_platform.warehouse.loads.retention import RECEIPT_DAYS, SNAPSHOT_DAYS
from seller_platform.warehouse.migrations.pending import version_of
from seller_platform.warehouse.postgres.versions import FEW_PARTITIONS
from seller_platform.warehouse.schema.creation import partitions_of

_days = click.IntRange(1, 36_500)


class PruneDocument(Outcome, frozen=True):
    """How many rows were deleted, or would be.

    Attributes:
        rows: Rows of snapshots by dataset.
        dagster: Rows of Dagster's tables by kind.
        exported_files: Files of exported tables; null where SELLER_PLATFORM_EXPORT_DIR is not set.
    """

    dry_run: bool
    rows: dict[str, int]
    receipts: int
    dagster: dict[str, int]
    exported_files: int | None


@click.command()
@click.option(
    "--partitions",
    type=click.IntRange(1, 128),
    help=f"Partitions of each table with rows of accounts, in a new database; by default {FEW_PARTITIONS}.",
)
@json_option(DoneDocument)
def migrate(*, partitions: int | None, output: Output) -> None:
    """Migrate the database to the schema of this version, and Dagster's tables with it.

    Every program migrates when it starts. Run this first where several programs start at once, or where they have
    fewer rights. Readers and loads continue meanwhile.

    A database keeps the number of partitions that it was created with; the page `growing` of the documentation says how
    many to choose.
    """
    from seller_platform.orchestration.instance.home import open_instance  # Dagster alone takes a second to import

    with open_installation(partitions or FEW_PARTITIONS) as installation:
        with installation.database.begin() as connection:
            stored = partitions_of(connection)
        if partitions not in (None, stored):
            raise RequestError(
                f"{installation.database.where} has tables with {count_of(stored, 'partition')}, and keeps that number",
                step="Leave --partitions out, or name a new database in SELLER_PLATFORM_DATABASE_URL.",
            )
        with open_instance(installation.settings.home) as instance:
            instance.upgrade()
        text = f"{installation.database.where} is at version {version_of(installation.database)}."
    output.done(text)


@click.command()
@click.option(
    "--snapshot-days",
    default=SNAPSHOT_DAYS,
    show_default=True,
    type=_days,
    help="Keep every daily snapshot for this many days; then one a month.",
)
@click.option(
    "--receipt-days",
    default=RECEIPT_DAYS,
    show_default=True,
    type=_days,
    help="Keep every receipt for this many days; then those in use.",
)
@click.option(
    "--dagster-days",
    default=None,
    type=_days,
    help="Keep Dagster's events, runs and checks for this many days; then those the UI shows of each partition. "
    "The default is SELLER_PLATFORM_DAGSTER_RETENTION_DAYS (30).",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed.")
@json_option(PruneDocument)
def prune(*, snapshot_days: int, receipt_days: int, dagster_days: int | None, dry_run: bool, output: Output) -> None:
    """Delete old snapshots except one a month, receipts that nothing refers to, and old events and runs of Dagster.

    Rows of dated lists are never deleted. Every partition keeps its last state in Dagster, and the schedule
    `daily` does the same with the defaults. Tables that SELLER_PLATFORM_EXPORT_DIR holds are compacted, and their
    files are deleted a week after they were replaced.
    """
    from seller_platform.orchestration.instance.home import open_instance  # Dagster alone takes a second to import
    from seller_platform.orchestration.instance.retention import delete_old

    with open_stored_installation() as installation, open_instance(installation.settings.home) as instance:
        pruned, dagster, files, error = delete_old(
            installation.database,
            instance,
            installation.settings,
            snapshot_days=snapshot_days,
            receipt_days=receipt_days,
            dagster_days=dagster_days,
            dry=dry_run,
        )
    rows = [*pruned.rows.items(), ("receipts", pruned.receipts)]
    rows += [(f"{name} of Dagster", count) for name, count in dagster.items()]
    rows += [] if files is None else [("files of exports", files)]
    output.table("Would be removed" if dry_run else "Removed", starmap(Counted, rows), ("name", "rows"))
    output.outcome(PruneDocument(dry_run, pruned.rows, pruned.receipts, dict(dagster), files), error)
