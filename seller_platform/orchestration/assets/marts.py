"""One asset for each mart."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, TypeAlias

import dagster as dg

from seller_platform.clocks import utc_now
from seller_platform.contract import DATASETS, Dataset, Slicing, Window
from seller_platform.counts import count_of
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.orchestration.account_names import account_metadata, subject_of
from seller_platform.orchestration.assets.checks import Judgement
from seller_platform.orchestration.assets.descriptions import describe_mart
from seller_platform.orchestration.assets.events import (
    checkable_asset,
    judged,
    outputs,
    partition_tags,
    short_digest,
    table_schema,
)
from seller_platform.orchestration.assets.partition_loop import PartitionLoop
from seller_platform.orchestration.assets.run_titles import tag_with_title
from seller_platform.orchestration.automation.following import Follower, failed_input, inputs_of
from seller_platform.orchestration.automation.provenance import input_versions, newest_event, provenance_tags
from seller_platform.orchestration.charts.figures import Figure, bar_chart, line_chart, markdown_image
from seller_platform.orchestration.failures import foreseen
from seller_platform.orchestration.instance.check_results import judged_partitions
from seller_platform.orchestration.instance.held_evaluations import stored_together
from seller_platform.orchestration.partitions import (
    ACCOUNT,
    MONTH,
    account_months,
    partition_key,
    read_partition_key,
)
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import REPORTED_BY_RUN
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.marts import Chart, ChartForm, Input, Mart, marts_with
from seller_platform.warehouse.marts.builds import Build, CheckResult, build_partition, chosen_parameters, recheck
from seller_platform.warehouse.marts.due import Derived, keep_failure, partition_states
from seller_platform.warehouse.marts.formulas import Formula
from seller_platform.warehouse.marts.tables import mart_table_for
from seller_platform.warehouse.monitoring.slice_problems import slice_problems

GROUP = "marts"

CheckContext: TypeAlias = dg.AssetExecutionContext | dg.AssetCheckExecutionContext

Results: TypeAlias = Iterable[tuple[str, Mapping[str, Judgement]]]
"""The results of a partition by the names of the checks."""

_NAMED_PARTITIONS = 5

_UNCHANGED = Judgement(passed=True, description="Neither rows nor inputs changed since the partition was built.")


def mart_definitions(
    history_start: date,
    placement: Placement = WHOLE,
    datasets: Collection[Dataset] = DATASETS,
    formula: Formula | None = None,
) -> dg.Definitions:
    """Return the assets of marts, without the resource `warehouse`.

    Args:
        datasets: The datasets that have assets; a mart with another input is left out.
        formula: A profit formula of one's own.
    """
    return dg.Definitions(assets=[mart_asset(mart, history_start, placement) for mart in marts_of(datasets, formula)])


def mart_followers(
    placement: Placement = WHOLE, datasets: Collection[Dataset] = DATASETS, formula: Formula | None = None
) -> list[Follower]:
    """Return the marts that the sensor builds."""
    return [
        Follower(
            placement.asset_key(mart),
            mart,
            Derived.of(mart),
            frozenset(placement.asset_key(each) for each in inputs_of(mart)),
        )
        for mart in marts_of(datasets, formula)
    ]


def marts_of(datasets: Collection[Dataset], formula: Formula | None = None) -> list[Mart]:
    """Return the marts whose inputs are all among these datasets."""
    return [mart for mart in marts_with(formula) if all(each.dataset in datasets for each in mart.inputs)]


def mart_key(mart: Mart) -> dg.AssetKey:
    """Return the mart's asset key, which is also its table's name."""
    return dg.AssetKey([GROUP, mart.name])


def mart_asset(mart: Mart, history_start: date, placement: Placement = WHOLE) -> dg.AssetsDefinition:
    """Return the asset that builds a mart, partition by partition.

    A partition that fails does not stop the others, and is named at the end.
    """
    accounts, key = placement.account_partitions, placement.key(mart_key(mart))
    partitions = account_months(history_start, accounts) if mart.is_monthly else accounts

    spec = dg.AssetSpec(
        key,
        description=describe_mart(mart),
        code_version=mart.version,
        group_name=placement.group_of(GROUP),
        kinds={"postgres", "sql"},
        metadata=definition_metadata(mart, placement),
        deps=[
            dg.AssetDep(placement.asset_key(each.dataset), partition_mapping=_mapping(mart, each))
            for each in mart.inputs
        ],
        partitions_def=partitions,
    )

    def execute_checks(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> Iterator[object]:
        chosen = chosen_partitions(context)
        parts = None if chosen is None else [read_partition_key(key) for key in chosen]
        passed = frozenset[str]() if chosen else frozenset.intersection(*passed_in(context, partitions).values())
        unchanged = {check.name: _UNCHANGED for check in mart.all_checks}

        def is_passed(account: str, window: Window | None) -> bool:
            return partition_key(account, window) in passed

        results = (
            (
                partition_key(each.account, each.window),
                {
                    result.check.name: judgement_of(mart, result, each.build_id, each.rows)
                    for result in each.check_results
                }
                or unchanged,
            )
            for each in recheck(warehouse.database, mart, parts, skips=is_passed)
        )
        yield from reported(context, key, partitions, results, chosen=chosen)

    @checkable_asset(
        spec,
        check_specs=[
            dg.AssetCheckSpec(check.name, asset=key, description=check.doc, partitions_def=partitions)
            for check in mart.all_checks
        ],
        execute_checks=execute_checks,
        config_schema={
            parameter.name: dg.Field(int, default_value=parameter.default, description=parameter.doc_with_bounds)
            for parameter in mart.parameters
        },
    )
    def build(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> Iterator[object]:
        tag_with_title(context, warehouse)
        with foreseen():
            parameters = chosen_parameters(mart, context.op_execution_context.op_config or {})

        versions = input_versions(context.instance, [placement.asset_key(each.dataset) for each in mart.inputs])
        problems, today = slice_problems(warehouse.database, inputs_of(mart)), utc_now().date()

        def build_one(key: str) -> tuple[Build, int]:
            account, month = read_partition_key(key)
            failed = failed_input(problems, mart, account, month, today, placement)
            if failed is not None:
                derived = Derived.of(mart)
                with suppress(WarehouseUnavailableError), warehouse.database.begin() as connection:
                    (state,) = partition_states(connection, derived, [account], [month] if month else [])
                    keep_failure(connection, derived, state, failed, run_id=context.run.run_id)
                raise failed
            before = newest_event(context.instance)
            build = build_partition(
                warehouse.database, mart, account, month, parameters=parameters, run_id=context.run.run_id
            )
            return build, before

        loop = PartitionLoop(context.log, f"{mart.name} of ")
        for _, (result, before) in loop.attempt(context.partition_keys, build_one):
            account = warehouse.names.get(result.account)
            tags = provenance_tags(result.digest.hex(), mart.version, versions, before)
            yield materialization(result, tags, database_uri=warehouse.database.uri, account=account)
            yield from evaluations(context.instance, result)
        yield from outputs(context)
        loop.fail_partitions(mart.name, "built")

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


def materialization(
    build: Build, tags: Mapping[str, str], *, database_uri: str, account: KnownAccount | None = None
) -> dg.AssetMaterialization:
    """Return the materialization of a built partition, with its chart.

    Args:
        tags: What it was computed from, as `provenance_tags` returns it.
        account: The account of the partition, if it is known.
    """
    mart, partition = build.mart, partition_key(build.account, build.window)
    return dg.AssetMaterialization(
        asset_key=mart_key(mart),
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


def evaluations(instance: dg.DagsterInstance, build: Build) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the checks' evaluations of the partition whose materialization was just stored."""
    partition = partition_key(build.account, build.window)
    target = judged(instance, mart_key(build.mart), partition)
    with stored_together(instance):
        for result in build.check_results:
            judgement = judgement_of(build.mart, result, build.id, build.rows)
            yield judgement.evaluation(mart_key(build.mart), result.check.name, target, partition)


def judgement_of(mart: Mart, result: CheckResult, build_id: int, rows: int) -> Judgement:
    """Return the result of a check of a build, with examples of rows that contradict it.

    Args:
        rows: The rows of the partition.
    """
    check = result.check
    metadata: dict[str, Any] = {"contradictions": result.contradictions, "build_id": str(build_id)}
    description = check.doc
    if not result.passed:
        metadata["examples"] = [
            {name: None if value is None else str(value) for name, value in row.items()} for row in result.examples
        ]
        contradict = "contradicts" if result.contradictions == 1 else "contradict"
        description = (
            f"{extent(result, rows)} of {mart.table} {contradict} this: {check.doc} The check's metadata "
            f"has examples: {check.repair}, and build the partition again."
        )
    severity = dg.AssetCheckSeverity.WARN if check.is_warning else dg.AssetCheckSeverity.ERROR
    return Judgement(result.passed, description, severity, metadata)


def extent(result: CheckResult, rows: int) -> str:
    """Return how many rows contradict a check, as `12 of 340 rows (3.5 %)`.

    The query of a check may return a sum instead of rows of the mart; then there is no share.

    Args:
        rows: The rows of the partition.
    """
    count = result.contradictions
    if not 0 < count <= rows or not any("sku" in row or "local_day" in row for row in result.examples):
        return count_of(count, "row")
    return f"{count:,} of {count_of(rows, 'row')} ({100 * count / rows:.1f} %)"


def draw(build: Build, account: KnownAccount | None = None) -> str:
    """Return the chart of a build as an image in Markdown."""
    figure = figure_of(build, account)
    svg = line_chart(figure) if build.mart.chart.form is ChartForm.LINES else bar_chart(figure)
    return markdown_image(figure, svg)


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


def _mapping(mart: Mart, source: Input) -> dg.PartitionMapping | None:
    """Return the mapping from a mart's partition to the partitions of an input.

    A mart that reads months around its own has the same month as its input, so that a backfill loads and builds a
    partition in one run. The sensor knows which months it reads.
    """
    slicing = source.dataset.slicing
    if slicing is Slicing.CONNECTION:
        return None
    if mart.is_monthly != (slicing is Slicing.MONTH):
        return dg.MultiToSingleDimensionPartitionMapping(partition_dimension_name=ACCOUNT)
    return None


def chosen_partitions(context: CheckContext) -> Sequence[str] | None:
    """Return the partitions of a run; None for a run without a partition."""
    is_partitioned = context.has_partition_key or context.has_partition_key_range
    return context.partition_keys if is_partitioned else None


def passed_in(context: CheckContext, partitions: dg.PartitionsDefinition[str]) -> Mapping[str, frozenset[str]]:
    """Return the partitions whose newest evaluation passed, of each check that a run has chosen."""
    states = judged_partitions(context.instance, sorted(context.selected_asset_check_keys), partitions)
    return {name: state.passed for name, state in states.items()}


def reported(
    context: CheckContext,
    key: dg.AssetKey,
    partitions: dg.PartitionsDefinition[str],
    results: Results,
    *,
    chosen: Sequence[str] | None,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the evaluations of the checks that a run has chosen.

    Args:
        partitions: The partitions of the checks.
        results: The results of the chosen partitions.
        chosen: The partitions of the run; None for all.
    """
    if chosen is None:
        states = judged_partitions(context.instance, sorted(context.selected_asset_check_keys), partitions)
        passed = {name: state.passed for name, state in states.items()}
        existing = _of_partitions(results, partitions, context.instance)
        yield from _reported_of_all(context, key, passed, existing)
        return
    names = {check.name for check in context.selected_asset_check_keys}
    without_rows = dict.fromkeys(chosen)
    for partition, of_checks in results:
        without_rows.pop(partition, None)
        target = judged(context.instance, key, partition)
        with stored_together(context.instance):
            for name in names & of_checks.keys():
                yield of_checks[name].evaluation(key, name, target, partition)
    for partition in without_rows:
        context.log.warning("%s of %s was never loaded: there is nothing to check.", key.to_user_string(), partition)


def _of_partitions(results: Results, partitions: dg.PartitionsDefinition[str], instance: dg.DagsterInstance) -> Results:
    """Yield the results of partitions that exist: a component may read only some accounts of the warehouse."""
    of_parts = {ACCOUNT: partitions}
    if isinstance(partitions, dg.MultiPartitionsDefinition):
        of_parts = {name: partitions.get_partitions_def_for_dimension(name) for name in (ACCOUNT, MONTH)}
    parts = {
        name: frozenset(part.get_partition_keys(dynamic_partitions_store=instance)) for name, part in of_parts.items()
    }
    for partition, of_checks in results:
        account, month = read_partition_key(partition)
        if account in parts[ACCOUNT] and (month is None or month.start.isoformat() in parts[MONTH]):
            yield partition, of_checks


def _reported_of_all(
    context: CheckContext,
    key: dg.AssetKey,
    passed: Mapping[str, frozenset[str]],
    results: Results,
) -> Iterator[dg.AssetCheckEvaluation]:
    counts: Counter[str] = Counter()
    failed: dict[str, list[str]] = defaultdict(list)
    severities: dict[str, set[dg.AssetCheckSeverity]] = defaultdict(set)
    changed: Counter[str] = Counter()
    for partition, of_checks in results:
        news: dict[str, Judgement] = {}
        for name in passed.keys() & of_checks.keys():
            judgement = of_checks[name]
            counts[name] += 1
            if not judgement.passed:
                failed[name].append(partition)
                severities[name].add(judgement.severity)
            if not judgement.passed or partition not in passed[name]:
                changed[name] += 1
                news[name] = judgement
        target = judged(context.instance, key, partition) if news else None
        with stored_together(context.instance):
            for name, judgement in news.items():
                yield judgement.evaluation(key, name, target, partition)
    for name in sorted(passed):
        named = ", ".join(failed[name][:_NAMED_PARTITIONS])
        more = len(failed[name]) - _NAMED_PARTITIONS
        reason = f" {len(failed[name])} failed: {named}{f' and {more} more' if more > 0 else ''}." if named else ""
        is_error = dg.AssetCheckSeverity.ERROR in severities[name]
        yield Judgement(
            not failed[name],
            f"The stored rows of {count_of(counts[name], 'partition', 'was')} checked.{reason}",
            dg.AssetCheckSeverity.ERROR if is_error or not failed[name] else dg.AssetCheckSeverity.WARN,
            {
                "partitions": counts[name],
                "failed_partitions": len(failed[name]),
                "reported_partitions": changed[name],
                REPORTED_BY_RUN: True,
            },
        ).evaluation(key, name, None)
