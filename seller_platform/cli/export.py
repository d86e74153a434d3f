"""`seller-platform export`: writes Parquet files, as the assets `export/` do."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Literal

import click

from seller_platform.cli.installation import open_stored_installation
from seller_platform.cli.marts import chosen_months, months_of, partition_options
from seller_platform.cli.output import Document, MonthText, Outcome, Output, json_option
from seller_platform.cli.sync import keys_of
from seller_platform.cli.terminal.layout import TableColumn
from seller_platform.contract import Window
from seller_platform.errors import (
    InexactNumberError,
    NotConnectedError,
    NotLoadedError,
    PartitionsFailedError,
    missing_setting,
)
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.loads.history_start import history_start_in
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.loaded import require_loaded
from seller_platform.warehouse.readers.relations import SOURCES, Selection, Source, relation_of, source_named

_COLUMNS = ("account", "months", TableColumn("files", rank=2), TableColumn("replaced", rank=1), "rows", "result")

_Partition = tuple[Source, str | None, Window | None]


class ExportedPartition(Document, frozen=True):
    """What became of a partition of a table.

    Attributes:
        account: Null where the table is of all accounts.
        month: Null where the table has no months.
        files: How many files the partition has; null unless it was exported, and so the next three.
        replaced: How many of them were written, because their rows had changed.
        path: The last of the files.
        reason: Why it was not exported; null where it was.
    """

    table: str
    account: str | None
    month: MonthText | None
    result: Literal["exported", "failed", "skipped"]
    files: int | None
    replaced: int | None
    rows: int | None
    path: str | None
    reason: str | None

    @property
    def name(self) -> str:
        """The partition in a sentence."""
        return " of ".join(filter(None, (self.table, self.account))) + (f", {self.month}" if self.month else "")


class ExportDocument(Outcome, frozen=True):
    """The Parquet files that were written below a folder."""

    folder: str
    partitions: list[ExportedPartition]


@click.command()
@click.argument("names", nargs=-1, metavar="[TABLE]...")
@partition_options
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    metavar="PATH",
    help="The folder for the files; by default that of SELLER_PLATFORM_EXPORT_DIR.",
)
@json_option(ExportDocument)
def export(
    *,
    names: tuple[str, ...],
    chosen_accounts: tuple[str, ...],
    month: date | None,
    first_month: date | None,
    last_month: date | None,
    folder: Path | None,
    output: Output,
) -> None:
    """Write what was loaded and built as Parquet files, one for each slice.

    TABLE is a list or a mart, such as orders or marts.account_profit_daily; without one, all are written. The files are
    those of the assets `export/`, such as `PATH/orders/account=A1B2.US/month=2026-03/part.parquet`, and `day=` for each
    stored snapshot. A file whose rows have not changed stays as it is. Months do not restrict tables that have none.
    """
    with open_stored_installation() as installation:
        folder = folder or installation.settings.export_dir
        if folder is None:
            raise missing_setting(
                "SELLER_PLATFORM_EXPORT_DIR", "the folder for Parquet files; `--folder` names one, too"
            )
        sources = list({source.table: source for source in map(source_named, names)}.values()) or SOURCES
        if not connections(installation.database):
            raise NotConnectedError
        keys = keys_of(installation, chosen_accounts)
        since = history_start_in(installation.database, installation.settings)
        months = chosen_months(month, first_month, last_month, since)
        partitions = [part for source in sources for part in _partitions(source, keys, months)]
        exported = []
        with output.progress("Writing files", len(partitions)) as show:
            for partition in partitions:
                exported.append(_exported(installation.database, partition, folder))
                show(len(exported))
        is_empty = all(each.result == "skipped" for each in exported)
        absent = _absence(installation.database, sources[0], partitions) if is_empty else None
    _report(ExportDocument(folder=str(folder), partitions=exported), absent, output)


def _partitions(source: Source, keys: Sequence[str], months: Sequence[Window]) -> list[_Partition]:
    """Return the partitions of a table, which are those of its asset."""
    relation = relation_of(source)
    if not relation.has_account_parts:
        return [(source, None, None)]
    return [(source, key, part) for key in keys for part in (months if relation.is_monthly else (None,))]


def _exported(database: Database, partition: _Partition, folder: Path) -> ExportedPartition:
    """Write the files of a partition, and return what became of it."""
    from seller_platform.warehouse.readers.parquet import export_partition  # its import takes a while

    source, account, month = partition
    outcome = partial(
        ExportedPartition,
        table=source.table,
        account=account,
        month=f"{month.start:%Y-%m}" if month else None,
        files=None,
        replaced=None,
        rows=None,
        path=None,
        reason=None,
    )
    try:
        files = export_partition(database, source, account, month, folder)
    except NotLoadedError:
        return outcome(result="skipped", reason=f"never {'built' if relation_of(source).is_mart else 'loaded'}")
    except InexactNumberError as error:
        return outcome(result="failed", reason=str(error))
    return outcome(
        result="exported",
        files=len(files),
        replaced=sum(file.replaced for file in files),
        rows=sum(file.rows for file in files),
        path=str(files[-1].path),
    )


def _absence(database: Database, source: Source, partitions: Sequence[_Partition]) -> NotLoadedError | None:
    """Return the error about all partitions of a table, of which none was loaded."""
    parts = [Selection(account, month) for each, account, month in partitions if account and each is source]
    try:
        require_loaded(database, relation_of(source), parts or None)
    except NotLoadedError as error:
        return error
    return None


def _report(document: ExportDocument, absent: NotLoadedError | None, output: Output) -> None:
    """Print what was written, what was not and why; and end with the failures, if any."""
    groups: dict[tuple[str, str | None, str | None], list[ExportedPartition]] = defaultdict(list)
    for each in document.partitions:
        reason = each.reason if each.result == "skipped" else each.result
        groups[each.table, each.account, reason].append(each)
    lines: list[Sequence[object] | str] = []
    for table in dict.fromkeys(each.table for each in document.partitions):
        lines.append(table)
        for (name, account, reason), parts in groups.items():
            if name == table:
                counts = [[each.files, each.replaced, each.rows] for each in parts if each.result == "exported"]
                sums = map(sum, zip(*counts, strict=True)) if counts else (None,) * 3
                lines.append((f"  {account or ''}", months_of(each.month for each in parts), *sums, reason))
    output.table(f"Parquet files in {document.folder}", _COLUMNS, lines)
    failures = {each.name: each.reason or "" for each in document.partitions if each.result == "failed"}
    error = PartitionsFailedError(failures, done="exported") if failures else absent
    output.outcome(document, error)
