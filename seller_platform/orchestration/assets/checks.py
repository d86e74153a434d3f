"""The checks of datasets and marts: rules over all slices and partitions that are stored now.

A check has no partitions: its evaluation says how many slices break its rule, and lists the first hundred with the
reason and the next step. A slice that could not be loaded breaks the rule of its error, if one has it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import dagster as dg

from seller_platform.commands import runnable
from seller_platform.contract import Dataset, Slicing, Source
from seller_platform.counts import count_of
from seller_platform.errors import (
    ContractViolationError,
    ListChangedError,
    NotConnectedError,
    ReauthorizationRequiredError,
    RequestRefusedError,
    SellerPlatformError,
    SettingsError,
    TokenRefusedError,
    followed,
)
from seller_platform.orchestration.assets.events import ROW_COUNT_CHECK
from seller_platform.warehouse.marts import Mart
from seller_platform.warehouse.marts.builds import checked_partitions
from seller_platform.warehouse.monitoring.doubtful_slices import DoubtfulSlice, checked_slices
from seller_platform.warehouse.monitoring.repeated_ledgers import LEDGER
from seller_platform.warehouse.postgres.database import Database

_LINES_SHOWN = 100
_COLUMNS = ("account", "title", "month", "stored", "announced", "since", "reason", "next step")
_TABLE = dg.TableSchema([dg.TableColumn(name) for name in _COLUMNS])
_WARN, _ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR


@dataclass(frozen=True)
class Breach:
    """Why something breaks a rule.

    Attributes:
        step: What to do about it in the UI.
    """

    reason: str
    step: str
    severity: dg.AssetCheckSeverity = _ERROR


@dataclass(frozen=True)
class SliceRule:
    """A check of all slices of the datasets it applies to.

    Attributes:
        kinds: What breaks the rule, as kinds of `platform.problems`.
        applies_to: Returns whether a dataset has the check.
        errors: The classes of errors that break the rule when a slice cannot be loaded, or codes of theirs.
    """

    name: str
    doc: str
    kinds: Collection[str]
    applies_to: Callable[[Dataset], bool] = lambda _: True
    errors: Sequence[type[SellerPlatformError] | str] = ()

    def is_broken_by(self, doubt: DoubtfulSlice) -> bool:
        """Return whether what is wrong with a slice breaks the rule."""
        return doubt.kind in self.kinds or doubt.error in {name for each in self.errors for name in _names_of(each)}


def _names_of(error: type[SellerPlatformError] | str) -> Iterator[str]:
    """Yield the names of a class and of those derived from it."""
    if isinstance(error, str):
        yield error
        return
    yield error.__name__
    for each in error.__subclasses__():
        yield from _names_of(each)


RULES = (
    SliceRule(
        ROW_COUNT_CHECK, "The number of stored rows is the total that the list announced.", {"altered", "mismatched"}
    ),
    SliceRule(
        "list_held_still",
        "The list did not change while it was read, so that no row is missing between its pages.",
        {"moved"},
        applies_to=lambda dataset: dataset.source is Source.LIST,
        errors=(ListChangedError,),
    ),
    SliceRule(
        "keys_are_present",
        "Every row has a value in each column of its key.",
        {"keyless"},
        applies_to=lambda dataset: bool(dataset.key) and dataset.source is not Source.REPORT,
    ),
    SliceRule(
        "keys_are_unique",
        "No two rows have the same key.",
        {"duplicated"},
        applies_to=lambda dataset: bool(dataset.key),
    ),
    SliceRule(
        "fields_are_known",
        "The upstream sends the declared fields, with the declared kinds, and no others.",
        {"undeclared"},
        applies_to=lambda dataset: dataset.source is not Source.REPORT,
        errors=(ContractViolationError,),
    ),
    SliceRule(
        "values_are_readable",
        "Every value can be read and stored as its column's kind, and amounts have the decimals of their currency.",
        {"replaced", "unreadable", "overprecise"},
    ),
    SliceRule(
        "accounts_are_usable",
        "Every account has a known time zone, and a title or a seller and marketplace that select it.",
        {"unusable"},
        applies_to=lambda dataset: dataset.source is Source.DISCOVERY,
    ),
    SliceRule(
        "accounts_keep_their_days",
        "No account has rows that were read under a former time zone or currency.",
        {"rezoned"},
        applies_to=lambda dataset: dataset.source is Source.DISCOVERY,
    ),
    SliceRule(
        "connection_authorized",
        "Every connection has a grant that its upstream honours, and that is not about to expire unused.",
        {"refused", "expiring"},
        applies_to=lambda dataset: dataset.source is Source.DISCOVERY,
        errors=(
            NotConnectedError,
            ReauthorizationRequiredError,
            RequestRefusedError,
            SettingsError,
            "MissingSettingError",
            TokenRefusedError,
        ),
    ),
    SliceRule(
        "reading_is_plausible",
        "No day of a reading contradicts the stored rows.",
        {"held"},
        applies_to=lambda dataset: dataset.source is not Source.REPORT,
    ),
    SliceRule(
        "volume_is_expected",
        "New days have about as many rows as the same weekdays of the account before.",
        {"unusual"},
        applies_to=lambda dataset: dataset.is_divisible,
    ),
    SliceRule(
        "restatement_is_small",
        "A settled window did not change by more than 1 % of its rows or amounts.",
        {"restated"},
        applies_to=lambda dataset: dataset.is_dated,
    ),
    SliceRule(
        "comparisons_agree",
        "No settled month that was compared at random in the last seven days differed from the upstream.",
        {"differed"},
        applies_to=lambda dataset: dataset.is_dated and dataset.source is Source.LIST,
    ),
    SliceRule(
        "ledgers_do_not_repeat",
        "No other account of the seller has the same entries, which sums over accounts would count several times.",
        {"repeated"},
        applies_to=lambda dataset: dataset == LEDGER,
    ),
)


def checks_of(dataset: Dataset) -> tuple[SliceRule, ...]:
    """Return the checks that apply to a dataset."""
    return tuple(rule for rule in RULES if rule.applies_to(dataset))


def docs_of(source: Dataset | Mart) -> dict[str, str]:
    """Return the description of each check of a dataset or a mart, by name."""
    return {each.name: each.doc for each in (checks_of(source) if isinstance(source, Dataset) else source.all_checks)}


def judgements(
    database: Database, source: Dataset | Mart, keys: Collection[str] | None = None
) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of each check of a dataset or a mart, over what is stored of it now.

    Args:
        keys: Of the accounts, or of the list of accounts the names of the connections; None for all.
    """
    if isinstance(source, Dataset):
        yield from _of_slices(database, source, keys)
        return
    count, failed = checked_partitions(database, source, keys)
    for check in source.all_checks:
        severity = _WARN if check.is_warning else _ERROR
        of_check = [(each, each.checks[check.name]) for each in failed if check.name in each.checks]
        broken = [
            (
                _cells(each.account, each.title, each.month, since=each.tried_at, stored=facts["rows"]),
                Breach(facts["sentence"], facts["next_step"], severity),
            )
            for each, facts in of_check
        ]
        facts = {"partitions": count, "failed_partitions": len(broken)}
        examples = {"examples": of_check[0][1]["examples"]} if of_check else {}
        yield judgement_of(check.name, check.doc, count_of(count, "partition"), broken, {**facts, **examples})


def _of_slices(database: Database, dataset: Dataset, keys: Collection[str] | None) -> Iterator[dg.AssetCheckResult]:
    slices = checked_slices(database, dataset, keys)
    noun = "list" if dataset.slicing is Slicing.CONNECTION else "slice"
    for rule in checks_of(dataset):
        first = {(each.account, each.month): each for each in reversed(slices.doubts) if rule.is_broken_by(each)}
        broken = [
            (
                _cells(
                    each.account,
                    each.title,
                    each.month,
                    since=each.since,
                    stored=each.stored,
                    announced=each.announced,
                ),
                Breach(each.message, each.next_step, _WARN if each.is_warning else _ERROR),
            )
            for each in reversed(first.values())
        ]
        numbers = {"slices": slices.count, "rows": slices.rows, "failed_slices": len(broken)}
        # A list that was never read may lack a grant.
        checked = count_of(max(slices.count, len(broken)), noun)
        yield judgement_of(rule.name, rule.doc, checked, broken, numbers)


Broken = Sequence[tuple[Mapping[str, str], Breach]]
"""What breaks a rule: the cells of its line that name it, and why."""


def judgement_of(name: str, doc: str, checked: str, broken: Broken, facts: Mapping[str, Any]) -> dg.AssetCheckResult:
    """Return the result of a rule over everything it was applied to.

    Args:
        name: That of the check.
        doc: The sentence that is true where the rule is kept.
        checked: What was checked, such as `36,000 slices`.
    """
    if not broken:
        kept = f"{doc} That is true of {checked}."
        return dg.AssetCheckResult(check_name=name, passed=True, description=kept, metadata=facts)
    lines = [
        {**dict.fromkeys(_COLUMNS, ""), **cells, "reason": breach.reason, "next step": runnable(breach.step)}
        for cells, breach in broken[:_LINES_SHOWN]
    ]
    cells, first = broken[0]
    named = ", ".join(dict.fromkeys(filter(None, (cells.get("title"), cells.get("account"), cells.get("month")))))
    return dg.AssetCheckResult(
        check_name=name,
        passed=False,
        description=runnable(
            followed(
                f"{len(broken):,} of {checked} {'breaks' if len(broken) == 1 else 'break'} this rule: {doc} "
                f"{'It is' if len(broken) == 1 else 'The first is'} {named}: {first.reason}",
                first.step,
            )
        ),
        severity=_ERROR if any(breach.severity is _ERROR for _, breach in broken) else _WARN,
        metadata={
            **facts,
            "failing": dg.MetadataValue.table([dg.TableRecord(line) for line in lines], _TABLE),
            "not_listed": len(broken) - len(lines),
        },
    )


def _cells(
    account: str,
    title: str,
    month: date | None,
    *,
    since: datetime | None = None,
    stored: int | None = None,
    announced: int | None = None,
) -> dict[str, str]:
    """Return the cells of a line that name a slice or a partition."""
    return {
        "account": account,
        "title": title,
        "month": f"{month:%Y-%m}" if month else "",
        "stored": "" if stored is None else str(stored),
        "announced": "" if announced is None else str(announced),
        "since": f"{since:%Y-%m-%d %H:%M} UTC" if since else "",
    }
