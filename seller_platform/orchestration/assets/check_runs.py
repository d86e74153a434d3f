"""Executes checks on what is stored, in runs that load and build nothing.

Dagster's UI starts such a run without a partition: it is about every partition. As an evaluation takes milliseconds,
and there may be tens of thousands, only results that are new are reported for their partition: failures, and successes
of partitions whose newest evaluation was no success. One evaluation without a partition sums up all of them. A run for
a partition or a range of them reports every result.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TypeAlias

import dagster as dg

from seller_platform.contract import Dataset, Window
from seller_platform.counts import count_of
from seller_platform.errors import ReadingHeldError
from seller_platform.orchestration.assets.checks import (
    LEDGERS_DO_NOT_REPEAT,
    Judgement,
    SliceCheck,
    checks_of,
    judgement_of_hold,
    judgement_of_repeats,
    judgements,
    together,
)
from seller_platform.orchestration.assets.events import CheckRun, judged
from seller_platform.orchestration.instance.check_results import judged_partitions
from seller_platform.orchestration.instance.held_evaluations import stored_together
from seller_platform.orchestration.partitions import ACCOUNT, MONTH, partition_key, read_partition_key
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import REPORTED_BY_RUN
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.recounts import Part, recounted
from seller_platform.warehouse.loads.refusals import refusals
from seller_platform.warehouse.loads.slices import held_error
from seller_platform.warehouse.monitoring.repeated_ledgers import compare_ledgers, repeated_by_part
from seller_platform.warehouse.postgres.database import Database

CheckContext: TypeAlias = dg.AssetExecutionContext | dg.AssetCheckExecutionContext

Results: TypeAlias = Iterable[tuple[str, Mapping[str, Judgement]]]
"""The results of a partition by the names of the checks."""

_NAMED_PARTITIONS = 5
_HELD = ReadingHeldError.__name__


def check_run_of(dataset: Dataset, partitions: dg.PartitionsDefinition[str]) -> CheckRun:
    """Return the function that evaluates a dataset's checks from its stored rows and receipts."""

    def execute(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> Iterator[object]:
        chosen = chosen_partitions(context)
        parts = None if chosen is None else [read_partition_key(key) for key in chosen]
        results = _results(warehouse.database, dataset, parts)
        asset = next(iter(context.selected_asset_check_keys)).asset_key
        yield from reported(context, asset, partitions, results, chosen=chosen)

    return execute


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
    repeats_failures: bool = True,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the evaluations of the checks that a run has chosen.

    Args:
        partitions: The partitions of the checks.
        results: The results of the chosen partitions.
        chosen: The partitions of the run; None for all.
        repeats_failures: Of all partitions, whether those that failed before are reported again.
    """
    if chosen is None:
        states = judged_partitions(context.instance, sorted(context.selected_asset_check_keys), partitions)
        known_failures = {name: frozenset() if repeats_failures else state.failed for name, state in states.items()}
        passed = {name: state.passed for name, state in states.items()}
        existing = _of_partitions(results, partitions, context.instance)
        yield from _reported_of_all(context, key, passed, known_failures, existing)
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
    known_failures: Mapping[str, frozenset[str]],
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
            if partition not in (passed if judgement.passed else known_failures)[name]:
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


def _results(database: Database, dataset: Dataset, parts: Sequence[Part] | None) -> Results:
    """Yield the results of each partition that was loaded, or of which a load failed."""
    failures = _failures(database, dataset, parts)
    repeats = None
    if LEDGERS_DO_NOT_REPEAT in checks_of(dataset):
        compare_ledgers(database, parts)
        repeats = repeated_by_part(database, parts)
    slices: dict[str, dict[str, dict[SliceCheck, Judgement]]] = {}
    for receipt, stored in recounted(database, dataset, parts):
        partition = partition_key(receipt.account, Window.month_of(receipt.window.start) if dataset.is_dated else None)
        if slices and partition not in slices:
            yield from _merged(slices, failures)
            slices = {}
        report = (receipt.notes or {}).get("report_id", "")
        results = slices.setdefault(partition, {})[report] = dict(judgements(dataset, receipt, stored))
        if repeats is not None:
            results[LEDGERS_DO_NOT_REPEAT] = judgement_of_repeats(repeats.get(read_partition_key(partition), ()))
    yield from _merged(slices, failures)
    yield from failures.items()


def _merged(
    slices: Mapping[str, Mapping[str, Mapping[SliceCheck, Judgement]]], failures: dict[str, dict[str, Judgement]]
) -> Results:
    for partition, of_slices in slices.items():
        first = next(iter(of_slices.values()))
        results = {
            check.name: together(
                {name: each[check] for name, each in of_slices.items()}, "Report" if "" not in of_slices else ""
            )
            for check in first
        }
        yield partition, results | failures.pop(partition, {})


def _failures(database: Database, dataset: Dataset, parts: Sequence[Part] | None) -> dict[str, dict[str, Judgement]]:
    """Return the failures of checks by errors: of readings that are held, and of loads that failed since."""
    chosen = None if parts is None else {partition_key(*part) for part in parts}
    failures: dict[str, dict[str, Judgement]] = defaultdict(dict)
    by_error = {check.error.__name__: check.name for check in checks_of(dataset) if check.error is not None}
    for (name, account), of_pair in refusals(database).items():
        for refusal in of_pair if name == dataset.name else ():
            if refusal.error in by_error:
                month = Window.month_of(date.fromisoformat(f"{refusal.month}-01")) if refusal.month else None
                judgement = Judgement(passed=False, description=refusal.message, metadata={REPORTED_BY_RUN: True})
                failures[partition_key(account, month)][by_error[refusal.error]] = judgement
    for receipt in open_holds(database):
        if receipt.dataset == dataset.name and _HELD in by_error:
            month = Window.month_of(receipt.window.start) if dataset.is_dated else None
            judgement = judgement_of_hold(held_error(receipt), receipt)
            judgement = replace(judgement, metadata={**judgement.metadata, REPORTED_BY_RUN: True})
            failures[partition_key(receipt.account, month)][by_error[_HELD]] = judgement
    return {partition: each for partition, each in failures.items() if chosen is None or partition in chosen}
