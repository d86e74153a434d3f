"""What is checked of every slice that a run loads: read off its receipt, or off the error that kept it from one.

Each check of a dataset is evaluated for each partition. A slice that could not be stored fails the check that its
error belongs to, so that the check says more than that there is no materialization.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import dagster as dg

from seller_platform.contract import Dataset, Source
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import ContractViolationError, ListChangedError, SellerPlatformError
from seller_platform.orchestration.assets.events import ROW_COUNT_CHECK, judged
from seller_platform.orchestration.partitions import asset_key
from seller_platform.warehouse.loads.slices import Receipt

# A month that had settled may still be put right by a few rows; more than this share is worth a person's look.
RESTATEMENT_PERCENT = Decimal(1)


@dataclass(frozen=True)
class Judgement:
    """What a check says of a slice."""

    passed: bool
    description: str
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SliceCheck:
    """A check of every slice of the datasets it applies to.

    Attributes:
        judge: Says what a receipt means to it.
        applies_to: Whether a dataset has it.
        error: The error that keeps a slice from being stored and belongs to this check.
    """

    name: str
    doc: str
    judge: Callable[[Dataset, Receipt], Judgement]
    applies_to: Callable[[Dataset], bool] = lambda _: True
    error: type[SellerPlatformError] | None = None


def _row_count(_: Dataset, receipt: Receipt) -> Judgement:
    told = "no total was announced" if receipt.announced is None else f"the list announced {receipt.announced}"
    return Judgement(
        receipt.verdict is not CountVerdict.MISMATCH,
        f"{receipt.verdict}: {receipt.rows} rows were stored, {told}.",
        metadata={"verdict": receipt.verdict.value},
    )


def _held_still(_: Dataset, receipt: Receipt) -> Judgement:
    notes = receipt.notes or {}
    attempts = notes.get("attempts", 1)
    if "moved" in notes:
        before, after = (notes["moved"][name] for name in ("before", "after"))
        return Judgement(
            passed=False,
            description=f"The total went from {before} to {after} while the parts of the list were read. "
            "They add up to a total it had in between; the next refresh reads the days again.",
            severity=dg.AssetCheckSeverity.WARN,
        )
    again = "" if attempts == 1 else f", and {attempts} readings of it were made until that was sure"
    return Judgement(passed=True, description=f"The list held still while its {receipt.pages} pages were read{again}.")


def _keys_are_unique(dataset: Dataset, receipt: Receipt) -> Judgement:
    key = ", ".join(dataset.key)
    duplicates = (receipt.notes or {}).get("duplicate_keys", 0)
    if duplicates:
        return Judgement(
            passed=False,
            description=f"{duplicates} of {receipt.rows} rows share their key ({key}) with another row. They are "
            "stored as they were sent; ask the upstream which of them holds.",
            severity=dg.AssetCheckSeverity.WARN,
            metadata={"duplicate_keys": duplicates},
        )
    return Judgement(passed=True, description=f"Every row has a key ({key}) of its own.")


def _fields_are_known(dataset: Dataset, receipt: Receipt) -> Judgement:
    unknown = (receipt.notes or {}).get("unknown_fields", [])
    if unknown:
        return Judgement(
            passed=False,
            description=f"The upstream sent fields that are not declared: {', '.join(unknown)}. Their values are kept "
            f"in the column `extra` of {dataset.table}; declare them to have columns of their own.",
            severity=dg.AssetCheckSeverity.WARN,
            metadata={"unknown_fields": list(unknown)},
        )
    return Judgement(passed=True, description="Every field is one that is declared, of the declared kind.")


def _restatement_is_small(_: Dataset, receipt: Receipt) -> Judgement:
    if not (receipt.notes or {}).get("was_settled"):
        return Judgement(passed=True, description="Days that had not settled may change; these were such days.")
    changes = {
        name: (Decimal(change["before"]), Decimal(change["after"]))
        for name, change in (receipt.restatement or {}).items()
    }
    if not changes:
        return Judgement(passed=True, description="Nothing changed since the window had settled.")
    percent = {name: _percent(before, after) for name, (before, after) in changes.items()}
    told = "; ".join(f"{name} from {before:,} to {after:,}" for name, (before, after) in changes.items())
    if max(percent.values()) <= RESTATEMENT_PERCENT:
        return Judgement(passed=True, description=f"A settled window changed a little: {told}.")
    return Judgement(
        passed=False,
        description=f"A settled window changed by more than {RESTATEMENT_PERCENT} %: {told}. The stored rows are what "
        "the upstream says now; reports made from the former rows no longer hold.",
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"percent": {name: float(round(value, 2)) for name, value in percent.items()}},
    )


def _percent(before: Decimal, after: Decimal) -> Decimal:
    return 100 * abs(after - before) / abs(before) if before else Decimal(100)


SLICE_CHECKS = (
    SliceCheck(ROW_COUNT_CHECK, "The rows stored are as many as the list announced.", _row_count),
    SliceCheck(
        "list_held_still",
        "The list did not change while it was read, so that no row can have slipped between its pages.",
        _held_still,
        applies_to=lambda dataset: dataset.source is Source.LIST,
        error=ListChangedError,
    ),
    SliceCheck(
        "keys_are_unique",
        "Every row has a key, and no two have the same.",
        _keys_are_unique,
        applies_to=lambda dataset: bool(dataset.key),
    ),
    SliceCheck(
        "fields_are_known",
        "The upstream sends the fields that are declared, of the declared kinds, and no others.",
        _fields_are_known,
        applies_to=lambda dataset: dataset.source is not Source.REPORT,
        error=ContractViolationError,
    ),
    SliceCheck(
        "restatement_is_small",
        f"A window that had settled did not change by more than {RESTATEMENT_PERCENT} % of its rows or amounts.",
        _restatement_is_small,
        applies_to=lambda dataset: dataset.is_dated,
    ),
)


def checks_of(dataset: Dataset) -> tuple[SliceCheck, ...]:
    """Return the checks that apply to a dataset."""
    return tuple(check for check in SLICE_CHECKS if check.applies_to(dataset))


def check_specs(dataset: Dataset, partitions: dg.PartitionsDefinition[str] | None) -> list[dg.AssetCheckSpec]:
    """Return the checks of a dataset, as its asset declares them."""
    return [
        dg.AssetCheckSpec(each.name, asset=asset_key(dataset), description=each.doc, partitions_def=partitions)
        for each in checks_of(dataset)
    ]


def check_outputs(context: dg.AssetExecutionContext, dataset: Dataset) -> Iterator[dg.Output[None]]:
    """Yield the outputs that Dagster expects of checks which report by events."""
    for each in checks_of(dataset):
        yield dg.Output(None, output_name=f"{context.op_def.name}_{each.name}")


def evaluations(
    instance: dg.DagsterInstance, dataset: Dataset, receipt: Receipt, partition: str | None
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield what the checks say of the slice whose materialization was just stored."""
    target = judged(instance, asset_key(dataset), partition)
    for each in checks_of(dataset):
        judgement = each.judge(dataset, receipt)
        yield dg.AssetCheckEvaluation(
            asset_key=asset_key(dataset),
            check_name=each.name,
            partition=partition,
            passed=judgement.passed,
            severity=judgement.severity,
            description=judgement.description,
            metadata={"load_id": str(receipt.id), **judgement.metadata},
            target_materialization_data=target,
        )


def evaluations_of_connections(
    instance: dg.DagsterInstance, dataset: Dataset, receipts: Mapping[str, Receipt]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield what the checks say of a list without partitions, of which each connection has a part: they share a check.

    Args:
        receipts: The last load of each connection.
    """
    target = judged(instance, asset_key(dataset), None)
    for each in checks_of(dataset):
        judgements = {name: each.judge(dataset, receipt) for name, receipt in sorted(receipts.items())}
        failed = {name: judgement for name, judgement in judgements.items() if not judgement.passed}
        told = failed or judgements
        is_error = any(judgement.severity is dg.AssetCheckSeverity.ERROR for judgement in told.values())
        yield dg.AssetCheckEvaluation(
            asset_key=asset_key(dataset),
            check_name=each.name,
            passed=not failed,
            severity=dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
            description=" ".join(f"Connection {name}: {judgement.description}" for name, judgement in told.items()),
            metadata={
                name: {"load_id": str(receipts[name].id), **judgement.metadata} for name, judgement in told.items()
            },
            target_materialization_data=target,
        )


def evaluations_of_failure(
    dataset: Dataset, error: SellerPlatformError, partition: str | None
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the failure of the check, if there is one, that the error of a slice belongs to."""
    for each in checks_of(dataset):
        if each.error is not None and isinstance(error, each.error):
            yield dg.AssetCheckEvaluation(
                asset_key=asset_key(dataset),
                check_name=each.name,
                partition=partition,
                passed=False,
                description=str(error),
            )
