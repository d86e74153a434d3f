"""The checks of datasets and marts: rules over all slices and partitions that are stored now.

A check has no partitions: its evaluation says how many slices break its rule, and lists the first hundred with the
reason and the next step. A slice that could not be loaded breaks the rule of its error, if one has it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from seller_platform.capabilities import contributed
from seller_platform.commands import runnable
from seller_platform.contract import REFRESHED, Dataset, Slicing, Source
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
)
from seller_platform.orchestration.assets.events import ROW_COUNT_CHECK
from seller_platform.orchestration.failures import in_the_ui
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.warehouse.connections.accounts import account_titles
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.monitoring.metrics import stored_partitions
from seller_platform.warehouse.monitoring.problems import SliceProblem, slice_problems
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.unread_slices import READ_WITHIN_HOURS, UNREAD_SLICES

_LINES_SHOWN = 100
_COLUMNS = ("account", "title", "month", "rows", "amount", "since", "reason", "next step")
_TABLE = dg.TableSchema([dg.TableColumn(name) for name in _COLUMNS])


@dataclass(frozen=True)
class SliceRule:
    """A check of all slices of the datasets it applies to.

    Attributes:
        kinds: What breaks the rule, as kinds of `platform.problems`.
        applies_to: Returns whether a dataset has the check.
        errors: The classes of errors that break the rule when a slice cannot be loaded, or codes of theirs.
        recount: What *Execute* does before, to find again what breaks the rule.
    """

    name: str
    doc: str
    kinds: Collection[str]
    applies_to: Callable[[Dataset], bool] = lambda _: True
    errors: Sequence[type[SellerPlatformError] | str] = ()
    recount: Callable[[Database], None] | None = None

    def is_broken_by(self, problem: SliceProblem) -> bool:
        """Return whether what is wrong with a slice breaks the rule; a note does not."""
        names = {name for each in self.errors for name in _names_of(each)}
        return problem.severity != "note" and (problem.kind in self.kinds or problem.error in names)


def _names_of(error: type[SellerPlatformError] | str) -> Iterator[str]:
    """Yield the names of a class and of those derived from it."""
    if isinstance(error, str):
        yield error
        return
    yield error.__name__
    for each in error.__subclasses__():
        yield from _names_of(each)


_RULES = (
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
    SliceRule("keys_are_unique", "No two rows have the same key.", {"duplicated"}, lambda dataset: bool(dataset.key)),
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
        "is_fresh",
        f"Every account was read within {READ_WITHIN_HOURS} hours, with each day of its history.",
        {kind.name for kind in UNREAD_SLICES.kinds},
        applies_to=lambda dataset: dataset in REFRESHED,
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
)


def checks_of(source: Dataset | Mart) -> tuple[SliceRule, ...]:
    """Return the checks of a dataset or a mart."""
    if isinstance(source, Mart):  # what is wrong with its partitions has the name of a check as its error
        return tuple(SliceRule(each.name, each.doc, (), errors=(each.name,)) for each in source.all_checks)
    rules = (*_RULES, *(rule for rules in contributed("rules") for rule in rules))
    return tuple(rule for rule in rules if rule.applies_to(source))


def problem_name(source: Dataset | Mart) -> str:
    """Return how problems name a dataset or a mart."""
    return source.name if isinstance(source, Dataset) else source.table


def judgements(
    database: Database,
    source: Dataset | Mart,
    owners: Collection[str] | None = None,
    placement: Placement = WHOLE,
    problems: Iterable[SliceProblem] | None = None,
) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of each check of a dataset or a mart, over what is stored of it now.

    Args:
        owners: The keys of the accounts, and of the list of accounts the names of the connections; None for all.
        problems: Those of the owners, of other datasets, too; by default they are read.
    """
    titles, name = account_titles(database), problem_name(source)
    if problems is None:
        problems = slice_problems(database, [name], accounts=owners)
    found = [each for each in problems if each.dataset == name]
    count, rows = stored_partitions(database, name, owners)
    noun, kind, facts = "partition", "partitions", dict[str, int]()
    if isinstance(source, Dataset):
        noun, kind, facts = "list" if source.slicing is Slicing.CONNECTION else "slice", "slices", {"rows": rows}
    for rule in checks_of(source):
        of_rule = [each for each in reversed(found) if rule.is_broken_by(each)]
        broken = [*{(each.account, each.month): each for each in of_rule}.values()][::-1]  # the first of each slice
        numbers = {kind: count, **facts, f"failed_{kind}": len(broken)}
        # A list that was never read may lack a grant.
        checked = count_of(max(count, len(broken)), noun)
        yield _judgement_of(rule, checked, broken, numbers, titles=titles, placement=placement)


def _judgement_of(
    rule: SliceRule,
    checked: str,
    broken: Sequence[SliceProblem],
    facts: Mapping[str, int],
    *,
    titles: Mapping[str, str],
    placement: Placement,
) -> dg.AssetCheckResult:
    """Return the result of a rule over what was checked, such as `36,000 slices`. What a person knows is a warning."""
    if not broken:
        kept = f"{rule.doc} That is true of {checked}."
        return dg.AssetCheckResult(check_name=rule.name, passed=True, description=kept, metadata=facts)
    lines = [_line(each, rule.doc, titles, placement) for each in broken[:_LINES_SHOWN]]
    first = broken[0].sentence.removeprefix(f"{rule.doc} ")
    named = ", ".join(dict.fromkeys(filter(None, (str(lines[0].data[cell]) for cell in ("title", "account", "month")))))
    is_error = any(each.severity == "error" and each.acknowledged_by is None for each in broken)
    more = {"not_listed": len(broken) - len(lines)} if len(broken) > len(lines) else {}
    return dg.AssetCheckResult(
        check_name=rule.name,
        passed=False,
        description=f"{len(broken):,} of {checked} {'breaks' if len(broken) == 1 else 'break'} this rule: {rule.doc} "
        f"{'It is' if len(broken) == 1 else 'The first is'} {named}: {in_the_ui(first, placement)}",
        severity=dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN,
        metadata={**facts, "failing": dg.MetadataValue.table(lines, _TABLE), **more},
    )


def _line(problem: SliceProblem, doc: str, titles: Mapping[str, str], placement: Placement) -> dg.TableRecord:
    """Return the line of a slice or a partition in the table of a failed check."""
    cells = {
        "account": problem.account,
        "title": titles.get(problem.account, ""),
        "month": f"{problem.month:%Y-%m}" if problem.month else "",
        "rows": "" if problem.rows is None else str(problem.rows),
        "amount": "" if problem.amount is None else f"{problem.currency or ''} {problem.amount}".strip(),
        "since": f"{problem.since:%Y-%m-%d %H:%M} UTC" if problem.since else "",
        "reason": in_the_ui(problem.message.removeprefix(f"{doc} "), placement),
        "next step": in_the_ui(
            runnable(problem.next_step or "Follow the reason, then materialize the partition."), placement
        ),
    }
    return dg.TableRecord(cells)
