"""One asset for each mart, made as `orchestration/assets/derived` does."""

from collections.abc import Callable, Sequence
from datetime import date

import dagster as dg

from seller_platform.marts.figures import Figure, chart, markdown_image
from seller_platform.orchestration.account_names import AccountNames, subject_of
from seller_platform.orchestration.assets.derived import (
    Made,
    derived_asset,
    derived_event,
    input_versions,
    newest_event,
)
from seller_platform.orchestration.assets.descriptions import first_query
from seller_platform.orchestration.assets.events import table_schema
from seller_platform.orchestration.assets.reporting import report_checks
from seller_platform.orchestration.automation.following import Follower
from seller_platform.orchestration.failures import foreseen
from seller_platform.orchestration.mounting import Contribution, Mounted
from seller_platform.orchestration.partitions import add_accounts, partition_key, partitions_for, read_partition_key
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.derived.builds import Build, build_partition, reporting
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.due import Derived
from seller_platform.warehouse.derived.registry import marts_with
from seller_platform.warehouse.derived.tables import mart_table_for
from seller_platform.warehouse.postgres.database import Database


def definitions(component: Mounted) -> Contribution:
    """Return the assets of the marts whose inputs a component reads."""
    since, placement = component.history_start, component.placement
    marts = [each for each in marts_with(component.settings) if {*each.datasets} <= {*component.datasets}]
    assets = [mart_asset(each, since, placement) for each in marts]
    return Contribution(dg.Definitions(assets), [mart_follower(each, placement) for each in marts], marts=marts)


def mart_follower(mart: Mart, placement: Placement = WHOLE) -> Follower:
    """Return a mart as the sensor builds it."""
    inputs = frozenset(placement.asset_key(each) for each in mart.datasets)
    return Follower(placement.asset_key(mart), mart, Derived.of(mart), inputs)


def mart_asset(mart: Mart, history_start: date, placement: Placement = WHOLE) -> dg.AssetsDefinition:
    """Return the asset that builds a mart, partition by partition; it needs the resource `warehouse`."""
    keys = {each.dataset.name: placement.asset_key(each.dataset) for each in mart.inputs}
    lineage = {
        column.name: [
            dg.TableColumnDep(asset_key=keys[dataset], column_name=name)
            for dataset, _, name in (of.partition(".") for of in column.of)
        ]
        for column in mart.columns
        if column.of
    }
    spec = dg.AssetSpec(
        placement.asset_key(mart),
        description=describe_mart(mart, placement),
        code_version=mart.version,
        group_name=placement.group_of("marts"),
        kinds={"postgres", "sql"},
        metadata={
            "dagster/column_schema": table_schema(mart_table_for(mart)),
            "dagster/column_lineage": dg.TableColumnLineage(lineage),
            "dagster/table_name": mart.table,
        },
        # Dagster maps equal partitions to each other, and an account to all of its months. A mart that reads months
        # around its own depends on the same month alone: a backfill loads and builds a partition in one run. The sensor
        # knows which months it reads.
        deps=list(keys.values()),
        partitions_def=partitions_for(mart, history_start, placement.account_partitions),
    )

    def builder(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource, _: Sequence[str | None]
    ) -> Callable[[str | None], Made]:
        with foreseen(placement):
            parameters = mart.chosen_parameters(context.op_execution_context.op_config or {})

        def build(partition: str | None) -> Made:
            assert partition is not None, f"{mart.name} has no partitions"
            before = newest_event(context.instance)
            result = build_partition(
                warehouse.database,
                mart,
                *read_partition_key(partition),
                key_prefix="".join(f"{part}/" for part in placement.key_prefix),
                parameters=parameters,
                run_id=context.run.run_id,
            )
            return _made(result, before, warehouse.names)

        return build

    config = {}
    for each in mart.parameters:
        described = f"{each.doc} From {each.minimum} to {each.maximum:,}."
        config[each.name] = dg.Field(int, default_value=each.default, description=described)
    return derived_asset(
        spec, mart, mart.datasets, builder, placement, done="built", checked=[mart], config_schema=config
    )


def describe_mart(mart: Mart, placement: Placement = WHOLE) -> str:
    inputs = ", ".join(f"`{each.dataset.table}`" for each in mart.inputs)
    partition = "an account and a month" if mart.is_monthly else "an account"
    since = f"\n  AND {mart.day} >= date_trunc('month', current_date)" if mart.is_monthly else ""
    paragraphs = (
        mart.doc,
        f"**A partition** is {partition}, computed in one transaction from {inputs}.",
        "**Repair:** load the inputs that a failed check names; the sensor "
        f"`{placement.name_of('marts_and_exports')}` builds the partition again. *Materialize* builds it at once.",
        first_query(f"SELECT *\nFROM {mart.table}\nWHERE account = 'KEY'{since}\nORDER BY {', '.join(mart.key)}"),
    )
    return "\n\n".join(paragraphs)


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
        mart, made = build.mart, _made(build, before, names)
        event = derived_event(WHOLE.asset_key(mart), mart.version, made, versions[mart.name], names)
        with reporting(database, build) as is_newest:
            if is_newest:
                instance.report_runless_asset_event(event)
    report_checks(instance, database, WHOLE, list(marts.values()))


def _made(build: Build, read_after: int, names: AccountNames) -> Made:
    """Return a built partition, with its chart."""
    return Made(
        partition_key(build.account, build.window),
        build.rows,
        build.digest.hex(),
        read_after,
        {
            "chart": dg.MetadataValue.md(_chart(build, names.get(build.account))),
            "dagster/table_name": build.mart.table,
            "dagster/uri": names.database.uri,
            "loads": dg.MetadataValue.json(dict(build.loads)),
            "parameters": dg.MetadataValue.json(dict(build.parameters)),
            "seconds": round(build.seconds, 3),
            "build_id": str(build.id),  # as text, for the UI plots every number
            "receipt": f"row {build.id} of platform.mart_builds",
        },
    )


def _chart(build: Build, account: KnownAccount | None) -> str:
    """Return the chart of a build as an image in Markdown."""
    declared, rows = build.mart.chart, build.chart_rows
    names = [name for name in (rows[0] if rows else ()) if name not in ("label", "currency")]
    figure = Figure(
        title=declared.title,
        subject=subject_of(build.account, build.window, account),
        unit=declared.unit.format(currency=rows[0].get("currency", "") if rows else ""),
        labels=tuple(row["label"] for row in rows),
        series={name: tuple(row[name] for row in rows) for name in names},
        when_empty=declared.when_empty,
    )
    return markdown_image(figure.text, chart(figure, declared.form))
