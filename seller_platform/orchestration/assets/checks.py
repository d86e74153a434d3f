"""The checks of every loaded slice, evaluated from its receipt or from its error.

Each check of a dataset is evaluated for each partition. A slice that could not be stored fails the check of its
error, which then gives the reason.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import dagster as dg

from seller_platform.contract import Dataset, Source
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import ContractViolationError, ListChangedError, ReadingHeldError, SellerPlatformError
from seller_platform.orchestration.assets.events import ROW_COUNT_CHECK, JudgedMaterialization, judged
from seller_platform.orchestration.partitions import asset_key
from seller_platform.orchestration.tags import REPORTED_BY_RUN
from seller_platform.warehouse.loads.slices import Receipt, held_error

# A settled month may still be corrected by a few rows; a larger share than this is reported.
RESTATEMENT_PERCENT = Decimal(1)


@dataclass(frozen=True)
class Judgement:
    """The result of a check of a slice."""

    passed: bool
    description: str
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def evaluation(
        self, asset: dg.AssetKey, check: str, target: JudgedMaterialization | None, partition: str | None = None
    ) -> dg.AssetCheckEvaluation:
        """Return the result as the evaluation of a check for a materialization."""
        return dg.AssetCheckEvaluation(
            asset_key=asset,
            check_name=check,
            partition=partition,
            passed=self.passed,
            severity=self.severity,
            description=self.description,
            metadata=self.metadata,
            target_materialization_data=target,
        )


@dataclass(frozen=True)
class SliceCheck:
    """A check of every slice of the datasets it applies to.

    Attributes:
        judge: Returns the result of the check for a receipt.
        applies_to: Returns whether a dataset has the check.
        error: The class of errors that fail this check when a slice cannot be stored.
    """

    name: str
    doc: str
    judge: Callable[[Dataset, Receipt], Judgement]
    applies_to: Callable[[Dataset], bool] = lambda _: True
    error: type[SellerPlatformError] | None = None


def _row_count(_: Dataset, receipt: Receipt) -> Judgement:
    announced = "no total was announced" if receipt.announced is None else f"the list announced {receipt.announced}"
    return Judgement(
        receipt.verdict is not CountVerdict.MISMATCH,
        f"{receipt.verdict}: {receipt.rows} rows were stored, {announced}.",
        metadata={"verdict": receipt.verdict.value},
    )


def _held_still(_: Dataset, receipt: Receipt) -> Judgement:
    notes = receipt.notes or {}
    attempts = notes.get("attempts", 1)
    if "moved" in notes:
        before, after = (notes["moved"][name] for name in ("before", "after"))
        return Judgement(
            passed=False,
            description=f"The total changed from {before} to {after} while the parts of the list were read. "
            "The parts add up to a total in between; the next refresh reads the days again.",
            severity=dg.AssetCheckSeverity.WARN,
        )
    again = "" if attempts == 1 else f"; it was read {attempts} times to be sure"
    return Judgement(
        passed=True, description=f"The list did not change while its {receipt.pages} pages were read{again}."
    )


def _keys_are_unique(dataset: Dataset, receipt: Receipt) -> Judgement:
    key = ", ".join(dataset.key)
    duplicates = (receipt.notes or {}).get("duplicate_keys", 0)
    if duplicates:
        return Judgement(
            passed=False,
            description=f"{duplicates} of {receipt.rows} rows share their key ({key}) with another row. They are "
            "stored as they were sent; ask the upstream which of them is right.",
            severity=dg.AssetCheckSeverity.WARN,
            metadata={"duplicate_keys": duplicates},
        )
    return Judgement(passed=True, description=f"No two rows have the same key ({key}).")


def _keys_are_present(dataset: Dataset, receipt: Receipt) -> Judgement:
    key = ", ".join(dataset.key)
    missing = (receipt.notes or {}).get("null_keys")
    if missing is None:
        return Judgement(passed=True, description=f"Every row has its key ({key}).")
    first = "; ".join(
        f"row {each['row']} of page {each['page']} ({', '.join(each['columns'])})" for each in missing["first"]
    )
    more = missing["rows"] - len(missing["first"])
    return Judgement(
        passed=False,
        description=f"{missing['rows']} of {receipt.rows} rows have no value in their key ({key}): {first}"
        f"{f' and {more} more' if more else ''}. They are stored as they were sent; report it to the upstream.",
        metadata={"null_keys": missing["rows"]},
    )


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
    return Judgement(passed=True, description="Every field is declared and has the declared kind.")


def _accounts_are_usable(_: Dataset, receipt: Receipt) -> Judgement:
    unusable = (receipt.notes or {}).get("unusable_accounts", {})
    if not unusable:
        return Judgement(passed=True, description="Every account can be read.")
    named = "; ".join(f"account {key}: {problem}" for key, problem in unusable.items())
    return Judgement(
        passed=False,
        description=f"{len(unusable)} of {receipt.rows} accounts cannot be read: {named}. Correct them at the "
        "upstream; all others are read.",
        metadata={"unusable_accounts": dict(unusable)},
    )


def _restatement_is_small(_: Dataset, receipt: Receipt) -> Judgement:
    if not (receipt.notes or {}).get("was_settled"):
        return Judgement(passed=True, description="The days had not settled, so they may change.")
    changes = {
        name: (Decimal(change["before"]), Decimal(change["after"]))
        for name, change in (receipt.restatement or {}).items()
    }
    if not changes:
        return Judgement(passed=True, description="Nothing changed since the window had settled.")
    percent = {
        name: 100 * abs(after - before) / abs(before) if before else Decimal(100)
        for name, (before, after) in changes.items()
    }
    differences = "; ".join(f"{name} from {before:,} to {after:,}" for name, (before, after) in changes.items())
    if max(percent.values()) <= RESTATEMENT_PERCENT:
        return Judgement(passed=True, description=f"A settled window changed a little: {differences}.")
    return Judgement(
        passed=False,
        description=f"A settled window changed by more than {RESTATEMENT_PERCENT} %: {differences}. The stored rows "
        "are those of the upstream now; reports made from the former rows are outdated.",
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"percent": {name: float(round(value, 2)) for name, value in percent.items()}},
    )


def _reading_is_plausible(_: Dataset, receipt: Receipt) -> Judgement:
    accepted = (receipt.notes or {}).get("accepted")
    if accepted:
        return Judgement(
            passed=True,
            description=f"The reading was held before ({accepted['reason']}), and was accepted by {accepted['by']}. "
            "What it replaced is kept in schema history.",
        )
    return Judgement(passed=True, description="The reading does not contradict the stored rows.")


def _volume_is_expected(_: Dataset, receipt: Receipt) -> Judgement:
    unusual = (receipt.notes or {}).get("unusual_days")
    if not unusual:
        return Judgement(passed=True, description="New days have about as many rows as the same weekdays before.")
    named = "; ".join(f"{day}: {each['rows']} rows, about {each['expected']} expected" for day, each in unusual.items())
    return Judgement(
        passed=False,
        description=f"Some days have far fewer or more rows than the same weekdays of the eight weeks before: {named}. "
        "The next refresh reads them again; if the numbers stay, compare with the upstream.",
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"unusual_days": len(unusual)},
    )


SLICE_CHECKS = (
    SliceCheck(ROW_COUNT_CHECK, "The number of stored rows is the total that the list announced.", _row_count),
    SliceCheck(
        "list_held_still",
        "The list did not change while it was read, so that no row is missing between its pages.",
        _held_still,
        applies_to=lambda dataset: dataset.source is Source.LIST,
        error=ListChangedError,
    ),
    SliceCheck(
        "keys_are_present",
        "Every row has a value in each column of its key.",
        _keys_are_present,
        applies_to=lambda dataset: bool(dataset.key) and dataset.source is not Source.REPORT,
    ),
    SliceCheck(
        "keys_are_unique",
        "No two rows have the same key.",
        _keys_are_unique,
        applies_to=lambda dataset: bool(dataset.key),
    ),
    SliceCheck(
        "fields_are_known",
        "The upstream sends the declared fields, with the declared kinds, and no others.",
        _fields_are_known,
        applies_to=lambda dataset: dataset.source is not Source.REPORT,
        error=ContractViolationError,
    ),
    SliceCheck(
        "accounts_are_usable",
        "Every account has a known time zone, and a title or a seller and marketplace that select it.",
        _accounts_are_usable,
        applies_to=lambda dataset: dataset.source is Source.DISCOVERY,
    ),
    SliceCheck(
        "reading_is_plausible",
        "No reading lost more rows or amounts than such data ever loses.",
        _reading_is_plausible,
        applies_to=lambda dataset: dataset.source is not Source.REPORT,
        error=ReadingHeldError,
    ),
    SliceCheck(
        "volume_is_expected",
        "New days have about as many rows as the same weekdays of the account before.",
        _volume_is_expected,
        applies_to=lambda dataset: dataset.is_divisible,
    ),
    SliceCheck(
        "restatement_is_small",
        f"A settled window did not change by more than {RESTATEMENT_PERCENT} % of its rows or amounts.",
        _restatement_is_small,
        applies_to=lambda dataset: dataset.is_dated,
    ),
)


def checks_of(dataset: Dataset) -> tuple[SliceCheck, ...]:
    """Return the checks that apply to a dataset."""
    return tuple(check for check in SLICE_CHECKS if check.applies_to(dataset))


def check_specs(dataset: Dataset, partitions: dg.PartitionsDefinition[str] | None) -> list[dg.AssetCheckSpec]:
    """Return the specs of a dataset's checks."""
    return [
        dg.AssetCheckSpec(check.name, asset=asset_key(dataset), description=check.doc, partitions_def=partitions)
        for check in checks_of(dataset)
    ]


def evaluations(
    instance: dg.DagsterInstance, dataset: Dataset, receipt: Receipt, partition: str | None
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the checks' evaluations of the slice whose materialization was just stored."""
    target = judged(instance, asset_key(dataset), partition)
    for check in checks_of(dataset):
        judgement = check.judge(dataset, receipt)
        metadata = {"load_id": str(receipt.id), **judgement.metadata}
        yield replace(judgement, metadata=metadata).evaluation(asset_key(dataset), check.name, target, partition)


def evaluations_of_connections(
    instance: dg.DagsterInstance,
    dataset: Dataset,
    receipts: Mapping[str, Receipt],
    held: Mapping[str, Receipt],
    *,
    reported_by_run: bool,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the checks' evaluations of a list without partitions, one for all connections together.

    Args:
        receipts: The receipt of the last published load of each connection.
        held: The receipt of each list that is held.
        reported_by_run: The run reports that lists are held.
    """
    target = judged(instance, asset_key(dataset), None)
    for check in checks_of(dataset):
        judges_holds = check.error is ReadingHeldError
        judged_loads = {**receipts, **held} if judges_holds else receipts
        judgements = {
            name: _held(receipt) if receipt.verdict is CountVerdict.HELD else check.judge(dataset, receipt)
            for name, receipt in sorted(judged_loads.items())
        }
        failed = {name: judgement for name, judgement in judgements.items() if not judgement.passed}
        reported = failed or judgements
        is_error = any(judgement.severity is dg.AssetCheckSeverity.ERROR for judgement in reported.values())
        together = Judgement(
            not failed,
            " ".join(f"Connection {name}: {judgement.description}" for name, judgement in reported.items()),
            dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
            {name: {"load_id": str(judged_loads[name].id), **each.metadata} for name, each in reported.items()}
            | ({REPORTED_BY_RUN: True} if judges_holds and held and reported_by_run else {}),
        )
        yield together.evaluation(asset_key(dataset), check.name, target)


def _held(receipt: Receipt) -> Judgement:
    return Judgement(passed=False, description=str(held_error(receipt)))


def evaluations_of_hold(
    instance: dg.DagsterInstance,
    dataset: Dataset,
    error: ReadingHeldError,
    published: Receipt | None,
    partition: str | None,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the evaluations of a partition whose reading is held.

    The check of the hold fails. The others judge the stored rows again, which stay.

    Args:
        published: The receipt of the stored rows.
    """
    target = judged(instance, asset_key(dataset), partition)
    for check in checks_of(dataset):
        if check.error is ReadingHeldError:
            metadata = {"load_id": str(error.load_id), REPORTED_BY_RUN: True}
            judgement = Judgement(passed=False, description=str(error), metadata=metadata)
        elif published is None:
            continue
        else:
            judgement = check.judge(dataset, published)
        yield judgement.evaluation(asset_key(dataset), check.name, target, partition)


def evaluations_of_failure(
    dataset: Dataset, error: SellerPlatformError, partition: str | None, target: JudgedMaterialization | None = None
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the failed evaluation of the check to which an error belongs, if any."""
    for check in checks_of(dataset):
        if check.error is not None and isinstance(error, check.error):
            judgement = Judgement(passed=False, description=str(error))
            yield judgement.evaluation(asset_key(dataset), check.name, target, partition)
