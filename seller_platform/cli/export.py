"""`seller-platform export`: writes Parquet files, as the assets `export/` do."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import click

from seller_platform.cli.installation import open_stored_installation
from seller_platform.cli.marts import chosen_months, months_of, partition_options
from seller_platform.cli.output import Output, fail, json_option
from seller_platform.cli.sync import keys_of
from seller_platform.cli.terminal.layout import TableColumn
from seller_platform.contract import Window
from seller_platform.errors import (
    InexactNumberError,
    MissingSettingError,
    NotConnectedError,
    NotLoadedError,
    PartitionsFailedError,
)
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.loads.history_start import history_start_in
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.loaded import require_loaded
from seller_platform.warehouse.readers.relations import SOURCES, Selection, Source, relation_of, source_named

_COLUMNS = ("account", "months", TableColumn("files", rank=2), TableColumn("replaced", rank=1), "rows", "result")

_Partition = tuple[Source, str | None, Window | None]


@click.command()
@click.argument("names", nargs=-1, metavar="[TABLE]...")
@partition_options
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    metavar="PATH",
    help="The folder for the files; by default that of SELLER_PLATFORM_EXPORT_DIR.",
)
@json_option
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
            raise MissingSettingError(
                "SELLER_PLATFORM_EXPORT_DIR", "the folder for Parquet files; `--folder` names one, too"
            )
        sources = list({source.table: source for source in map(source_named, names)}.values()) or SOURCES
        if not connections(installation.database):
            raise NotConnectedError
        keys = keys_of(installation, chosen_accounts)
        since = history_start_in(installation.database, installation.settings)
        months = chosen_months(month, first_month, last_month, since)
        partitions = [part for source in sources for part in _partitions(source, keys, months)]
        documents = _export(installation.database, partitions, folder, output)
        is_empty = all(each["result"] == "skipped" for each in documents)
        absent = _absence(installation.database, sources[0], partitions) if is_empty else None
    _report(documents, {"folder": str(folder), "partitions": documents}, absent, output)


def _partitions(source: Source, keys: Sequence[str], months: Sequence[Window]) -> list[_Partition]:
    """Return the partitions of a table, which are those of its asset."""
    relation = relation_of(source)
    if not relation.has_account_parts:
        return [(source, None, None)]
    return [(source, key, part) for key in keys for part in (months if relation.is_monthly else (None,))]


def _export(database: Database, partitions: Sequence[_Partition], folder: Path, output: Output) -> list[dict[str, Any]]:
    """Write the files, and return what became of each partition."""
    with output.progress("Starting", None):
        # Its import takes a while.
        from seller_platform.warehouse.readers.parquet import export_partition

    documents: list[dict[str, Any]] = []
    with output.progress("Writing files", len(partitions)) as show:
        for number, (source, account, month) in enumerate(partitions):
            show(number)
            document: dict[str, Any] = {
                "table": source.table,
                "account": account,
                "month": f"{month.start:%Y-%m}" if month else None,
                **dict.fromkeys(("result", "files", "replaced", "rows", "path", "reason")),
            }
            documents.append(document)
            try:
                files = export_partition(database, source, account, month, folder)
            except NotLoadedError:
                done = "built" if relation_of(source).is_mart else "loaded"
                document |= {"result": "skipped", "reason": f"never {done}"}
            except InexactNumberError as error:
                document |= {"result": "failed", "reason": str(error)}
            else:
                document |= {
                    "result": "exported",
                    "files": len(files),
                    "replaced": sum(file.replaced for file in files),
                    "rows": sum(file.rows for file in files),
                    "path": str(files[-1].path),
                }
    return documents


def _absence(database: Database, source: Source, partitions: Sequence[_Partition]) -> NotLoadedError | None:
    """Return the error about all partitions of a table, of which none was loaded."""
    parts = [Selection(account, month) for each, account, month in partitions if account and each is source]
    try:
        require_loaded(database, relation_of(source), parts or None)
    except NotLoadedError as error:
        return error
    return None


def _report(
    documents: Sequence[Mapping[str, Any]],
    document: Mapping[str, Any],
    absent: NotLoadedError | None,
    output: Output,
) -> None:
    """Print what was written, what was not and why; and end with the failures, if any."""
    groups: dict[tuple[str, str | None, str], list[Mapping[str, Any]]] = defaultdict(list)
    for each in documents:
        reason = each["reason"] if each["result"] == "skipped" else each["result"]
        groups[each["table"], each["account"], reason].append(each)
    lines: list[Sequence[object] | str] = []
    for table in dict.fromkeys(each["table"] for each in documents):
        lines.append(table)
        for (name, account, reason), parts in groups.items():
            if name == table:
                is_written = parts[0]["result"] == "exported"
                counts = (
                    sum(each[count] for each in parts) if is_written else None
                    for count in ("files", "replaced", "rows")
                )
                lines.append((f"  {account or ''}", months_of(parts), *counts, reason))
    output.table(f"Parquet files in {document['folder']}", _COLUMNS, lines)
    failures = {
        " of ".join(filter(None, (each["table"], each["account"])))
        + (f", {each['month']}" if each["month"] else ""): each["reason"]
        for each in documents
        if each["result"] == "failed"
    }
    error = PartitionsFailedError(failures, done="exported") if failures else absent
    if error is not None:
        fail(error, as_json=output.as_json, document=document)
    output.document(document)
