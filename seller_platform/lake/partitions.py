"""Exports partitions of lists and marts to their Delta tables, for engines that read such tables.

Each has one table, `<folder>/<table>`, partitioned by account and by the first day of the month. An export reads its
slices in one snapshot of PostgreSQL and replaces them in one commit: a reader sees all of them before or after it.
The commit has the loads in its metadata, and a digest of each slice as the number of a transaction. A slice that the
table has with this digest is not written again, so the next export completes one that was killed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import Kind, Window
from seller_platform.errors import InexactNumberError, NotLoadedError, SellerPlatformError
from seller_platform.failpoints import reach
from seller_platform.lake.delta_tables import MONTH, open_table, replace_rows, store_errors
from seller_platform.lake.derived import exported_to
from seller_platform.lake.temporary_rows import ExportedSlice, TemporaryRows, batches_of
from seller_platform.warehouse.derived.due import EVERY_ACCOUNT, keep_try, partition_states
from seller_platform.warehouse.derived.tables import BUILD_ID
from seller_platform.warehouse.loads.spool import spool_errors
from seller_platform.warehouse.postgres.advisory_locks import holding
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.readers.arrow import read_batches, schema_of
from seller_platform.warehouse.readers.relations import ACCOUNT, Selection, Source, relation_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

Partition: TypeAlias = tuple[str | None, Window | None]
"""A partition of an asset: its account, None for a list of all accounts; its month, None for all of the account."""

_EXTRA, _LOAD_ID = "extra", "load_id"
_SLICES_PER_COMMIT, _BYTES_PER_COMMIT = 1_000, 2 << 30  # a condition of many slices needs much of the stack
_FORGET = "DELETE FROM platform.derived_partitions WHERE folder = %s AND name = %s AND error IS NULL"
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
    with holding(database, f"export|{source.table}") as connection:
        with connection.begin():
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            accounts = list(dict.fromkeys(account or EVERY_ACCOUNT for account, _ in partitions))
            months = list(dict.fromkeys(month for _, month in partitions if month))
            states = {
                (state.account or None, state.window): state
                for state in partition_states(connection, derived, accounts, months)
            }
            loaded = [each for each in partitions if not states[each].missing]
            results = _Export(database, connection, source, folder, run_id).replace(loaded)
        reach("export.committed")
        with connection.begin():
            for partition, result in results.items():
                error = None if isinstance(result, Exported) else result
                digest = bytes.fromhex(result.digest) if isinstance(result, Exported) else None
                keep_try(connection, derived, states[partition], run_id=run_id, digest=digest, error=error)
    return {each: results[each] if each in results else _not_loaded(source, *each) for each in partitions}


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
        account, *others = schema_of(self._relation.columns)
        is_by_month = self._relation.day is not None and self._relation.day != MONTH
        month = [pa.field(MONTH, pa.date32())] if is_by_month else []
        self._schema = pa.schema([account, *month, *others, *(pa.field(name, pa.string()) for name, _ in of_lists)])
        self._keys = [ACCOUNT, MONTH] if self._relation.day else [ACCOUNT] * self._relation.has_account_parts

    def replace(self, partitions: Collection[Partition]) -> dict[Partition, Exported | SellerPlatformError]:
        """Replace the slices that changed, and return what became of each partition."""
        if not partitions:
            return {}
        failed, exported = dict[Partition, SellerPlatformError](), dict[Partition, tuple[list[ExportedSlice], int]]()
        changed = list[ExportedSlice]()
        try:
            with spool_errors(self._url), TemporaryRows() as spool, store_errors(self._url):
                table = open_table(self._url, self._source, self._schema, self._keys, before_creation=self._forget)
                for partition in partitions:
                    slices, new, start = list[ExportedSlice](), list[ExportedSlice](), spool.tell()
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

    def _forget(self) -> None:
        """Note that nothing is exported. A table that was lost or moved away is written again as a whole.

        The tries that failed stay, because they are due again after an hour.
        """
        # The transaction of the export only reads.
        with self._database.begin() as connection:
            driver_of(connection).execute(_FORGET, (self._derived.folder, self._derived.name))

    def _slices(
        self, table: "DeltaTable", account: str | None, month: Window | None
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

    def _read(self, spool: TemporaryRows, account: str | None, month: date | None) -> ExportedSlice:
        """Append the stored rows of a slice to the temporary file."""
        window = None if month is None else Window.month_of(month)
        parts = None if account is None else [Selection(account, window)]
        start, rows, load_ids = spool.tell(), 0, set[int]()
        spool.digest = sha256()
        with spool_errors(self._url), pa.ipc.new_stream(spool, self._schema) as stream:
            for batch in read_batches(
                self._connection, self._relation, parts, beside=self._beside, rows_per_batch=100_000
            ):
                load_ids.update(batch.column(self._id).unique().to_pylist())
                columns = {name: batch.column(name) for name in batch.schema.names}
                if MONTH in self._keys:
                    columns.setdefault(MONTH, pa.repeat(pa.scalar(month, pa.date32()), batch.num_rows))
                stream.write_batch(pa.record_batch([columns[name] for name in self._schema.names], self._schema))
                rows += batch.num_rows
        return ExportedSlice(account, month, start, rows, spool.digest.hexdigest(), tuple(sorted(load_ids)))

    def _commit(self, table: "DeltaTable", spool: TemporaryRows, slices: Sequence[ExportedSlice]) -> None:
        """Replace slices in one version of the table, and empty the temporary file."""
        if not slices:
            return
        moment: datetime = self._connection.exec_driver_sql("SELECT now()").scalar_one()
        load_ids = sorted({number for each in slices for number in each.load_ids})
        facts = {"read_at": moment.isoformat(), "run_id": self._run_id, f"{self._id}s": ",".join(map(str, load_ids))}
        reach("export.read")
        replace_rows(
            table,
            self._url,
            pa.RecordBatchReader.from_batches(self._schema, batches_of(spool, slices)),
            predicate=_predicate(slices) if self._keys else None,
            metadata={name: fact for name, fact in facts.items() if fact},
            numbers={each.application: each.number for each in slices},
        )
        spool.shorten(0)


def _predicate(slices: Iterable[ExportedSlice]) -> str:
    """Return the condition in SQL that the rows of these slices meet, and no others."""
    months, accounts = defaultdict[str, list[str]](list), defaultdict[tuple[str, ...], list[str]](list)
    for each in slices:
        months[str(each.account)] += [str(each.month)] * (each.month is not None)
    for account, of_account in months.items():
        accounts[tuple(of_account)].append(account)

    def one_of(column: str, values: Iterable[str]) -> str:
        quoted = (value.replace("'", "''") for value in values)
        return f"""{column} IN ({", ".join(f"'{value}'" for value in quoted)})"""

    return " OR ".join(
        f"({' AND '.join([one_of(ACCOUNT, keys), *([one_of(MONTH, days)] if days else [])])})"
        for days, keys in accounts.items()
    )
