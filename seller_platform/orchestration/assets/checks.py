"""The checks of datasets: rules over all slices that are stored now, evaluated by two statements for an asset.

A check has no partitions: its evaluation says how many slices break its rule, and lists the first hundred with the
reason and the next step. A slice that could not be loaded breaks the rule of its error, if one has it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

import dagster as dg

from seller_platform.commands import runnable
from seller_platform.contract import Dataset, Slicing, Source
from seller_platform.counts import count_of
from seller_platform.errors import ContractViolationError, ListChangedError, ReadingHeldError, SellerPlatformError
from seller_platform.orchestration.assets.events import ROW_COUNT_CHECK, JudgedMaterialization
from seller_platform.orchestration.tags import REPORTED_BY_RUN
from seller_platform.warehouse.connections.accounts import account_titles
from seller_platform.warehouse.loads.slices import Receipt, held_error
from seller_platform.warehouse.monitoring.doubtful_slices import DoubtfulSlice, checked_slices
from seller_platform.warehouse.monitoring.repeated_ledgers import LEDGER, RepeatedLedger, repeated_ledgers
from seller_platform.warehouse.postgres.database import Database

# A settled month may still be corrected by a few rows; a larger share than this is reported.
RESTATEMENT_PERCENT = Decimal(1)

_LINES_SHOWN = 100
_COLUMNS = ("account", "title", "month", "stored", "announced", "since", "reason", "next step")
_TABLE = dg.TableSchema([dg.TableColumn(name) for name in _COLUMNS])
_WARN, _ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR


@dataclass(frozen=True)
class Judgement:
    """The result of a check."""

    passed: bool
    description: str
    severity: dg.AssetCheckSeverity = _ERROR
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
class Breach:
    """A slice that breaks a rule.

    Attributes:
        step: What to do about it in the UI.
        load: The load that shows it, if there is one.
        is_of_run: Whether the run that could not load the slice reports it.
    """

    reason: str
    step: str
    severity: dg.AssetCheckSeverity = _ERROR
    load: Receipt | None = None
    since: datetime | None = None
    is_of_run: bool = False


@dataclass(frozen=True)
class SliceRule:
    """A check of all slices of the datasets it applies to.

    Attributes:
        breaches: Yields why a slice breaks the rule, apart from errors; None of the rule that compares ledgers.
        applies_to: Returns whether a dataset has the check.
        error: The class of errors that break the rule when a slice cannot be loaded.
    """

    name: str
    doc: str
    breaches: Callable[[Dataset, DoubtfulSlice], Iterator[Breach]] | None
    applies_to: Callable[[Dataset], bool] = lambda _: True
    error: type[SellerPlatformError] | None = None

    def breach(self, dataset: Dataset, slice_: DoubtfulSlice) -> Breach | None:
        """Return the first reason why a slice breaks the rule; None if it does not."""
        if self.breaches is None:
            return None
        return next(self.breaches(dataset, slice_), self._of_error(slice_))

    def _of_error(self, slice_: DoubtfulSlice) -> Breach | None:
        if self.error is ReadingHeldError and slice_.holds:
            held = slice_.holds[-1]
            step = f"Compare with the upstream, then launch the job accept_held with {held.id}, or wait for a refresh."
            return Breach(
                str(held_error(held)), step, load=held, since=held.started_at, is_of_run=held.run_id is not None
            )
        if self.error is None or slice_.error not in {self.error.__name__, *_names_of_subclasses(self.error)}:
            return None
        step = "Follow the reason, then materialize the partition."
        is_of_run = slice_.failed_run_id is not None
        return Breach(slice_.message or "", step, since=slice_.failed_since, is_of_run=is_of_run)


def _names_of_subclasses(error: type[SellerPlatformError]) -> Iterator[str]:
    for each in error.__subclasses__():
        yield each.__name__
        yield from _names_of_subclasses(each)


def _row_count(_: Dataset, slice_: DoubtfulSlice) -> Iterator[Breach]:
    if slice_.recounted_rows is not None:
        reason = (
            f"{count_of(slice_.recounted_rows, 'row', 'is')} stored, but its loads stored {slice_.rows}: the table was "
            "changed by another program"
        )
        yield Breach(reason, "Materialize the partition; that stores what is listed.")
    for load in slice_.mismatches:
        reason = f"{count_of(load.rows, 'row', 'was')} stored of {load.window}, the list announced {load.announced}"
        yield Breach(reason, "Materialize the partition; if it stays, report it to the upstream.", load=load)


def _held_still(_: Dataset, slice_: DoubtfulSlice) -> Iterator[Breach]:
    for load, moved in _notes(slice_, "moved"):
        reason = (
            f"the total changed from {moved['before']} to {moved['after']} while the parts of the list were read; they "
            "add up to a total in between"
        )
        yield Breach(reason, "The next refresh reads the days again.", _WARN, load)


def _keys_are_unique(dataset: Dataset, slice_: DoubtfulSlice) -> Iterator[Breach]:
    for load, duplicates in _notes(slice_, "duplicate_keys"):
        reason = (
            f"{duplicates} of {count_of(load.rows, 'row', 'shares')} their key ({', '.join(dataset.key)}) with another "
            "row; they are stored as they were sent"
        )
        yield Breach(reason, "Ask the upstream which of them is right.", _WARN, load)


def _keys_are_present(dataset: Dataset, slice_: DoubtfulSlice) -> Iterator[Breach]:
    for load, noted in _notes(slice_, "null_keys"):
        reason = (
            f"{noted['rows']} of {count_of(load.rows, 'row', 'has')} no value in their key ({', '.join(dataset.key)}): "
            f"{_rows_named(noted)}; they are stored as they were sent"
        )
        yield Breach(reason, "Report it to the upstream.", load=load)


def _text_is_as_sent(_: Dataset, slice_: DoubtfulSlice) -> Iterator[Breach]:
    for load, noted in _notes(slice_, "replaced_text"):
        reason = (
            f"{noted['rows']} of {count_of(load.rows, 'row', 'has')} text that PostgreSQL does not store (NUL, half of "
            f"a surrogate pair, or bytes that are no UTF-8): {_rows_named(noted)}; U+FFFD is stored in its place"
        )
        yield Breach(reason, "Report it to the upstream.", _WARN, load)


def _rows_named(noted: Mapping[str, Any]) -> str:
    first = "; ".join(
        f"row {each['row']} of page {each['page']} ({', '.join(each['columns'])})" for each in noted["first"]
    )
    more = noted["rows"] - len(noted["first"])
    return f"{first}{f' and {more} more' if more else ''}"


def _fields_are_known(dataset: Dataset, slice_: DoubtfulSlice) -> Iterator[Breach]:
    for load, unknown in _notes(slice_, "unknown_fields"):
        reason = (
            f"the upstream sent fields that are not declared: {', '.join(unknown)}; their values are kept in the "
            f"column `extra` of {dataset.table}"
        )
        yield Breach(reason, "Declare them to have columns of their own.", _WARN, load)


def _accounts_are_usable(_: Dataset, slice_: DoubtfulSlice) -> Iterator[Breach]:
    for load, unusable in _notes(slice_, "unusable_accounts"):
        named = "; ".join(f"account {key}: {problem}" for key, problem in unusable.items())
        reason = f"{len(unusable)} of {count_of(load.rows, 'account')} cannot be read: {named}; all others are read"
        yield Breach(reason, "Correct them at the upstream.", load=load)


def _accounts_keep_their_days(_: Dataset, slice_: DoubtfulSlice) -> Iterator[Breach]:
    for load, moved in _notes(slice_, "moved_accounts"):
        named = "; ".join(f"account {key}: {change}" for key, change in moved.items())
        reason = (
            f"{count_of(len(moved), 'account')} changed the time zone or the currency: {named}; rows at the borders of "
            "days and months are missing or twice"
        )
        yield Breach(reason, "Wait: refreshes read their rows again.", _WARN, load)


def _volume_is_expected(_: Dataset, slice_: DoubtfulSlice) -> Iterator[Breach]:
    for load, unusual in _notes(slice_, "unusual_days"):
        named = "; ".join(
            f"{day}: {count_of(each['rows'], 'row')}, about {each['expected']} expected"
            for day, each in unusual.items()
        )
        reason = f"days have far fewer or more rows than the same weekdays of the eight weeks before: {named}"
        step = "The next refresh reads them again; if the numbers stay, compare with the upstream."
        yield Breach(reason, step, _WARN, load)


def _restatement_is_small(_: Dataset, slice_: DoubtfulSlice) -> Iterator[Breach]:
    for load, _was_settled in _notes(slice_, "was_settled"):
        changes = {
            name: (Decimal(change["before"]), Decimal(change["after"]))
            for name, change in (load.restatement or {}).items()
        }
        percent = [
            100 * abs(after - before) / abs(before) if before else Decimal(100) for before, after in changes.values()
        ]
        if max(percent, default=Decimal(0)) > RESTATEMENT_PERCENT:
            differences = "; ".join(f"{name} from {before:,} to {after:,}" for name, (before, after) in changes.items())
            reason = f"a settled window changed by more than {RESTATEMENT_PERCENT} %: {differences}"
            step = "Make reports again that were made from the former rows; the stored ones are those of the upstream."
            yield Breach(reason, step, _WARN, load)


def _notes(slice_: DoubtfulSlice, name: str) -> Iterator[tuple[Receipt, Any]]:
    """Yield the loads of a slice that have a note, newest first, with the note."""
    for load in reversed(slice_.noted):
        note = (load.notes or {}).get(name)
        if note:
            yield load, note


def _no_breaches(_: Dataset, __: DoubtfulSlice) -> Iterator[Breach]:
    return iter(())


LEDGERS_DO_NOT_REPEAT = SliceRule(
    "ledgers_do_not_repeat",
    "No other account of the seller has the same entries, which sums over accounts would count several times.",
    breaches=None,
    applies_to=lambda dataset: dataset == LEDGER,
)

RULES = (
    SliceRule(ROW_COUNT_CHECK, "The number of stored rows is the total that the list announced.", _row_count),
    SliceRule(
        "list_held_still",
        "The list did not change while it was read, so that no row is missing between its pages.",
        _held_still,
        applies_to=lambda dataset: dataset.source is Source.LIST,
        error=ListChangedError,
    ),
    SliceRule(
        "keys_are_present",
        "Every row has a value in each column of its key.",
        _keys_are_present,
        applies_to=lambda dataset: bool(dataset.key) and dataset.source is not Source.REPORT,
    ),
    SliceRule(
        "keys_are_unique",
        "No two rows have the same key.",
        _keys_are_unique,
        applies_to=lambda dataset: bool(dataset.key),
    ),
    SliceRule(
        "fields_are_known",
        "The upstream sends the declared fields, with the declared kinds, and no others.",
        _fields_are_known,
        applies_to=lambda dataset: dataset.source is not Source.REPORT,
        error=ContractViolationError,
    ),
    SliceRule(
        "text_is_as_sent",
        "Every text is stored as it was sent, for PostgreSQL stores all of its characters.",
        _text_is_as_sent,
    ),
    SliceRule(
        "accounts_are_usable",
        "Every account has a known time zone, and a title or a seller and marketplace that select it.",
        _accounts_are_usable,
        applies_to=lambda dataset: dataset.source is Source.DISCOVERY,
    ),
    SliceRule(
        "accounts_keep_their_days",
        "No account has rows that were read under a former time zone or currency.",
        _accounts_keep_their_days,
        applies_to=lambda dataset: dataset.source is Source.DISCOVERY,
    ),
    SliceRule(
        "reading_is_plausible",
        "No day of a reading contradicts the stored rows.",
        _no_breaches,
        applies_to=lambda dataset: dataset.source is not Source.REPORT,
        error=ReadingHeldError,
    ),
    SliceRule(
        "volume_is_expected",
        "New days have about as many rows as the same weekdays of the account before.",
        _volume_is_expected,
        applies_to=lambda dataset: dataset.is_divisible,
    ),
    SliceRule(
        "restatement_is_small",
        f"A settled window did not change by more than {RESTATEMENT_PERCENT} % of its rows or amounts.",
        _restatement_is_small,
        applies_to=lambda dataset: dataset.is_dated,
    ),
    LEDGERS_DO_NOT_REPEAT,
)


def checks_of(dataset: Dataset) -> tuple[SliceRule, ...]:
    """Return the checks that apply to a dataset."""
    return tuple(rule for rule in RULES if rule.applies_to(dataset))


def judgements(
    database: Database, dataset: Dataset, keys: Collection[str] | None = None
) -> Iterator[tuple[str, Judgement]]:
    """Yield the name and the result of each check of a dataset, over its slices as they are now.

    Args:
        keys: Of the accounts, or of the list of accounts the names of the connections; None for all.
    """
    slices = checked_slices(database, dataset, keys)
    noun = "list" if dataset.slicing is Slicing.CONNECTION else "slice"
    for rule in checks_of(dataset):
        if rule is LEDGERS_DO_NOT_REPEAT:
            broken = _repeated(database, keys)
        else:
            of_slices = ((each, rule.breach(dataset, each)) for each in slices.doubtful)
            broken = [(_cells(each, breach), breach) for each, breach in of_slices if breach is not None]
        numbers = {"slices": slices.count, "rows": slices.rows, "failed_slices": len(broken)}
        yield rule.name, judgement_of(rule.doc, count_of(slices.count, noun), broken, numbers)


Broken = Sequence[tuple[Mapping[str, str], Breach]]
"""What breaks a rule: the cells of its line that name it, and why."""


def judgement_of(doc: str, checked: str, broken: Broken, numbers: Mapping[str, int | float]) -> Judgement:
    """Return the result of a rule over everything it was applied to.

    Args:
        doc: The sentence that is true where the rule is kept.
        checked: What was checked, such as `36,000 slices`.
    """
    if not broken:
        return Judgement(True, f"{doc} That is true of {checked}.", metadata=numbers)
    lines = [
        {**dict.fromkeys(_COLUMNS, ""), **cells, "reason": breach.reason, "next step": runnable(breach.step)}
        for cells, breach in broken[:_LINES_SHOWN]
    ]
    cells, first = broken[0]
    named = ", ".join(dict.fromkeys(filter(None, (cells.get("title"), cells.get("account"), cells.get("month")))))
    return Judgement(
        passed=False,
        description=f"{len(broken):,} of {checked} {'breaks' if len(broken) == 1 else 'break'} this rule: {doc} "
        f"{'It is' if len(broken) == 1 else 'The first is'} {named}: {first.reason.rstrip('.')}. {first.step}",
        severity=_ERROR if any(breach.severity is _ERROR for _, breach in broken) else _WARN,
        metadata={
            **numbers,
            "failing": dg.MetadataValue.table([dg.TableRecord(line) for line in lines], _TABLE),
            "not_listed": len(broken) - len(lines),
            **({REPORTED_BY_RUN: True} if all(breach.is_of_run for _, breach in broken) else {}),
        },
    )


def _cells(slice_: DoubtfulSlice, breach: Breach) -> dict[str, str]:
    load = breach.load
    since = breach.since or (load and load.started_at) or slice_.read_at
    stored = slice_.rows if slice_.recounted_rows is None else slice_.recounted_rows
    return {
        "account": slice_.account,
        "title": slice_.title,
        "month": f"{slice_.month:%Y-%m}" if slice_.month else "",
        "stored": str(stored),
        "announced": "" if load is None or load.announced is None else str(load.announced),
        "since": f"{since:%Y-%m-%d %H:%M} UTC" if since else "",
    }


def _repeated(database: Database, keys: Collection[str] | None) -> Broken:
    """Return the months whose ledgers other accounts have, too."""
    broken, titles = [], account_titles(database)
    for (account, month), of_month in groupby(repeated_ledgers(database), lambda each: (each.account, each.month)):
        if keys is None or account in keys:
            cells = {"account": account, "title": titles.get(account, ""), "month": f"{month:%Y-%m}"}
            broken.append((cells, _breach_of(list(of_month))))
    return broken


def _breach_of(repeated: Sequence[RepeatedLedger]) -> Breach:
    first, more = max(repeated, key=lambda each: each.rows), len(repeated) - 1
    others = f" and of {count_of(more, 'other account')}" if more else ""
    reason = (
        f"{first.rows:,} of {count_of(first.compared, 'row')} with an order ({100 * first.share:.1f} %) are also in "
        f"the ledger of account {first.other}{others}: sums over these accounts count {first.amounts_named} twice"
    )
    step = "Sum up only one of the accounts, and ask the upstream why it answers the same transactions for both."
    return Breach(reason, step, _WARN)
