"""`seller-platform export`: writes Delta tables, as the assets `export/` do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from seller_platform.cli.installation import open_stored_installation
from seller_platform.cli.output import Outcome, Output, json_option
from seller_platform.cli.partitions import (
    PartitionOutcome,
    chosen_partitions,
    partition_name,
    partition_options,
    show_partitions,
)
from seller_platform.cli.sync import SliceOptions
from seller_platform.contract import Window
from seller_platform.errors import NotLoadedError, PartsFailedError, SellerPlatformError, missing_setting
from seller_platform.lake.settings import LakeSettings, export_folder
from seller_platform.warehouse.readers.loaded import require_loaded
from seller_platform.warehouse.readers.relations import SOURCES, Selection, Source, relation_of, source_named

if TYPE_CHECKING:
    from seller_platform.lake.partitions import Exported

_Partition = tuple[str | None, Window | None]


class ExportedPartition(PartitionOutcome, frozen=True):
    """What became of a partition of a Delta table.

    Attributes:
        replaced: Of how many months rows were written, because they had changed; null unless it was exported, and so
            the next two.
        version: The version of the Delta table that has the rows.
        path: The Delta table: its folder or its URL.
    """

    replaced: int | None
    version: int | None
    path: str | None


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
def export(*, names: tuple[str, ...], selection: SliceOptions, folder: str | None, output: Output) -> None:
    """Write lists and marts as Delta tables, partitioned by account and month.

    TABLE is a list or a mart, such as orders or marts.account_profit_daily; without one, all are written. The tables
    are those of the assets `export/`, such as `PATH/orders`, and each gets one new version. Months whose rows have not
    changed stay as they are. The options of months do not restrict tables whose partitions are whole accounts. Needs
    the extra `lake`.
    """
    from seller_platform.lake.partitions import export_partitions  # its import takes a while

    with open_stored_installation() as installation:
        folder = folder or installation.settings.of(LakeSettings).export_dir
        if folder is None:
            raise missing_setting(
                "SELLER_PLATFORM_EXPORT_DIR", "the folder for Delta tables; `--folder` names one, too"
            )
        sources = list({source.table: source for source in map(source_named, names)}.values()) or SOURCES
        keys, months = chosen_partitions(installation, selection)
        exported, failures = list[ExportedPartition](), dict[str, SellerPlatformError]()
        with output.progress("Writing tables", len(sources)) as show:
            for number, source in enumerate(sources, start=1):
                partitions = _partitions(source, keys, months)
                for (key, part), result in export_partitions(installation.database, source, partitions, folder).items():
                    outcome = _outcome(source, folder, key, part, result)
                    exported.append(outcome)
                    if outcome.result == "failed" and isinstance(result, SellerPlatformError):
                        failures[partition_name(source.table, key, part)] = result
                show(number)
        absent = None
        if all(each.result == "skipped" for each in exported):
            parts = [Selection(account, month) for account, month in _partitions(sources[0], keys, months) if account]
            try:
                require_loaded(installation.database, relation_of(sources[0]), parts or None)
            except NotLoadedError as error:
                absent = error
    show_partitions(output, f"Delta tables in {folder}", exported)
    document = ExportDocument(folder=folder, partitions=exported)
    failed = PartsFailedError(failures, "partition", "exported", any_done=len(failures) < len(exported))
    output.outcome(document, failed if failures else absent)


def _partitions(source: Source, keys: Sequence[str], months: Sequence[Window]) -> list[_Partition]:
    """Return the partitions of a table, which are those of its asset."""
    relation = relation_of(source)
    if not relation.has_account_parts:
        return [(None, None)]
    return [(key, part) for key in keys for part in (months if relation.is_monthly else (None,))]


def _outcome(
    source: Source, folder: str, account: str | None, month: Window | None, result: "Exported | SellerPlatformError"
) -> ExportedPartition:
    """Return what became of a partition."""
    facts: dict[str, Any] = dict.fromkeys(ExportedPartition.__struct_fields__)
    facts |= {"table": source.table, "account": account, "month": f"{month.start:%Y-%m}" if month else None}
    if isinstance(result, NotLoadedError):
        facts |= {"result": "skipped", "reason": f"never {'built' if relation_of(source).is_mart else 'loaded'}"}
    elif isinstance(result, SellerPlatformError):
        facts |= {"result": "failed", "reason": str(result)}
    else:
        facts |= {"result": "exported", "path": f"{folder}/{source.name}", "replaced": result.replaced}
        facts |= {"rows": result.rows, "version": result.version}
    return ExportedPartition(**facts)
