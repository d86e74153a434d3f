"""Writes lists and marts as Delta tables, in a folder or an object store, for engines that read such tables.

Each has one table, `<folder>/<table>`, partitioned by account and by the first day of the month. An export reads its
slices in one snapshot of PostgreSQL and replaces them in one commit: a reader sees all of them before or after it.
The commit has the loads in its metadata, and a digest of each slice as the number of a transaction. A slice that the
table has with this digest is not written again, so the next export completes one that was killed.
"""

import io
import json
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeAlias

import pyarrow as pa
from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import Kind, Window
from seller_platform.errors import (
    InexactNumberError,
    NotLoadedError,
    PartitionsFailedError,
    SellerPlatformError,
    SettingsError,
)
from seller_platform.failpoints import reach
from seller_platform.warehouse.loads.spool import spool_errors
from seller_platform.warehouse.marts.due import EVERY_ACCOUNT, forget_tries, keep_try, partition_states
from seller_platform.warehouse.marts.tables import BUILD_ID
from seller_platform.warehouse.postgres.advisory_locks import hold, releasing
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.readers.arrow import read_batches, schema_of
from seller_platform.warehouse.readers.relations import ACCOUNT, SOURCES, Selection, Source, exported_to, relation_of

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties, write_deltalake
    from deltalake.exceptions import DeltaError
except ImportError as error:
    raise SettingsError(
        "exports are Delta tables, and the package deltalake is not installed",
        code="MissingExtraError",
        step="Run `pip install 'seller-platform[lake]'`.",
    ) from error

MONTH = "month"
"""The column with the first day of the month, by which tables are partitioned."""

Partition: TypeAlias = tuple[str | None, Window | None]
"""A partition of an asset: its account, None for a list of all accounts; its month, None for all of the account."""

KEPT = timedelta(days=7)
"""How long a version can be read after it was replaced. `as_of` of the warehouse has older moments."""

_EXTRA, _LOAD_ID, _LOG = "extra", "load_id", "_delta_log"
_ROWS_PER_BATCH = 100_000
_SLICES_PER_COMMIT, _BYTES_PER_COMMIT = 1_000, 2 << 30  # a condition of many slices needs much of the stack
_DECORATION, _LONGEST_CAUSES = re.compile(r"\x1b\[[\d;]*m|↳"), 400
_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_MONTHS = sql.SQL("SELECT DISTINCT date_trunc('month', {day})::date FROM {table} WHERE account = %(account)s")


@dataclass(frozen=True)
class Exported:
    """A partition after an export.

    Attributes:
        digest: Of the rows as they are written; equal rows have equal digests, whatever loads brought them.
        load_ids: The loads that brought them; of a mart the builds.
        replaced: Of how many months rows were written; 0 if the table had all of them.
        version: The version of the table that has them.
    """

    rows: int
    digest: str
    load_ids: tuple[int, ...]
    replaced: int
    version: int


@dataclass(frozen=True)
class _Slice:
    """The rows of an account and a month, in the temporary file.

    Attributes:
        account: None for all rows of the table.
        month: Its first day; None for all rows of the account.
        start: Where they begin in the file.
    """

    account: str | None
    month: date | None
    start: int
    rows: int
    digest: str
    load_ids: tuple[int, ...]

    @property
    def application(self) -> str:
        """The name under which the log of the table keeps the digest."""
        return f"seller_platform|{self.account or ''}|{self.month or ''}"

    @property
    def number(self) -> int:
        """The digest as the log of the table keeps it: 63 bits."""
        return int(self.digest[:16], 16) >> 1


def export_partitions(
    database: Database, source: Source, partitions: Collection[Partition], folder: str, *, run_id: str | None = None
) -> dict[Partition, Exported | SellerPlatformError]:
    """Make partitions of a Delta table equal to the stored rows, in a commit for each 1,000 slices or 2 GiB.

    Args:
        folder: That of the tables: a path, or a URL in an object store.
        run_id: The run of Dagster; with one, `platform.derived_partitions` keeps the try of each partition.

    Returns:
        What became of each partition, or why it was not exported: a `NotLoadedError` if it was never loaded or built,
        an `InexactNumberError` if a number has more digits than its type. The others are exported nevertheless. If the
        table cannot be written, all have that error.

    Raises:
        WarehouseUnavailableError: The server cannot be reached, or went away in the middle. The next export of these
            partitions completes this one.
    """
    derived = exported_to(source, folder)
    with database.connect() as connection, releasing(connection):
        hold(connection, f"export|{source.table}")
        connection.commit()
        with connection.begin():
            connection.exec_driver_sql(_ONE_MOMENT)
            accounts = list(dict.fromkeys(account or EVERY_ACCOUNT for account, _ in partitions))
            months = list(dict.fromkeys(month for _, month in partitions if month))
            states = {
                (state.account or None, state.window): state
                for state in partition_states(connection, derived, accounts, months)
            }
            loaded = [each for each in partitions if not states[each].missing]
            results = _Export(database, connection, source, folder, run_id).replace(loaded)
        reach("export.committed")
        if run_id is not None:
            with connection.begin():
                for partition, result in results.items():
                    error = None if isinstance(result, Exported) else result
                    digest = bytes.fromhex(result.digest) if isinstance(result, Exported) else None
                    keep_try(connection, derived, states[partition], run_id=run_id, digest=digest, error=error)
    return {each: results[each] if each in results else _not_loaded(source, *each) for each in partitions}


def prune_tables(database: Database, folder: str, *, dry: bool) -> tuple[int, PartitionsFailedError | None]:
    """Compact the tables of a folder, and delete files that only versions of more than a week ago have.

    Files that a killed export left are deleted with them. The log of a table gets a checkpoint, so that the table is
    opened without reading all commits.

    Args:
        dry: Count only.

    Returns:
        How many files were deleted, and an error with the tables that cannot be read or written. All others are pruned.
    """
    files, failures = 0, dict[str, str]()
    for source in SOURCES:
        with database.connect() as connection, releasing(connection):
            hold(connection, f"export|{source.table}")
            connection.commit()
            url = f"{folder}/{source.name}"
            try:
                with _store_errors(url):
                    table = DeltaTable(url) if DeltaTable.is_deltatable(url) else None
                    if table is not None and table.metadata().name == source.table:
                        if not dry:
                            table.optimize.compact()
                            table.create_checkpoint()
                            table.cleanup_metadata()
                        files += len(table.vacuum(dry_run=dry, full=True))
            except SellerPlatformError as error:
                failures[source.table] = str(error)
    return files, PartitionsFailedError(failures, what="table", done="pruned") if failures else None


def _not_loaded(source: Source, account: str | None, month: Window | None) -> NotLoadedError:
    named = " of ".join(filter(None, (source.name, account))) + (f", {month.start:%Y-%m}" if month else "")
    months = (month.start, month.start) if month else None
    return NotLoadedError(source.table, named, accounts=[account] if account else [], months=months)


class _Export:
    """Reads slices of a table into a temporary file, and replaces those that changed."""

    def __init__(
        self, database: Database, connection: Connection, source: Source, folder: str, run_id: str | None
    ) -> None:
        self._database, self._connection, self._source, self._run_id = database, connection, source, run_id
        self._relation, self._derived = relation_of(source), exported_to(source, folder)
        self._url = f"{folder}/{source.name}"
        self._id = BUILD_ID if self._relation.is_mart else _LOAD_ID
        of_lists = () if self._relation.is_mart else ((_EXTRA, Kind.JSON),)
        self._beside = (*of_lists, (self._id, Kind.INTEGER))
        account, *others = schema_of(self._relation)
        is_by_month = self._relation.day is not None and self._relation.day != MONTH
        month = [pa.field(MONTH, pa.date32())] if is_by_month else []
        self._schema = pa.schema([account, *month, *others, *(pa.field(name, pa.string()) for name, _ in of_lists)])
        self._keys = [ACCOUNT, MONTH] if self._relation.day else [ACCOUNT] * self._relation.has_account_parts

    def replace(self, partitions: Collection[Partition]) -> dict[Partition, Exported | SellerPlatformError]:
        """Replace the slices that changed, and return what became of each partition."""
        if not partitions:
            return {}
        failed, exported = dict[Partition, SellerPlatformError](), dict[Partition, tuple[list[_Slice], int]]()
        changed = list[_Slice]()
        try:
            with spool_errors(self._url), _Spool() as spool, _store_errors(self._url):
                table = self._open()
                for partition in partitions:
                    slices, new, start = list[_Slice](), list[_Slice](), spool.tell()
                    try:
                        # With a savepoint, the snapshot outlasts a reading that ends early.
                        with self._connection.begin_nested():
                            for each in self._slices(table, *partition):
                                slices.append(self._read(spool, *each))
                                if table.transaction_version(slices[-1].application) == slices[-1].number:
                                    spool.shorten(slices[-1].start)
                                else:
                                    new.append(slices[-1])
                    except InexactNumberError as error:
                        failed[partition] = error
                        spool.shorten(start)
                        continue
                    exported[partition] = (slices, len(new))
                    changed += new
                    if spool.tell() > _BYTES_PER_COMMIT or len(changed) > _SLICES_PER_COMMIT:
                        self._commit(table, spool, changed)
                        changed = []
                self._commit(table, spool, changed)
                version = table.version()
        except SellerPlatformError as error:
            return {partition: failed.get(partition, error) for partition in partitions}
        return failed | {
            partition: Exported(
                rows=sum(each.rows for each in slices),
                digest=slices[0].digest
                if len(slices) == 1
                else sha256("".join(each.digest for each in slices).encode()).hexdigest(),
                load_ids=tuple(sorted({number for each in slices for number in each.load_ids})),
                replaced=replaced,
                version=version,
            )
            for partition, (slices, replaced) in exported.items()
        }

    def _open(self) -> DeltaTable:
        """Open the newest version of the table, or create it."""
        if not DeltaTable.is_deltatable(self._url):
            local = None if "://" in self._url else Path(self._url)
            if local is not None and local.exists() and any(each.name != _LOG for each in local.iterdir()):
                raise _foreign(f"{self._url} holds files that are no Delta table")
            # A table that was lost or moved away is written again as a whole. The transaction of the export only reads.
            # If the process is killed before the table exists, the next export comes here again.
            with self._database.begin() as connection:
                forget_tries(connection, self._derived)
            table = DeltaTable.create(
                self._url,
                self._schema,
                partition_by=self._keys,
                name=self._source.table,
                description=self._source.doc,
                configuration={
                    "delta.deletedFileRetentionDuration": f"interval {KEPT.days} days",
                    # Delta's log has the bounds of columns as JSON numbers, which round money. Files have exact ones.
                    "delta.dataSkippingStatsColumns": self._relation.day or ACCOUNT,
                },
            )
            reach("export.created")
            return table
        table = DeltaTable(self._url)
        metadata = table.metadata()
        if (metadata.name, metadata.partition_columns) != (self._source.table, self._keys):
            raise _foreign(f"{self._url} is a Delta table of another program")
        types = {field.name: field.type for field in table.schema().fields}
        for field in Schema.from_arrow(self._schema).fields:
            # A write would convert the values to the type of the table, and lose digits.
            if field.type != types.get(field.name, field.type):
                former, now = (json.loads(each.to_json()) for each in (types[field.name], field.type))
                raise SellerPlatformError(
                    f"{self._url}: the column {field.name} was of type {former} and is of type {now} now",
                    code="ChangedColumnError",
                    step="Move the table away: the next exports write all stored rows into a new one.",
                )
        return table

    def _slices(
        self, table: DeltaTable, account: str | None, month: Window | None
    ) -> Iterator[tuple[str | None, date | None]]:
        """Yield what a partition consists of: months that are stored, and those that the table has."""
        if month is not None or self._relation.day is None or account is None:
            yield account, month.start if month else None
            return
        statement = _MONTHS.format(day=sql.Identifier(self._relation.day), table=self._relation.source)
        stored = {month for (month,) in driver_of(self._connection).execute(statement, {"account": account})}
        exported = table.partitions(file_pruning_predicate=[(ACCOUNT, "=", account)])
        for first in sorted(stored | {date.fromisoformat(each[MONTH]) for each in exported}):
            yield account, first

    def _read(self, spool: "_Spool", account: str | None, month: date | None) -> _Slice:
        """Append the stored rows of a slice to the temporary file."""
        window = None if month is None else Window.month_of(month)
        parts = None if account is None else [Selection(account, window)]
        start, rows, load_ids = spool.tell(), 0, set[int]()
        spool.digest = sha256()
        with spool_errors(self._url), pa.ipc.new_stream(spool, self._schema) as stream:
            for batch in read_batches(
                self._connection, self._relation, parts, beside=self._beside, rows_per_batch=_ROWS_PER_BATCH
            ):
                load_ids.update(batch.column(self._id).unique().to_pylist())
                columns = {name: batch.column(name) for name in batch.schema.names}
                if MONTH in self._keys:
                    columns.setdefault(MONTH, pa.repeat(pa.scalar(month, pa.date32()), batch.num_rows))
                stream.write_batch(pa.record_batch([columns[name] for name in self._schema.names], self._schema))
                rows += batch.num_rows
        return _Slice(account, month, start, rows, spool.digest.hexdigest(), tuple(sorted(load_ids)))

    def _commit(self, table: DeltaTable, spool: "_Spool", slices: Sequence[_Slice]) -> None:
        """Replace slices in one version of the table, and empty the temporary file."""
        if not slices:
            return
        moment: datetime = self._connection.exec_driver_sql("SELECT now()").scalar_one()
        load_ids = sorted({number for each in slices for number in each.load_ids})
        facts = {"read_at": moment.isoformat(), "run_id": self._run_id, f"{self._id}s": ",".join(map(str, load_ids))}
        reach("export.read")
        write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(self._schema, _batches(spool, slices)),
            mode="overwrite",
            predicate=_predicate(slices) if self._keys else None,
            schema_mode="merge",
            writer_properties=WriterProperties(compression="ZSTD"),
            commit_properties=CommitProperties(
                {name: fact for name, fact in facts.items() if fact},
                app_transactions=[Transaction(each.application, each.number) for each in slices],
            ),
        )
        spool.shorten(0)


def _batches(spool: "_Spool", slices: Iterable[_Slice]) -> Iterator[pa.RecordBatch]:
    for each in slices:
        spool.seek(each.start)
        with pa.ipc.open_stream(spool) as stream:
            yield from stream


def _predicate(slices: Iterable[_Slice]) -> str:
    """Return the condition in SQL that the rows of these slices meet, and no others."""
    months, accounts = defaultdict[str, list[str]](list), defaultdict[tuple[str, ...], list[str]](list)
    for each in slices:
        months[str(each.account)] += [str(each.month)] * (each.month is not None)
    for account, of_account in months.items():
        accounts[tuple(of_account)].append(account)

    def one_of(column: str, values: Iterable[str]) -> str:
        return f"{column} IN ({', '.join(map(_literal, values))})"

    return " OR ".join(
        f"({' AND '.join([one_of(ACCOUNT, keys), *([one_of(MONTH, days)] if days else [])])})"
        for days, keys in accounts.items()
    )


def _literal(text: str) -> str:
    quoted = text.replace("'", "''")
    return f"'{quoted}'"


@contextmanager
def _store_errors(url: str) -> Iterator[None]:
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


def _foreign(problem: str) -> SellerPlatformError:
    """Return the error of a folder that holds something else than exports."""
    return SellerPlatformError(
        problem,
        code="ForeignExportError",
        step="Move it away, or name another folder with `--folder` or SELLER_PLATFORM_EXPORT_DIR.",
    )


class _Spool(io.FileIO):
    """A temporary file without a name, which a killed process does not leave, and a digest of what is written to it.

    It has no buffer, so that on a full disk a write fails, and none of the steps after it.
    """

    def __init__(self) -> None:
        with TemporaryFile() as file:
            super().__init__(os.dup(file.fileno()), "r+b")
        self.digest = sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        rest = memoryview(data)
        while rest:
            rest = rest[super().write(rest) :]
        return len(data)

    def shorten(self, size: int) -> None:
        """Delete what is behind a position, and continue there."""
        self.truncate(size)
        self.seek(size)
