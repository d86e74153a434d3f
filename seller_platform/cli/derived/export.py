"""`seller-platform export`: writes Delta tables, as the assets `export/` do."""

from collections.abc import Sequence
from datetime import date
from typing import Any, Literal

import click

from seller_platform.cli.derived.marts import chosen_partitions, partition_options, show_partitions
from seller_platform.cli.installation import open_stored_installation
from seller_platform.cli.output import Document, MonthText, Outcome, Output, json_option
from seller_platform.contract import Window
from seller_platform.errors import (
    InexactNumberError,
    NotLoadedError,
    PartsFailedError,
    SellerPlatformError,
    missing_setting,
)
from seller_platform.settings import export_folder
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.loaded import require_loaded
from seller_platform.warehouse.readers.relations import SOURCES, Selection, Source, relation_of, source_named

_Partition = tuple[str | None, Window | None]


class ExportedPartition(Document, frozen=True):
    """What became of a partition of a table.

    Attributes:
        account: Null where the table is of all accounts.
        month: Null where a partition is all of an account.
        replaced: Of how many months rows were written, because they had changed; null unless it was exported, and so
            the next three.
        version: The version of the Delta table that has the rows.
        path: The Delta table: its folder or its URL.
        reason: Why it was not exported; null where it was.
    """

    table: str
    account: str | None
    month: MonthText | None
    result: Literal["exported", "failed", "skipped"]
    replaced: int | None
    rows: int | None
    version: int | None
    path: str | None
    reason: str | None

    @property
    def name(self) -> str:
        """The partition in a sentence."""
        return " of ".join(filter(None, (self.table, self.account))) + (f", {self.month}" if self.month else "")


class ExportDocument(Outcome, frozen=True):
    """The Delta tables that were written below a folder."""

    folder: str
    partitions: list[ExportedPartition]


def _chosen_folder(_context: click.Context, _option: click.Parameter, folder: str | None) -> str | None:
    try:
        return None if folder is None else export_folder(folder)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("names", nargs=-1, metavar="[TABLE]...")
@partition_options
@click.option(
    "--folder",
    callback=_chosen_folder,
    metavar="PATH",
    help="The folder for the tables, or a URL such as s3://bucket/folder; by default SELLER_PLATFORM_EXPORT_DIR.",
)
@json_option(ExportDocument)
def export(
    *,
    names: tuple[str, ...],
    chosen_accounts: tuple[str, ...],
    month: date | None,
    first_month: date | None,
    last_month: date | None,
    folder: str | None,
    output: Output,
) -> None:
    """Write lists and marts as Delta tables, partitioned by account and month.

    TABLE is a list or a mart, such as orders or marts.account_profit_daily; without one, all are written. The tables
    are those of the assets `export/`, such as `PATH/orders`, and each gets one new version. Months whose rows have not
    changed stay as they are. The options of months do not restrict tables whose partitions are whole accounts. Needs
    the extra `lake`.
    """
    with open_stored_installation() as installation:
        folder = folder or installation.settings.export_dir
        if folder is None:
            raise missing_setting(
                "SELLER_PLATFORM_EXPORT_DIR", "the folder for Delta tables; `--folder` names one, too"
            )
        sources = list({source.table: source for source in map(source_named, names)}.values()) or SOURCES
        keys, months = chosen_partitions(installation, chosen_accounts, month, first_month, last_month)
        exported = []
        with output.progress("Writing tables", len(sources)) as show:
            for number, source in enumerate(sources, start=1):
                exported += _exported(installation.database, source, _partitions(source, keys, months), folder)
                show(number)
        absent = None
        if all(each.result == "skipped" for each in exported):
            parts = [Selection(account, month) for account, month in _partitions(sources[0], keys, months) if account]
            try:
                require_loaded(installation.database, relation_of(sources[0]), parts or None)
            except NotLoadedError as error:
                absent = error
    _report(ExportDocument(folder=folder, partitions=exported), absent, output)


def _partitions(source: Source, keys: Sequence[str], months: Sequence[Window]) -> list[_Partition]:
    """Return the partitions of a table, which are those of its asset."""
    relation = relation_of(source)
    if not relation.has_account_parts:
        return [(None, None)]
    return [(key, part) for key in keys for part in (months if relation.is_monthly else (None,))]


def _exported(
    database: Database, source: Source, partitions: Sequence[_Partition], folder: str
) -> list[ExportedPartition]:
    """Write the partitions of a table, and return what became of each.

    Raises:
        SellerPlatformError: The table cannot be written.
    """
    from seller_platform.warehouse.exports.partitions import export_partitions  # its import takes a while

    outcomes = []
    for (account, month), result in export_partitions(database, source, partitions, folder).items():
        facts: dict[str, Any] = dict.fromkeys(ExportedPartition.__struct_fields__)
        facts |= {"table": source.table, "account": account, "month": f"{month.start:%Y-%m}" if month else None}
        if isinstance(result, NotLoadedError):
            built = "built" if relation_of(source).is_mart else "loaded"
            facts |= {"result": "skipped", "reason": f"never {built}"}
        elif isinstance(result, InexactNumberError):
            facts |= {"result": "failed", "reason": str(result)}
        elif isinstance(result, SellerPlatformError):
            raise result
        else:
            facts |= {"result": "exported", "path": f"{folder}/{source.name}", "replaced": result.replaced}
            facts |= {"rows": result.rows, "version": result.version}
        outcomes.append(ExportedPartition(**facts))
    return outcomes


def _report(document: ExportDocument, absent: NotLoadedError | None, output: Output) -> None:
    """Print what was written, what was not and why; and end with the failures, if any."""
    ended = [
        (each.table, each.account, each.month, each.rows, (each.result == "skipped" and each.reason) or each.result)
        for each in document.partitions
    ]
    show_partitions(output, f"Delta tables in {document.folder}", ended)
    failures = {each.name: each.reason or "" for each in document.partitions if each.result == "failed"}
    output.outcome(document, PartsFailedError(failures, "partition", "exported") if failures else absent)
