"""Formulas of profit: the line that each entry of the ledger belongs to, and what counts.

`STANDARD` is the formula of the marts. SELLER_PLATFORM_PROFIT_FORMULA names a file with a formula of one's own, which
`marts.profit_bridge_monthly` has beside it:

    formula: cash                  # its name in `marts.profit_bridge_monthly`
    beside: [product_cost]         # what counts of sales and costs, which the ledger does not have
    other_counts: yes              # whether entries that no line names count; by default they do
    lines:
      - line: payments
        counts: yes
        entries:
          - {type: Order}
      - line: advertising
        counts: yes
        entries:
          - {type: Advertising}
          - {type: Fee, description: "*advertis*"}

An entry belongs to the first line that names it; letters must match in case, and `*` stands for any text. Without a
type or description, entries with any are named, and those without one, too; `""` names those without.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from psycopg import sql

from seller_platform.marts.rules.files import ANY, EntryPattern, Node, RulesFile, like_pattern

OTHER = "other"
"""The line of entries that no line of a formula names."""

BESIDE = ("product_sales", "taxes", "shipping_credits", "rebates", "product_cost")
"""The amounts beside the ledger, from daily product sales and cost periods. They are lines of their own names."""

_KEYS = ("formula", "beside", "other_counts", "lines")
_LINE_KEYS = ("line", "counts", "entries")
_BOOLEANS = {"yes": True, "true": True, "no": False, "false": False}


class Part(Enum):
    """What a line is a part of."""

    PROFIT = "profit"
    STEP = "step"
    COUNTED = "counted"
    NOT_COUNTED = "not counted"


@dataclass(frozen=True)
class FormulaLine:
    """One line of a formula, and the entries that belong to it."""

    name: str
    part: Part
    entries: tuple[EntryPattern, ...]


@dataclass(frozen=True)
class Formula:
    """Which amounts make up a profit.

    Attributes:
        beside: The parts of the amounts beside the ledger, by their names in BESIDE.
        lines: In the order in which they are compared with an entry.
        other: What entries are a part of that no line names.
        content: The text of its file; empty of the standard one.
    """

    name: str
    beside: dict[str, Part]
    lines: tuple[FormulaLine, ...]
    other: Part
    content: str = ""

    @property
    def places(self) -> Iterator[tuple[str, Part]]:
        """Every line with its part, in the order of the formula: those beside the ledger first, OTHER last."""
        yield from self.beside.items()
        yield from ((line.name, line.part) for line in self.lines)
        yield OTHER, self.other

    @property
    def line_of_entry(self) -> sql.Composable:
        """The SQL expression for the line of an entry, from its columns `transaction_type` and `description`."""
        cases = [
            sql.SQL("WHEN {} THEN {}").format(names_entry(line.entries), sql.Literal(line.name)) for line in self.lines
        ]
        if not cases:
            return sql.Literal(OTHER)
        return sql.SQL("CASE {} ELSE {} END").format(sql.SQL(" ").join(cases), sql.Literal(OTHER))


PAYOUTS = "payouts"
"""The line of transfers to the bank account."""

PAYOUT_TYPES = ("Transfer*", "Payout*", "Disbursement*")
"""The patterns of the types of its entries: in the standard formula, and in the books without a file of accounts."""


def _standard_lines() -> Iterator[FormulaLine]:
    def named(line: str, part: Part, *entries: EntryPattern) -> FormulaLine:
        return FormulaLine(line, part, entries)

    yield named("payments", Part.NOT_COUNTED, EntryPattern("Order"))
    yield named(PAYOUTS, Part.NOT_COUNTED, *map(EntryPattern, PAYOUT_TYPES))
    # What the API calls platform fees: everything of this type, whatever it is for.
    yield named("storage_fees", Part.PROFIT, EntryPattern("Fee", "*torage*"))
    yield named("subscription_fees", Part.PROFIT, EntryPattern("Fee", "*ubscription*"))
    yield named("advertising_fees", Part.PROFIT, EntryPattern("Fee", "*dvertis*"))
    yield named("selling_fees", Part.PROFIT, EntryPattern("Fee"))
    yield named("refunds", Part.STEP, EntryPattern("Refund"))
    for line, word in (
        ("reimbursements", "*eimbursement*"),
        ("advertising", "*dvertis*"),
        ("storage", "*torage*"),
        ("subscriptions", "*ubscription*"),
    ):
        yield named(line, Part.STEP, EntryPattern(type=word), EntryPattern(description=word))


STANDARD = Formula(
    "standard",
    {
        "product_sales": Part.PROFIT,
        "product_cost": Part.PROFIT,
        "shipping_credits": Part.STEP,
        "rebates": Part.STEP,
        "taxes": Part.NOT_COUNTED,
    },
    tuple(_standard_lines()),
    Part.STEP,
)
"""The formula of the marts.

`profit` is what the API says: sales less cost less entries of type Fee. `net_profit` adds the steps. Payments of buyers
are not counted, because the sales are; nor are payouts, nor taxes that are collected for the state.
"""

FEE_LINES = tuple(line.name for line in STANDARD.lines if line.part is Part.PROFIT)
"""The lines that `platform_fees` consists of."""


def read_formula(path: Path) -> Formula:
    """Return the formula in a YAML file.

    Raises:
        SettingsError: The file cannot be read, or is no formula; the message names line, value and what is allowed.
    """
    file = RulesFile(path, "formula", "SELLER_PLATFORM_PROFIT_FORMULA")
    fields = file.mapping(file.root, _KEYS, required=("formula", "lines"), what="the file")
    name = file.name(fields["formula"], "formula", taken=(STANDARD.name,))
    beside = file.sequence(fields["beside"], "beside") if "beside" in fields else []
    counted: dict[str, Part] = {}
    for each in beside:
        amount = file.text(each, "beside")
        if amount not in BESIDE or amount in counted:
            raise file.error(each, f"beside has {amount!r}; it takes {', '.join(BESIDE)}, once each")
        counted[amount] = Part.COUNTED
    lines: list[FormulaLine] = []
    for each in file.sequence(fields["lines"], "lines"):
        line = file.mapping(each, _LINE_KEYS, required=_LINE_KEYS, what="a line")
        title = file.name(line["line"], "line", taken=(OTHER, *BESIDE, *(line.name for line in lines)))
        entries = file.entries(line["entries"], title)
        lines.append(FormulaLine(title, _part(file, line["counts"], "counts"), entries))
    other = _part(file, fields["other_counts"], "other_counts") if "other_counts" in fields else Part.COUNTED
    parts = {each: counted.get(each, Part.NOT_COUNTED) for each in BESIDE}
    return Formula(name, parts, tuple(lines), other, file.content)


def _part(file: RulesFile, node: Node, key: str) -> Part:
    text = file.text(node, key)
    if text.lower() not in _BOOLEANS:
        raise file.error(node, f"{key} is {text!r}; write yes or no")
    return Part.COUNTED if _BOOLEANS[text.lower()] else Part.NOT_COUNTED


def names_entry(patterns: Sequence[EntryPattern]) -> sql.Composed:
    """Return the condition, in brackets, for the entries that any of the patterns names."""
    return sql.SQL("({})").format(sql.SQL(" OR ").join(map(_condition, patterns)))


def _condition(pattern: EntryPattern) -> sql.Composable:
    """Return the condition for the entries that a pattern names.

    Percent signs are doubled, because psycopg looks for parameters in the statement.
    """
    named = [("transaction_type", pattern.type), ("description", pattern.description)]
    conditions = [
        sql.SQL("coalesce({}, '') LIKE {}").format(
            sql.Identifier(column), sql.Literal(like_pattern(text).replace("%", "%%"))
        )
        for column, text in named
        if text != ANY
    ]
    return sql.SQL("({})").format(sql.SQL(" AND ").join(conditions or [sql.SQL("true").format()]))
