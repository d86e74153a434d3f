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
from typing import Any, TypeAlias

from psycopg import sql

from seller_platform.counts import count_of
from seller_platform.errors import SettingsError, formula_error

_Node: TypeAlias = Any
"""A node of PyYAML, whose stubs lack its `id`."""

OTHER = "other"
"""The line of entries that no line of a formula names."""

BESIDE = ("product_sales", "taxes", "shipping_credits", "rebates", "product_cost")
"""The amounts beside the ledger, from daily product sales and cost periods. They are lines of their own names."""

_ANY = "*"
_KEYS = ("formula", "beside", "other_counts", "lines")
_LINE_KEYS = ("line", "counts", "entries")
_ENTRY_KEYS = ("type", "description")
_BOOLEANS = {"yes": True, "true": True, "no": False, "false": False}
_LONGEST_NAME, _LONGEST_PATTERN, _LARGEST_FILE = 63, 200, 1 << 18


class Part(Enum):
    """What a line is a part of."""

    PROFIT = "profit"
    STEP = "step"
    COUNTED = "counted"
    NOT_COUNTED = "not counted"


@dataclass(frozen=True)
class EntryPattern:
    """Names entries by type and description, in which `*` stands for any text."""

    type: str = _ANY
    description: str = _ANY


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
    """

    name: str
    beside: dict[str, Part]
    lines: tuple[FormulaLine, ...]
    other: Part

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
            sql.SQL("WHEN {} THEN {}").format(
                sql.SQL(" OR ").join(map(_condition, line.entries)), sql.Literal(line.name)
            )
            for line in self.lines
            if line.entries
        ]
        if not cases:
            return sql.Literal(OTHER)
        return sql.SQL("CASE {} ELSE {} END").format(sql.SQL(" ").join(cases), sql.Literal(OTHER))


def _standard_lines() -> Iterator[FormulaLine]:
    def named(line: str, part: Part, *entries: EntryPattern) -> FormulaLine:
        return FormulaLine(line, part, entries)

    yield named("payments", Part.NOT_COUNTED, EntryPattern("Order"))
    yield named("payouts", Part.NOT_COUNTED, *map(EntryPattern, ("Transfer*", "Payout*", "Disbursement*")))
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

PAYOUTS = "payouts"
"""The line of transfers to the bank account."""


def own_formula(path: Path | None) -> Formula | None:
    """Return the formula of the file that the setting names, if it names one.

    Raises:
        SettingsError: The file cannot be used.
    """
    return None if path is None else read_formula(path)


def read_formula(path: Path) -> Formula:
    """Return the formula in a YAML file.

    Raises:
        SettingsError: The file cannot be read, or is no formula; the message names line, value and what is allowed.
    """
    # Here, because every command would take 20 ms longer.
    import yaml

    try:
        if not path.is_file() and path.exists():
            raise formula_error(path, None, "is no regular file")
        with path.open("rb") as file:
            text = file.read(_LARGEST_FILE + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise formula_error(path, None, f"cannot be read: {problem}") from None
    if len(text) > _LARGEST_FILE or "\0" in text:
        raise formula_error(path, None, f"is no formula: it must be text of at most {_LARGEST_FILE:,} characters")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise formula_error(path, line, f"is not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise formula_error(path, None, f"is not YAML: {error}") from None
    except RecursionError:
        raise formula_error(path, None, "is nested too deeply") from None
    return _FormulaReader(path).formula(node)


class _FormulaReader:
    """Reads a formula from the nodes of a YAML file, which know their lines."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def formula(self, node: _Node | None) -> Formula:
        fields = self._mapping(node, _KEYS, required=("formula", "lines"), what="the file")
        name = self._name(fields["formula"], "formula", taken=(STANDARD.name,))
        beside = self._sequence(fields["beside"], "beside") if "beside" in fields else []
        counted: dict[str, Part] = {}
        for each in beside:
            amount = self._text(each, "beside")
            if amount not in BESIDE or amount in counted:
                raise self._error(each, f"beside has {amount!r}; it takes {', '.join(BESIDE)}, once each")
            counted[amount] = Part.COUNTED
        lines: list[FormulaLine] = []
        for each in self._sequence(fields["lines"], "lines"):
            lines.append(self._line(each, taken=(OTHER, *BESIDE, *(line.name for line in lines))))
        other = self._part(fields["other_counts"], "other_counts") if "other_counts" in fields else Part.COUNTED
        return Formula(name, {each: counted.get(each, Part.NOT_COUNTED) for each in BESIDE}, tuple(lines), other)

    def _line(self, node: _Node, taken: Sequence[str]) -> FormulaLine:
        fields = self._mapping(node, _LINE_KEYS, required=_LINE_KEYS, what="a line")
        name = self._name(fields["line"], "line", taken=taken)
        entries = tuple(map(self._entry, self._sequence(fields["entries"], "entries")))
        if not entries:
            raise self._error(fields["entries"], f"line {name!r} names no entries; give at least a type or description")
        return FormulaLine(name, self._part(fields["counts"], "counts"), entries)

    def _entry(self, node: _Node) -> EntryPattern:
        fields = self._mapping(node, _ENTRY_KEYS, required=(), what="an entry")
        if not fields:
            raise self._error(node, "an entry names nothing; give type, description or both")
        return EntryPattern(**{key: self._text(value, key) for key, value in fields.items()})

    def _mapping(
        self, node: _Node | None, keys: Sequence[str], *, required: Sequence[str], what: str
    ) -> dict[str, _Node]:
        fields: dict[str, _Node] = {}
        if node is None or node.id != "mapping":
            raise self._error(node, f"{what} is no mapping; its keys are {', '.join(keys)}")
        for key_node, value in node.value:
            key = key_node.value if key_node.id == "scalar" else ""
            if key not in keys:
                raise self._error(key_node, f"{what} has the key {key!r}; its keys are {', '.join(keys)}")
            if key in fields:
                raise self._error(key_node, f"{what} has the key {key!r} twice; write it once")
            fields[key] = value
        for key in required:
            if key not in fields:
                raise self._error(node, f"{what} has no key {key!r}; add it")
        return fields

    def _sequence(self, node: _Node, key: str) -> list[_Node]:
        if node.id != "sequence":
            raise self._error(node, f"{key} is no list; begin each of its items with `-`")
        return list(node.value)

    def _text(self, node: _Node, key: str) -> str:
        if node.id != "scalar":
            raise self._error(node, f"{key} is no text; write one value")
        if len(node.value) > _LONGEST_PATTERN:
            raise self._error(
                node, f"{key} has {count_of(len(node.value), 'character')}; at most {_LONGEST_PATTERN} are allowed"
            )
        return str(node.value)

    def _name(self, node: _Node, key: str, *, taken: Sequence[str]) -> str:
        name = self._text(node, key)
        allowed = name.isascii() and name.replace("_", "a").isalnum() and name == name.lower()
        if not allowed or len(name) > _LONGEST_NAME:
            raise self._error(
                node,
                f"{key} is {name!r}; use lower-case letters, digits and underscores, 1 to {_LONGEST_NAME} characters",
            )
        if name in taken:
            raise self._error(node, f"{key} is {name!r}, which has another meaning; choose a name that is none of "
                              f"{', '.join(taken)}")  # fmt: skip
        return name

    def _part(self, node: _Node, key: str) -> Part:
        text = self._text(node, key)
        if text.lower() not in _BOOLEANS:
            raise self._error(node, f"{key} is {text!r}; write yes or no")
        return Part.COUNTED if _BOOLEANS[text.lower()] else Part.NOT_COUNTED

    def _error(self, node: _Node | None, problem: str) -> SettingsError:
        return formula_error(self._path, node.start_mark.line + 1 if node is not None else None, problem)


def _condition(pattern: EntryPattern) -> sql.Composable:
    """Return the condition for the entries that a pattern names."""
    named = [("transaction_type", pattern.type), ("description", pattern.description)]
    conditions = [
        sql.SQL("coalesce({}, '') LIKE {}").format(sql.Identifier(column), sql.Literal(_like(text)))
        for column, text in named
        if text != _ANY
    ]
    return sql.SQL("({})").format(sql.SQL(" AND ").join(conditions or [sql.SQL("true").format()]))


def _like(pattern: str) -> str:
    """Return a pattern of LIKE. Percent signs are doubled, because psycopg looks for parameters in the statement."""
    escaped = pattern.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%%")
    return escaped.replace(_ANY, "%%")
