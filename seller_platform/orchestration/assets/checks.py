"""The checks of every loaded slice, evaluated from its receipt or from its error.

Each check of a dataset is evaluated for each partition. A slice that could not be stored fails the check of its
error, which then gives the reason. One check compares accounts: it is evaluated after all slices of a run.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from types import MappingProxyType
from typing import Any

import dagster as dg

from seller_platform.commands import runnable
from seller_platform.contract import Dataset, Source
from seller_platform.contract.loads import CountVerdict
from seller_platform.counts import count_of
from seller_platform.errors import ContractViolationError, ListChangedError, ReadingHeldError, SellerPlatformError
from seller_platform.orchestration.assets.events import ROW_COUNT_CHECK, JudgedMaterialization, judged
from seller_platform.orchestration.instance.held_evaluations import stored_together
from seller_platform.orchestration.partitions import asset_key, partition_key, read_partition_key
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.tags import REPORTED_BY_RUN
from seller_platform.warehouse.loads.recounts import RowCounts
from seller_platform.warehouse.loads.slices import Receipt, held_error
from seller_platform.warehouse.monitoring.repeated_ledgers import (
    LEDGER,
    RepeatedLedger,
    compare_ledgers,
    repeated_by_part,
)
from seller_platform.warehouse.postgres.database import Database

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
            description=runnable(self.description),
            metadata={
                name: dg.MetadataValue.null() if value is None else value for name, value in self.metadata.items()
            },
            target_materialization_data=target,
        )


@dataclass(frozen=True)
class SliceCheck:
    """A check of every slice of the datasets it applies to.

    Attributes:
        judge: Returns the result of the check for a receipt and the rows that are stored of it; None where these do
            not say it.
        applies_to: Returns whether a dataset has the check.
        error: The class of errors that fail this check when a slice cannot be stored.
    """

    name: str
    doc: str
    judge: Callable[[Dataset, Receipt, RowCounts], Judgement] | None
    applies_to: Callable[[Dataset], bool] = lambda _: True
    error: type[SellerPlatformError] | None = None


def _row_count(_: Dataset, receipt: Receipt, stored: RowCounts) -> Judgement:
    announced = "no total was announced" if receipt.announced is None else f"the list announced {receipt.announced}"
    lost = stored.rows - receipt.rows
    description = f"{receipt.verdict}: {count_of(stored.rows, 'row', 'was')} stored, {announced}."
    if lost:
        description = (
            f"{count_of(stored.rows, 'row', 'is')} stored of {receipt.window}, but its load {receipt.id} stored "
            f"{receipt.rows}. "
            "The table was changed by another program. Load the partition again; that stores what is listed."
        )
    return Judgement(
        receipt.verdict is not CountVerdict.MISMATCH and not lost,
        description,
        metadata={
            "verdict": receipt.verdict.value,
            "rows": stored.rows,
            "announced": receipt.announced,
            "difference": stored.rows - (receipt.rows if receipt.announced is None else receipt.announced),
        },
    )


def _held_still(_: Dataset, receipt: Receipt, __: RowCounts) -> Judgement:
    notes = receipt.notes or {}
    attempts = notes.get("attempts", 1)
    if "moved" in notes:
        before, after = (notes["moved"][name] for name in ("before", "after"))
        return Judgement(
            passed=False,
            description=f"The total changed from {before} to {after} while the parts of the list were read. "
            "The parts add up to a total in between; the next refresh reads the days again.",
            severity=dg.AssetCheckSeverity.WARN,
            metadata={"attempts": attempts, "pages": receipt.pages},
        )
    again = "" if attempts == 1 else f"; it was read {attempts} times to be sure"
    return Judgement(
        passed=True,
        description=f"The list did not change while its {count_of(receipt.pages, 'page', 'was')} read{again}.",
        metadata={"attempts": attempts, "pages": receipt.pages},
    )


def _keys_are_unique(dataset: Dataset, _: Receipt, stored: RowCounts) -> Judgement:
    key = ", ".join(dataset.key)
    metadata = {"duplicate_keys": stored.duplicate_keys, "rows": stored.rows}
    if stored.duplicate_keys:
        return Judgement(
            passed=False,
            description=f"{stored.duplicate_keys} of {count_of(stored.rows, 'row', 'shares')} their key ({key}) with "
            "another row. They "
            "are stored as they were sent; ask the upstream which of them is right.",
            severity=dg.AssetCheckSeverity.WARN,
            metadata=metadata,
        )
    return Judgement(passed=True, description=f"No two rows have the same key ({key}).", metadata=metadata)


def _keys_are_present(dataset: Dataset, receipt: Receipt, stored: RowCounts) -> Judgement:
    key = ", ".join(dataset.key)
    metadata = {"missing_keys": stored.missing_keys, "rows": stored.rows}
    if not stored.missing_keys:
        return Judgement(passed=True, description=f"Every row has its key ({key}).", metadata=metadata)
    lacking = f"{stored.missing_keys} of {count_of(stored.rows, 'row', 'has')} no value in their key ({key})"
    noted = (receipt.notes or {}).get("null_keys", {"rows": 0, "first": ()})
    if stored.missing_keys != noted["rows"]:
        description = (
            f"{lacking}; {noted['rows']} had none when load {receipt.id} stored them. The table was changed by another "
            "program. Load the partition again."
        )
        return Judgement(passed=False, description=description, metadata=metadata)
    return Judgement(
        passed=False,
        description=f"{lacking}: {_rows_named(noted)}. They are stored as they were sent; report it to the upstream.",
        metadata=metadata,
    )


def _rows_named(noted: Mapping[str, Any]) -> str:
    first = "; ".join(
        f"row {each['row']} of page {each['page']} ({', '.join(each['columns'])})" for each in noted["first"]
    )
    more = noted["rows"] - len(noted["first"])
    return f"{first}{f' and {more} more' if more else ''}"


def _text_is_as_sent(_: Dataset, receipt: Receipt, __: RowCounts) -> Judgement:
    noted = (receipt.notes or {}).get("replaced_text", {"rows": 0, "first": ()})
    metadata = {"replaced_text": noted["rows"], "rows": receipt.rows}
    if not noted["rows"]:
        return Judgement(passed=True, description="Every text is stored as it was sent.", metadata=metadata)
    return Judgement(
        passed=False,
        description=f"{noted['rows']} of {count_of(receipt.rows, 'row', 'has')} text in {receipt.dataset} of "
        f"{receipt.account}, {receipt.window}, that PostgreSQL does not store (NUL, half of a surrogate pair, or bytes "
        f"that are no UTF-8): {_rows_named(noted)}. U+FFFD is stored in its place; report it to the upstream.",
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


def _fields_are_known(dataset: Dataset, receipt: Receipt, _: RowCounts) -> Judgement:
    unknown = (receipt.notes or {}).get("unknown_fields", [])
    metadata = {"unknown": len(unknown), "unknown_fields": list(unknown)}
    if unknown:
        return Judgement(
            passed=False,
            description=f"The upstream sent fields that are not declared: {', '.join(unknown)}. Their values are kept "
            f"in the column `extra` of {dataset.table}; declare them to have columns of their own.",
            severity=dg.AssetCheckSeverity.WARN,
            metadata=metadata,
        )
    return Judgement(passed=True, description="Every field is declared and has the declared kind.", metadata=metadata)


def _accounts_are_usable(_: Dataset, receipt: Receipt, __: RowCounts) -> Judgement:
    unusable = (receipt.notes or {}).get("unusable_accounts", {})
    metadata = {"unusable": len(unusable), "accounts": receipt.rows, "unusable_accounts": dict(unusable)}
    if not unusable:
        return Judgement(passed=True, description="Every account can be read.", metadata=metadata)
    named = "; ".join(f"account {key}: {problem}" for key, problem in unusable.items())
    return Judgement(
        passed=False,
        description=f"{len(unusable)} of {count_of(receipt.rows, 'account')} cannot be read: {named}. Correct them at "
        "the "
        "upstream; all others are read.",
        metadata=metadata,
    )


def _accounts_keep_their_days(_: Dataset, receipt: Receipt, __: RowCounts) -> Judgement:
    moved = (receipt.notes or {}).get("moved_accounts", {})
    metadata = {"moved": len(moved), "moved_accounts": dict(moved)}
    if not moved:
        return Judgement(
            passed=True, description="All rows are of the present zones and currencies.", metadata=metadata
        )
    named = "; ".join(f"account {key}: {change}" for key, change in moved.items())
    return Judgement(
        passed=False,
        description=f"{count_of(len(moved), 'account')} changed the time zone or the currency: {named}. Refreshes read "
        "their rows again; until then rows at the borders of days and months are missing or twice.",
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


def _restatement_is_small(_: Dataset, receipt: Receipt, __: RowCounts) -> Judgement:
    def judgement(description: str, percent: Mapping[str, Decimal], *, passed: bool = True) -> Judgement:
        most = max(percent.values(), default=Decimal(0))
        by_sum = {name: float(round(value, 2)) for name, value in percent.items()}
        metadata = {"largest_percent": float(round(most, 2)), "percent": by_sum}
        return Judgement(passed, description, dg.AssetCheckSeverity.WARN, metadata)

    if not (receipt.notes or {}).get("was_settled"):
        return judgement("The days had not settled, so they may change.", {})
    changes = {
        name: (Decimal(change["before"]), Decimal(change["after"]))
        for name, change in (receipt.restatement or {}).items()
    }
    if not changes:
        return judgement("Nothing changed since the window had settled.", {})
    percent = {
        name: 100 * abs(after - before) / abs(before) if before else Decimal(100)
        for name, (before, after) in changes.items()
    }
    differences = "; ".join(f"{name} from {before:,} to {after:,}" for name, (before, after) in changes.items())
    if max(percent.values()) <= RESTATEMENT_PERCENT:
        return judgement(f"A settled window changed a little: {differences}.", percent)
    return judgement(
        f"A settled window changed by more than {RESTATEMENT_PERCENT} %: {differences}. The stored rows "
        "are those of the upstream now; reports made from the former rows are outdated.",
        percent,
        passed=False,
    )


def _reading_is_plausible(_: Dataset, receipt: Receipt, stored: RowCounts) -> Judgement:
    accepted = (receipt.notes or {}).get("accepted")
    description = "The reading does not contradict the stored rows."
    if accepted:
        description = (
            f"The reading was held before ({accepted['reason']}), and was accepted by {accepted['by']}. "
            "What it replaced is kept in schema history."
        )
    return Judgement(passed=True, description=description, metadata={"rows_stored": stored.rows, "held": 0})


def _volume_is_expected(_: Dataset, receipt: Receipt, __: RowCounts) -> Judgement:
    unusual = (receipt.notes or {}).get("unusual_days") or {}
    metadata = {"unusual_days": len(unusual)}
    if not unusual:
        return Judgement(
            passed=True,
            description="New days have about as many rows as the same weekdays before.",
            metadata=metadata,
        )
    named = "; ".join(
        f"{day}: {count_of(each['rows'], 'row')}, about {each['expected']} expected" for day, each in unusual.items()
    )
    return Judgement(
        passed=False,
        description=f"Some days have far fewer or more rows than the same weekdays of the eight weeks before: {named}. "
        "The next refresh reads them again; if the numbers stay, compare with the upstream.",
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


LEDGERS_DO_NOT_REPEAT = SliceCheck(
    "ledgers_do_not_repeat",
    "No other account of the seller has the same entries, which sums over accounts would count several times.",
    judge=None,
    applies_to=lambda dataset: dataset == LEDGER,
)

SLICE_CHECKS = (
    SliceCheck(
        ROW_COUNT_CHECK,
        "The number of stored rows is the total that the list announced.",
        _row_count,
    ),
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
        "text_is_as_sent",
        "Every text is stored as it was sent, for PostgreSQL stores all of its characters.",
        _text_is_as_sent,
    ),
    SliceCheck(
        "accounts_are_usable",
        "Every account has a known time zone, and a title or a seller and marketplace that select it.",
        _accounts_are_usable,
        applies_to=lambda dataset: dataset.source is Source.DISCOVERY,
    ),
    SliceCheck(
        "accounts_keep_their_days",
        "No account has rows that were read under a former time zone or currency.",
        _accounts_keep_their_days,
        applies_to=lambda dataset: dataset.source is Source.DISCOVERY,
    ),
    SliceCheck(
        "reading_is_plausible",
        "No day of a reading contradicts the stored rows.",
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
    LEDGERS_DO_NOT_REPEAT,
)


def checks_of(dataset: Dataset) -> tuple[SliceCheck, ...]:
    """Return the checks that apply to a dataset."""
    return tuple(check for check in SLICE_CHECKS if check.applies_to(dataset))


def check_specs(
    dataset: Dataset, partitions: dg.PartitionsDefinition[str] | None, placement: Placement = WHOLE
) -> list[dg.AssetCheckSpec]:
    """Return the specs of a dataset's checks."""
    return [
        dg.AssetCheckSpec(
            check.name,
            asset=placement.asset_key(dataset),
            description=check.doc,
            partitions_def=partitions,
        )
        for check in checks_of(dataset)
    ]


def judgements(
    dataset: Dataset, receipt: Receipt, stored: RowCounts | None = None
) -> Iterator[tuple[SliceCheck, Judgement]]:
    """Yield the result of each check that the receipt of a slice decides.

    Args:
        stored: The rows that are stored now; None for those that the load stored.
    """
    rows = stored or RowCounts.of(receipt)
    for check in checks_of(dataset):
        if check.judge is None:
            continue
        judgement = check.judge(dataset, receipt, rows)
        yield check, replace(judgement, metadata={"load_id": str(receipt.id), **judgement.metadata})


def evaluations(
    instance: dg.DagsterInstance, dataset: Dataset, receipt: Receipt, partition: str | None
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the checks' evaluations of the slice whose materialization was just stored."""
    target = judged(instance, asset_key(dataset), partition)
    with stored_together(instance):
        for check, judgement in judgements(dataset, receipt):
            yield judgement.evaluation(asset_key(dataset), check.name, target, partition)


def judgement_of_repeats(repeated: Sequence[RepeatedLedger]) -> Judgement:
    """Return the result of the check that compares the accounts of a seller.

    Args:
        repeated: The accounts that have entries of the partition, too.
    """
    if not repeated:
        return Judgement(
            passed=True,
            description="No other account of the seller has these entries.",
            severity=dg.AssetCheckSeverity.WARN,
            metadata={"repeated_rows": 0},
        )
    first, more = max(repeated, key=lambda each: each.rows), len(repeated) - 1
    others = f" and of {count_of(more, 'other account')}" if more else ""
    return Judgement(
        passed=False,
        description=f"{first.rows:,} of {count_of(first.compared, 'row')} with an order of account {first.account} "
        f"in {first.month:%Y-%m} ({100 * first.share:.1f} %) are also in the ledger of account {first.other}{others}: "
        f"sums over these accounts count {first.amounts_named} twice. Sum up only one of the accounts, and ask the "
        "upstream why it answers the same transactions for both.",
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "repeated_rows": first.rows,
            "repeated_percent": float(round(100 * first.share, 1)),
            "others": {each.other: each.rows for each in repeated},
            "amounts": {currency: str(amount) for currency, amount in first.amounts.items()},
        },
    )


def evaluations_of_repeats(
    instance: dg.DagsterInstance, database: Database, loaded: Mapping[str, Receipt]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the evaluations of the check that compares accounts, after the slices of a run were loaded.

    Months are compared if their rows have changed, or one of the same seller. The other accounts that have, or had, the
    same entries are evaluated, too.

    Args:
        loaded: The receipts, by partition.
    """
    parts = [read_partition_key(key) for key in loaded]
    changed = [read_partition_key(key) for key, receipt in loaded.items() if receipt.changed]
    before = repeated_by_part(database, changed)
    compare_ledgers(database, changed)
    after = repeated_by_part(database, parts)
    others = {
        partition_key(each.other, month)
        for (_, month), repeats in chain(before.items(), ((part, after.get(part, ())) for part in changed))
        for each in repeats
    } - loaded.keys()
    repeats = after | repeated_by_part(database, [read_partition_key(key) for key in others])
    targets = {key: judged(instance, asset_key(LEDGER), key) for key in (*loaded, *sorted(others))}
    with stored_together(instance):
        for key, target in targets.items():
            judgement = judgement_of_repeats(repeats.get(read_partition_key(key), ()))
            yield judgement.evaluation(asset_key(LEDGER), LEDGERS_DO_NOT_REPEAT.name, target, key)


def together(of_parts: Mapping[str, Judgement], part: str) -> Judgement:
    """Return one result for several parts of a partition, in which numbers are sums.

    Args:
        part: What a part is, as the description names it.
    """
    if len(of_parts) == 1 and not part:
        return next(iter(of_parts.values()))
    failed = {name: judgement for name, judgement in of_parts.items() if not judgement.passed}
    reported = failed or of_parts
    is_error = any(judgement.severity is dg.AssetCheckSeverity.ERROR for judgement in reported.values())
    sums: Counter[str] = Counter()
    for judgement in of_parts.values():
        sums.update({name: value for name, value in judgement.metadata.items() if isinstance(value, int | float)})
    return Judgement(
        not failed,
        " ".join(f"{part} {name}: {judgement.description}".strip() for name, judgement in reported.items()),
        dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
        {**{name: dict(each.metadata) for name, each in reported.items()}, **sums},
    )


def evaluations_of_connections(
    instance: dg.DagsterInstance,
    dataset: Dataset,
    receipts: Mapping[str, Receipt],
    held: Mapping[str, Receipt],
    *,
    reported_by_run: bool,
    stored: Mapping[str, RowCounts] = MappingProxyType({}),
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the checks' evaluations of a list without partitions, one for all connections together.

    Args:
        receipts: The receipt of the last published load of each connection.
        held: The receipt of each list that is held.
        reported_by_run: The run reports that lists are held.
        stored: The rows that are stored now; by default those that the loads stored.
    """
    target = judged(instance, asset_key(dataset), None)
    of_connections = {
        name: dict(judgements(dataset, receipt, stored.get(name))) for name, receipt in sorted(receipts.items())
    }
    for check in checks_of(dataset):
        of_check = {name: of_checks[check] for name, of_checks in of_connections.items()}
        if check.error is ReadingHeldError:
            of_check |= {name: judgement_of_hold(held_error(receipt), receipt) for name, receipt in held.items()}
        if not of_check:
            continue
        judgement = together(of_check, "Connection")
        if check.error is ReadingHeldError and held and reported_by_run:
            judgement = replace(judgement, metadata={**judgement.metadata, REPORTED_BY_RUN: True})
        yield judgement.evaluation(asset_key(dataset), check.name, target)


def judgement_of_hold(error: ReadingHeldError, receipt: Receipt | None) -> Judgement:
    """Return the failure of the check of a slice whose reading is held.

    Args:
        receipt: The receipt of the stored rows, or of the held reading.
    """
    metadata = {"load_id": str(error.load_id), "rows_stored": None if receipt is None else receipt.rows, "held": 1}
    return Judgement(passed=False, description=str(error), metadata=metadata)


def evaluations_of_failure(
    instance: dg.DagsterInstance,
    dataset: Dataset,
    error: SellerPlatformError,
    published: Receipt | None,
    partition: str | None,
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the evaluations of a partition whose reading is held or could not be stored.

    The check of the error fails. The others judge the stored rows again, which stay; without any they fail, too. The
    check that compares accounts is left to `evaluations_of_repeats`.

    Args:
        published: The receipt of the stored rows.
    """
    target = judged(instance, asset_key(dataset), partition)
    of_stored = {} if published is None else dict(judgements(dataset, published))
    for check in checks_of(dataset):
        if check.error is not None and isinstance(error, check.error):
            judgement = Judgement(passed=False, description=str(error))
            if isinstance(error, ReadingHeldError):
                judgement = judgement_of_hold(error, published)
        elif check in of_stored:
            yield of_stored[check].evaluation(asset_key(dataset), check.name, target, partition)
            continue
        elif published is None:
            reason = f"Not checked, because the partition was not loaded: {error}"
            judgement = Judgement(passed=False, description=reason)
        else:
            continue
        judgement = replace(judgement, metadata={**judgement.metadata, REPORTED_BY_RUN: True})
        yield judgement.evaluation(asset_key(dataset), check.name, target, partition)


def evaluations_of_nothing(
    instance: dg.DagsterInstance, dataset: Dataset, partition: str, reason: str
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the evaluations of a partition of which there is nothing to store: every check passes, with the reason.

    Without them, Dagster shows the checks as failed if another partition of the run fails.
    """
    judgement = Judgement(passed=True, description=f"Nothing is stored: {reason}")
    target = judged(instance, asset_key(dataset), partition)
    with stored_together(instance):
        for check in checks_of(dataset):
            yield judgement.evaluation(asset_key(dataset), check.name, target, partition)
