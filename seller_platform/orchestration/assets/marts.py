"""One asset for each mart."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date

import dagster as dg

from seller_platform.contract import DATASETS, Dataset
from seller_platform.orchestration.account_names import AccountNames, account_metadata, subject_of
from seller_platform.orchestration.assets.descriptions import describe_mart
from seller_platform.orchestration.assets.events import (
    event_asset,
    outputs,
    partition_tags,
    short_digest,
    table_schema,
)
from seller_platform.orchestration.assets.partition_loop import PartitionLoop
from seller_platform.orchestration.assets.reporting import report, report_after_step, report_checks
from seller_platform.orchestration.assets.run_titles import tag_with_title
from seller_platform.orchestration.automation.following import Follower
from seller_platform.orchestration.automation.provenance import input_versions, newest_event, provenance_tags
from seller_platform.orchestration.charts.figures import Figure, alternative_text, bar_chart, line_chart, markdown_image
from seller_platform.orchestration.failures import foreseen
from seller_platform.orchestration.partitions import (
    account_months,
    add_accounts,
    partition_key,
    read_partition_key,
)
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.marts import MARTS, Chart, ChartForm, Mart
from seller_platform.warehouse.marts.builds import Build, chosen_parameters, reporting
from seller_platform.warehouse.marts.due import Derived
from seller_platform.warehouse.marts.tables import mart_table_for
from seller_platform.warehouse.monitoring.mart_inputs import build_unless_failed, inputs_of
from seller_platform.warehouse.monitoring.slice_problems import slice_problems
from seller_platform.warehouse.postgres.database import Database

GROUP = "marts"


def mart_definitions(
    history_start: date,
    placement: Placement = WHOLE,
    datasets: Collection[Dataset] = DATASETS,
    marts: Sequence[Mart] = MARTS,
) -> dg.Definitions:
    """Return the assets of marts, without the resource `warehouse`.

    Args:
        datasets: The datasets that have assets; a mart with another input is left out.
        marts: Every mart, with rules of one's own.
    """
    return dg.Definitions(assets=[mart_asset(mart, history_start, placement) for mart in marts_of(datasets, marts)])


def mart_followers(
    placement: Placement = WHOLE, datasets: Collection[Dataset] = DATASETS, marts: Sequence[Mart] = MARTS
) -> list[Follower]:
    """Return the marts that the sensor builds."""
    return [
        Follower(
            placement.asset_key(mart),
            mart,
            Derived.of(mart),
            frozenset(placement.asset_key(each) for each in inputs_of(mart)),
        )
        for mart in marts_of(datasets, marts)
    ]


def marts_of(datasets: Collection[Dataset], marts: Sequence[Mart] = MARTS) -> list[Mart]:
    """Return the marts whose inputs are all among these datasets."""
    return [mart for mart in marts if all(each.dataset in datasets for each in mart.inputs)]


def mart_asset(mart: Mart, history_start: date, placement: Placement = WHOLE) -> dg.AssetsDefinition:
    """Return the asset that builds a mart, partition by partition.

    A partition that fails does not stop the others, and is named at the end.
    """
    key, by_account = placement.asset_key(mart), placement.account_partitions
    partitions = account_months(history_start, by_account) if mart.is_monthly else by_account

    spec = dg.AssetSpec(
        key,
        description=describe_mart(mart, placement),
        code_version=mart.version,
        group_name=placement.group_of(GROUP),
        kinds={"postgres", "sql"},
        metadata=definition_metadata(mart, placement),
        # Dagster maps equal partitions to each other, and an account to all of its months. A mart that reads months
        # around its own depends on the same month alone: a backfill loads and builds a partition in one run. The sensor
        # knows which months it reads.
        deps=[placement.asset_key(each.dataset) for each in mart.inputs],
        partitions_def=partitions,
    )

    @event_asset(
        spec,
        config_schema={
            parameter.name: dg.Field(int, default_value=parameter.default, description=parameter.doc_with_bounds)
            for parameter in mart.parameters
        },
    )
    def build(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> Iterator[object]:
        tag_with_title(context, warehouse)
        with foreseen():
            parameters = chosen_parameters(mart, context.op_execution_context.op_config or {})

        accounts = {read_partition_key(key)[0] for key in context.partition_keys}
        report(context.instance, warehouse.database, placement, inputs_of(mart), accounts=accounts)
        versions = input_versions(context.instance, [placement.asset_key(each.dataset) for each in mart.inputs])
        problems = slice_problems(warehouse.database, inputs_of(mart))

        def build_one(partition: str) -> tuple[Build, int]:
            before = newest_event(context.instance)
            build = build_unless_failed(
                warehouse.database,
                mart,
                *read_partition_key(partition),
                problems,
                key_prefix=placement.written_prefix,
                parameters=parameters,
                run_id=context.run.run_id,
            )
            return build, before

        loop = PartitionLoop(context.log, f"{mart.name} of ")
        for _, (result, before) in loop.attempt(context.partition_keys, build_one):
            account = warehouse.names.get(result.account)
            tags = provenance_tags(result.digest.hex(), mart.version, versions, before)
            yield materialization(key, result, tags, database_uri=warehouse.database.uri, account=account)
        yield from outputs(context)
        report_after_step(context, warehouse.database, placement, mart)
        loop.fail_partitions(mart.name, "built", len(context.partition_keys))

    return build


def definition_metadata(mart: Mart, placement: Placement = WHOLE) -> dict[str, object]:
    """Return the metadata of a mart's asset, which all its partitions share."""
    return {
        "dagster/column_schema": table_schema(mart_table_for(mart)),
        "dagster/column_lineage": column_lineage(mart, placement),
        "dagster/table_name": mart.table,
    }


def column_lineage(mart: Mart, placement: Placement = WHOLE) -> dg.TableColumnLineage:
    """Return the columns of datasets from which each column of the mart is computed."""
    keys = {each.dataset.name: placement.asset_key(each.dataset) for each in mart.inputs}
    return dg.TableColumnLineage(
        {
            column.name: [
                dg.TableColumnDep(asset_key=keys[dataset], column_name=name)
                for dataset, _, name in (of.partition(".") for of in column.of)
            ]
            for column in mart.columns
            if column.of
        }
    )


def report_builds(instance: dg.DagsterInstance, database: Database, builds: Sequence[Build]) -> None:
    """Report marts that a command has built, and their checks, without a run.

    A partition that was built again since is left to its run or command, and one of which an input has changed to the
    sensor.
    """
    before, names = newest_event(instance), AccountNames(database)
    add_accounts(instance, {build.account for build in builds})
    marts = {build.mart.name: build.mart for build in builds}
    versions = {
        name: input_versions(instance, [WHOLE.asset_key(each.dataset) for each in mart.inputs])
        for name, mart in marts.items()
    }
    for build in builds:
        tags = provenance_tags(build.digest.hex(), build.mart.version, versions[build.mart.name], before)
        account, key = names.get(build.account), WHOLE.asset_key(build.mart)
        event = materialization(key, build, tags, database_uri=database.uri, account=account)
        with reporting(database, build) as is_newest:
            if is_newest:
                instance.report_runless_asset_event(event)
    report_checks(instance, database, WHOLE, list(marts.values()))


def materialization(
    key: dg.AssetKey,
    build: Build,
    tags: Mapping[str, str],
    *,
    database_uri: str,
    account: KnownAccount | None = None,
) -> dg.AssetMaterialization:
    """Return the materialization of a built partition, with its chart.

    Args:
        tags: What it was computed from, as `provenance_tags` returns it.
        account: The account of the partition, if it is known.
    """
    mart, partition = build.mart, partition_key(build.account, build.window)
    return dg.AssetMaterialization(
        asset_key=key,
        partition=partition,
        tags={**tags, **partition_tags(partition)},
        metadata={
            **account_metadata(account),
            "chart": dg.MetadataValue.md(draw(build, account)),
            "dagster/partition_row_count": build.rows,
            "dagster/table_name": mart.table,
            "dagster/uri": database_uri,
            "rows": build.rows,
            "loads": dg.MetadataValue.json(dict(build.loads)),
            "parameters": dg.MetadataValue.json(dict(build.parameters)),
            "seconds": round(build.seconds, 3),
            "build_id": str(build.id),  # as text, for the UI plots every number
            "receipt": f"row {build.id} of platform.mart_builds",
            "digest": short_digest(build.digest.hex()),
        },
    )


def draw(build: Build, account: KnownAccount | None = None) -> str:
    """Return the chart of a build as an image in Markdown."""
    figure = figure_of(build, account)
    svg = line_chart(figure) if build.mart.chart.form is ChartForm.LINES else bar_chart(figure)
    return markdown_image(alternative_text(figure), svg)


def figure_of(build: Build, account: KnownAccount | None = None) -> Figure:
    """Return the title, the labels and the values of a build's chart."""
    chart: Chart = build.mart.chart
    rows = build.chart_rows
    names = [name for name in (rows[0] if rows else ()) if name not in ("label", "currency")]
    return Figure(
        title=chart.title,
        subject=subject_of(build.account, build.window, account),
        unit=chart.unit.format(currency=rows[0].get("currency", "") if rows else ""),
        labels=tuple(row["label"] for row in rows),
        series={name: tuple(row[name] for row in rows) for name in names},
        when_empty=chart.when_empty,
    )
