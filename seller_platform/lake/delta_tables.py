"""Opens, creates and prunes Delta tables, in a folder or an object store."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from seller_platform.errors import PartsFailedError, SellerPlatformError, SettingsError
from seller_platform.failpoints import reach
from seller_platform.lake.table_files import LOG, delete_torn_commits, sync_checkpoint, sync_commits
from seller_platform.warehouse.postgres.advisory_locks import holding
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.relations import ACCOUNT, SOURCES, Source, relation_of

try:
    from deltalake import (
        CommitProperties,
        DeltaTable,
        PostCommitHookProperties,
        Schema,
        Transaction,
        WriterProperties,
        write_deltalake,
    )
    from deltalake.exceptions import DeltaError
except ImportError as error:
    raise SettingsError(
        "exports are Delta tables, and the package deltalake is not installed",
        code="MissingExtraError",
        step="Run `pip install 'seller-platform[lake]'`.",
    ) from error

MONTH = "month"
"""The column with the first day of the month, by which tables are partitioned."""

KEPT = timedelta(days=7)
"""How long a version can be read after it was replaced. `as_of` of the warehouse has older moments."""

_COMMIT_ONLY = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""A checkpoint is written only of synced commits, and commits are deleted only before a synced checkpoint."""

_DECORATION, _LONGEST_CAUSES = re.compile(r"\x1b\[[\d;]*m|↳"), 400


def open_table(
    url: str, source: Source, schema: pa.Schema, keys: list[str], *, before_creation: Callable[[], None]
) -> DeltaTable:
    """Open the newest version of a table, or create it.

    Args:
        url: Its folder, or its URL in an object store.
        keys: The columns by which it is partitioned.
        before_creation: Called before a table is created. If the process is killed before the table exists, the next
            one calls it again.

    Raises:
        SellerPlatformError: The folder holds something else, or a column had another type.
    """
    if (local := _folder_of(url)) is not None:
        delete_torn_commits(local)
    if not DeltaTable.is_deltatable(url):
        if local is not None and local.exists() and any(each.name != LOG for each in local.iterdir()):
            raise _foreign(f"{url} holds files that are no Delta table")
        before_creation()
        table = DeltaTable.create(
            url,
            schema,
            partition_by=keys,
            name=source.table,
            description=source.doc,
            configuration={
                "delta.deletedFileRetentionDuration": f"interval {KEPT.days} days",
                # Delta's log has the bounds of columns as JSON numbers, which round money. Files have exact ones.
                "delta.dataSkippingStatsColumns": relation_of(source).day or ACCOUNT,
            },
            post_commithook_properties=_COMMIT_ONLY,
        )
        _sync(table, url, 0)
        reach("export.created")
        return table
    table = DeltaTable(url)
    metadata = table.metadata()
    if (metadata.name, metadata.partition_columns) != (source.table, keys):
        raise _foreign(f"{url} is a Delta table of another program")
    types = {field.name: field.type for field in table.schema().fields}
    for field in Schema.from_arrow(schema).fields:
        # A write would convert the values to the type of the table, and lose digits.
        if field.type != types.get(field.name, field.type):
            former, now = (json.loads(each.to_json()) for each in (types[field.name], field.type))
            raise SellerPlatformError(
                f"{url}: the column {field.name} was of type {former} and is of type {now} now",
                code="ChangedColumnError",
                step="Move the table away: the next exports write all stored rows into a new one.",
            )
    return table


def replace_rows(
    table: DeltaTable,
    url: str,
    rows: pa.RecordBatchReader,
    *,
    predicate: str | None,
    metadata: Mapping[str, str],
    numbers: Mapping[str, int],
) -> None:
    """Replace rows in one version of a table; in a folder its files are synced when this returns.

    Args:
        url: As `open_table` was given it.
        predicate: The condition in SQL for the rows that are replaced; None for all.
        metadata: What the log has of the version.
        numbers: What the log keeps under names, until a later version has another number for one.
    """
    first = table.version() + 1
    write_deltalake(
        table,
        rows,
        mode="overwrite",
        predicate=predicate,
        schema_mode="merge",
        writer_properties=WriterProperties(compression="ZSTD"),
        commit_properties=CommitProperties(
            {**metadata}, app_transactions=[Transaction(name, number) for name, number in numbers.items()]
        ),
        post_commithook_properties=_COMMIT_ONLY,
    )
    _sync(table, url, first)
    if table.version() % 100 == 0:
        _write_checkpoint(table, url)


def prune_tables(database: Database, folder: str, *, dry: bool) -> tuple[int, PartsFailedError | None]:
    """Compact the tables of a folder, and delete files that only versions of more than a week ago have.

    Files that a killed export left are deleted with them, and first what a power loss left in part. The log of a table
    gets a checkpoint, so that the table is opened without reading all commits.

    Args:
        dry: Count only.

    Returns:
        How many files were deleted, and an error with the tables that cannot be read or written. All others are pruned.
    """
    files, pruned, failures = 0, 0, dict[str, str]()
    for source in SOURCES:
        url = f"{folder}/{source.name}"
        with holding(database, f"export|{source.table}"):
            try:
                with store_errors(url):
                    if not dry and (local := _folder_of(url)) is not None:
                        delete_torn_commits(local)
                    table = DeltaTable(url) if DeltaTable.is_deltatable(url) else None
                    if table is not None and table.metadata().name == source.table:
                        if not dry:
                            first = table.version() + 1
                            table.optimize.compact(post_commithook_properties=_COMMIT_ONLY)
                            _sync(table, url, first)
                            _write_checkpoint(table, url)
                            table.cleanup_metadata()
                        first = table.version() + 1
                        deleted = table.vacuum(dry_run=dry, full=True, post_commithook_properties=_COMMIT_ONLY)
                        files, pruned = files + len(deleted), pruned + 1
                        _sync(table, url, first)
            except SellerPlatformError as error:
                failures[source.table] = str(error)
    return files, PartsFailedError(failures, "table", "pruned", any_done=pruned > 0) if failures else None


@contextmanager
def store_errors(url: str) -> Iterator[None]:
    """Turn the errors of files and object stores into ours."""
    try:
        yield
    except (DeltaError, OSError) as error:
        # A tree of causes on several lines, with colours.
        causes = " ".join(_DECORATION.sub("", str(error)).split())
        raise SellerPlatformError(
            f"{url}: cannot be written ({causes[:_LONGEST_CAUSES]}). The former rows are unchanged",
            code="ExportFolderError",
            step="Make the folder writable, or name another one with `--folder` or SELLER_PLATFORM_EXPORT_DIR. Object "
            "stores take their keys from the environment, such as AWS_ACCESS_KEY_ID.",
        ) from error


def _sync(table: DeltaTable, url: str, first: int) -> None:
    """Sync the commits of a table from a version on, if it is in a folder: an object store needs none."""
    if (folder := _folder_of(url)) is not None:
        sync_commits(folder, first, table.version())


def _write_checkpoint(table: DeltaTable, url: str) -> None:
    """Write a checkpoint of the newest version of a table, unless there is one; in a folder it is synced."""
    table.create_checkpoint()
    if (folder := _folder_of(url)) is not None:
        sync_checkpoint(folder, table.version())


def _folder_of(url: str) -> Path | None:
    return None if "://" in url else Path(url)


def _foreign(problem: str) -> SellerPlatformError:
    """Return the error of a folder that holds something else than exports."""
    return SellerPlatformError(
        problem,
        code="ForeignExportError",
        step="Move it away, or name another folder with `--folder` or SELLER_PLATFORM_EXPORT_DIR.",
    )
