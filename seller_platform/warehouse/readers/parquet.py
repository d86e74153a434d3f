"""Writes slices as Parquet files, each replaced as a whole.

The layout is Hive's, `<folder>/<table>/account=<key>/month=2026-03/part.parquet`, and `day=2026-03-01` for a
snapshot. A mart of whole accounts has one file for each of them, and the list of accounts is one file. Account, month
and day are read from the path; the files do not contain them. A reader never meets half a file: each is written under
a name that readers ignore, and then renamed. Equal rows of the same loads give the same bytes, and a file that would
not change is not replaced.
"""

import filecmp
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import pyarrow as pa
from pyarrow import parquet
from sqlalchemy import select

from seller_platform.contract import LOCAL_DAY, Dataset, Kind, Window
from seller_platform.errors import NotLoadedError, SellerPlatformError
from seller_platform.failpoints import reach
from seller_platform.files import draft_beside
from seller_platform.warehouse.postgres.advisory_locks import lock
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.arrow import read_batches, schema_of
from seller_platform.warehouse.readers.loaded import require_loaded
from seller_platform.warehouse.readers.relations import ACCOUNT, Selection, Source, relation_of
from seller_platform.warehouse.schema.tables import SLICES, table_for

FILE = "part.parquet"
METADATA_PREFIX = "seller_platform."

_DRAFT = ".part.parquet.draft"
_LOAD_ID = "load_id"
_ROWS_PER_GROUP = 100_000
_BESIDE = (("extra", Kind.JSON), (_LOAD_ID, Kind.INTEGER))


@dataclass(frozen=True)
class Exported:
    """The file of one slice after an export.

    Attributes:
        digest: Of the rows as they are written; equal rows have equal digests, whatever loads brought them.
        load_ids: The loads that brought them; none for a mart.
        replaced: False where the file said all this already.
    """

    path: Path
    rows: int
    digest: str
    load_ids: tuple[int, ...]
    replaced: bool


def export_partition(
    database: Database, source: Source, account: str | None, month: Window | None, folder: Path
) -> tuple[Exported, ...]:
    """Make the files of a partition equal to the stored rows; return them, oldest first.

    Args:
        account: None for a list without accounts, which is one file.
        month: None for a partition that is a whole account.

    Raises:
        SellerPlatformError: The folder cannot be written to. The file is as it was.
        InexactNumberError: A number has more digits than its type. The file is as it was.
        NotLoadedError: The partition was never loaded or built.
    """
    if account is not None and month is None and isinstance(source, Dataset):
        return export_snapshots(database, source, account, folder)
    part = None if account is None else Selection(account, month)
    require_loaded(database, relation_of(source), None if part is None else [part])
    name = "" if month is None else f"month={month.start:%Y-%m}"
    with _slice_folder(database, folder, source, account, name) as slice_folder:
        return (_replace(database, source, part, slice_folder),)


def export_snapshots(database: Database, dataset: Dataset, account: str, folder: Path) -> tuple[Exported, ...]:
    """Make an account's files equal to its stored snapshots; return them, oldest first.

    The newest has a file even if it has no rows. The file of a day whose rows were deleted by `prune` is deleted.

    Raises:
        SellerPlatformError: The folder cannot be written to.
        InexactNumberError: A number has more digits than its type.
        NotLoadedError: No snapshot was ever loaded.
    """
    table = table_for(dataset)
    stored = select(table.c[LOCAL_DAY]).where(table.c.account == account).distinct()
    newest = select(SLICES.c.newest_day).where(SLICES.c.dataset == dataset.name, SLICES.c.account == account)
    with database.begin() as connection:
        days = {*connection.execute(stored).scalars(), *connection.execute(newest).scalars()} - {None}
    if not days:
        raise NotLoadedError(dataset.table, f"{dataset.name} of {account}")
    exported = []
    for day in sorted(days):
        with _slice_folder(database, folder, dataset, account, f"day={day}") as slice_folder:
            exported.append(_replace(database, dataset, Selection(account, Window.day(day)), slice_folder))
    with _slice_folder(database, folder, dataset, account) as slice_folder:
        for stale in sorted(set(slice_folder.glob("day=*")) - {slice_folder / f"day={day}" for day in days}):
            shutil.rmtree(stale)
    return tuple(exported)


def path_of(folder: Path, source: Source, account: str | None, name: str = "") -> Path:
    """Return the folder of an account's slice, percent-encoded as Hive does."""
    if account is None:
        return folder / source.name
    key = quote(account, safe=" !#$&()+,-.;@_~")
    return folder / source.name / f"account={key}" / name


@contextmanager
def _slice_folder(
    database: Database, folder: Path, source: Source, account: str | None, name: str = ""
) -> Iterator[Path]:
    """Lend the folder of a slice to one export at a time, on any machine."""
    slice_folder = path_of(folder, source, account, name)
    with database.begin() as connection:
        lock(connection, f"export|{slice_folder.relative_to(folder)}")
        try:
            slice_folder.mkdir(parents=True, exist_ok=True)
            yield slice_folder
        except OSError as error:
            raise SellerPlatformError(
                f"{error.filename or slice_folder}: cannot be written ({error.strerror or error}). The former file is "
                "unchanged",
                code="ExportFolderError",
                step="Make the folder writable, or name another one with `--folder` or SELLER_PLATFORM_EXPORT_DIR.",
            ) from error


def _replace(database: Database, source: Source, part: Selection | None, slice_folder: Path) -> Exported:
    target = slice_folder / FILE
    with draft_beside(target, slice_folder / _DRAFT) as draft:
        rows, digest, load_ids = _write(database, source, part, draft)
        reach("export.drafted")
        replaced = not target.exists() or not filecmp.cmp(draft, target, shallow=False)
        if replaced:
            draft.replace(target)
    return Exported(target, rows, digest, load_ids, replaced)


def _write(database: Database, source: Source, part: Selection | None, path: Path) -> tuple[int, str, tuple[int, ...]]:
    """Write the rows into a file and return their number, digest and loads.

    The file is on disk when this returns.
    """
    relation, rows, loads = relation_of(source), 0, set[int]()
    # Each build writes all rows of a mart: the number of the build would change a file whose rows are as they were.
    beside = () if relation.is_mart else _BESIDE
    fields = [field for field in schema_of(relation) if part is None or field.name != ACCOUNT]
    schema = pa.schema([*fields, *(pa.field(name, pa.string()) for name, _ in beside if name != _LOAD_ID)])
    parts = None if part is None else [part]
    with path.open("wb") as file:
        sink = _Digesting(file)
        with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
            for batch in read_batches(database, relation, parts, beside=beside, rows_per_batch=_ROWS_PER_GROUP):
                if not relation.is_mart:
                    loads.update(batch.column(_LOAD_ID).unique().to_pylist())
                writer.write_table(pa.Table.from_batches([batch.select(schema.names)]), row_group_size=batch.num_rows)
                rows += batch.num_rows
            # What is written so far are the rows; the footer, with the loads, is still to come.
            digest = sink.digest
            facts = {
                "dataset": source.name,
                "account": "" if part is None else part.account,
                "window": "" if part is None else str(part.window),
                "rows": str(rows),
                "digest": digest,
                "load_ids": ",".join(map(str, sorted(loads))),
            }
            writer.add_key_value_metadata({f"{METADATA_PREFIX}{name}": fact for name, fact in facts.items()})
        file.flush()
        os.fsync(file.fileno())
    return rows, digest, tuple(sorted(loads))


class _Digesting(io.RawIOBase):
    """A file that computes the digest of what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._hash = file, sha256()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._file.write(data)
