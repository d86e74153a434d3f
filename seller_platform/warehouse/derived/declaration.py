"""What a mart is: a table that is computed from datasets and declared once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from psycopg import sql

from seller_platform.contract import Dataset, Kind, Slicing, Window
from seller_platform.errors import RequestError
from seller_platform.warehouse.postgres.database import identifiers

MARTS_SCHEMA = "marts"

Query: TypeAlias = sql.SQL | sql.Composed
ChartForm: TypeAlias = Literal["lines", "bars"]
"""How a chart shows its rows: over days, or one bar for each."""

_VERSION_DIGITS = 12

_DUPLICATES = """
SELECT {key}, count(*) AS rows FROM {table} WHERE {inside} GROUP BY {key} HAVING count(*) > 1
"""


@dataclass(frozen=True)
class MartColumn:
    """One column of a mart.

    Attributes:
        doc: One sentence for the table's comment and the asset's column schema.
        of: The columns it is computed from, as `dataset.column`.
        key: Part of what identifies a row within its account; never null.
        nullable: Whether it may be null where it is no key.
    """

    name: str
    kind: Kind
    doc: str
    of: tuple[str, ...] = ()
    key: bool = False
    nullable: bool = False


@dataclass(frozen=True)
class Input:
    """A dataset that a mart reads.

    Attributes:
        required: Whether there is nothing to compute before it was loaded, of a monthly mart for its own month.
        months_before: For a monthly mart, how many months before its own it reads, too.
        months_after: How many months after its own.
    """

    dataset: Dataset
    required: bool = True
    months_before: int = 0
    months_after: int = 0


@dataclass(frozen=True)
class MartParameter:
    """A number that the query of a mart takes; a run may choose another value within its bounds."""

    name: str
    default: int
    doc: str
    minimum: int = 0
    maximum: int = 10_000


@dataclass(frozen=True)
class MartCheck:
    """A query for rows that must not exist; the check passes if it returns none.

    Attributes:
        name: In snake case, a statement.
        doc: The same as a sentence.
        contradictions: The query, with the bindings of the mart's own.
        is_warning: True where the inputs may be the cause and the rows are still useful.
        repair: What to do with what contradicts it.
    """

    name: str
    doc: str
    contradictions: Query
    is_warning: bool = False
    repair: str = "correct the rows they are computed from"


@dataclass(frozen=True)
class Chart:
    """The chart of a partition.

    Attributes:
        title: What is shown; the account and the month are added.
        unit: What the numbers are; `{currency}` stands for the currency of the rows.
        query: Returns a label, and one column for each series under the series' name, with the mart's bindings. A
            column `currency` is not a series: of several currencies the one with the largest amounts is shown.
        when_empty: The sentence that replaces the chart where there are no rows.
    """

    form: ChartForm
    title: str
    unit: str
    query: Query
    when_empty: str


@dataclass(frozen=True)
class Mart:
    """One mart.

    Attributes:
        name: The table in schema `marts` and the last part of the asset key.
        doc: One sentence: what a row is.
        query: Returns the rows of a partition in the order of `columns`. It is given `account`, the parameters and,
            where the mart is monthly, `first_day` and `end_day`, the first day after the month.
        rules: The texts of files with rules of one's own that the query follows.
        checks: The checks of every partition, without that of its keys.
        day: The column whose day places a row in its month; None where a partition is a whole account.
    """

    name: str
    doc: str
    columns: tuple[MartColumn, ...]
    inputs: tuple[Input, ...]
    query: Query
    checks: tuple[MartCheck, ...]
    chart: Chart
    day: str | None = None
    parameters: tuple[MartParameter, ...] = ()
    rules: tuple[str, ...] = ()

    @property
    def is_monthly(self) -> bool:
        """Whether a partition is an account's month, not a whole account."""
        return self.day is not None

    @property
    def datasets(self) -> list[Dataset]:
        """Its inputs that decide what is computed: all but the list of accounts."""
        return [each.dataset for each in self.inputs if each.dataset.slicing is not Slicing.CONNECTION]

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row of an account."""
        return tuple(column.name for column in self.columns if column.key)

    @property
    def table(self) -> str:
        return f"{MARTS_SCHEMA}.{self.name}"

    @property
    def version(self) -> str:
        """A digest of what decides the rows and their checks: columns, inputs, queries, and the file of rules."""
        columns = [(each.name, each.kind.name, each.key, each.nullable) for each in self.columns]
        inputs = [(each.dataset.name, each.months_before, each.months_after) for each in self.inputs]
        parameters = [(each.name, each.default) for each in self.parameters]
        queries = [each.as_string(None) for each in (self.query, *(check.contradictions for check in self.checks))]
        document = json.dumps([columns, inputs, parameters, self.day, queries, self.rules])
        return sha256(document.encode()).hexdigest()[:_VERSION_DIGITS]

    @property
    def identifier(self) -> sql.Identifier:
        """The table, as queries name it."""
        return sql.Identifier(MARTS_SCHEMA, self.name)

    @property
    def inside(self) -> Query:
        """The condition for rows of the partition that the bindings name."""
        account = sql.SQL("account = %(account)s")
        if self.day is None:
            return account
        day = sql.Identifier(self.day)
        return account + sql.SQL(" AND {0} >= %(first_day)s AND {0} < %(end_day)s").format(day)

    @property
    def all_checks(self) -> tuple[MartCheck, ...]:
        """The check of the keys, then the mart's own checks."""
        doc = f"No two rows of the account have the same {', '.join(self.key)}."
        key = identifiers(self.key)
        duplicates = sql.SQL(_DUPLICATES).format(key=key, table=self.identifier, inside=self.inside)
        return (MartCheck("keys_are_unique", doc, duplicates), *self.checks)

    def chosen_parameters(self, given: Mapping[str, int]) -> dict[str, int]:
        """Return the value of each parameter.

        Raises:
            RequestError: A parameter is unknown, or its value too small or too large.
        """
        declared = {parameter.name: parameter for parameter in self.parameters}
        for name, value in given.items():
            if name not in declared:
                raise RequestError(f"{self.name} has no parameter {name!r}; it has {', '.join(declared) or 'none'}")
            low, high = declared[name].minimum, declared[name].maximum
            if not low <= value <= high:
                raise RequestError(f"{self.name}: {name} is {value}; it must be a number from {low} to {high}")
        return {name: given.get(name, parameter.default) for name, parameter in declared.items()}

    def bindings(self, account: str, window: Window | None, parameters: Mapping[str, int]) -> dict[str, Any]:
        """Return what the query of a partition, its checks and its chart are given.

        Raises:
            RequestError: The window is not a month of the mart, or not None for a mart of whole accounts.
        """
        bindings: dict[str, Any] = {"account": account, **parameters}
        if not self.is_monthly:
            if window is not None:
                problem = f"{self.name} is built for a whole account, not for {window}"
                raise RequestError(problem, step="Leave the window out.")
            return bindings
        if window is None or window != Window.month_of(window.start):
            problem = f"{self.name} is built month by month, and {window} is not one"
            raise RequestError(problem, step="Pass Window.month_of(day).")
        return {**bindings, "first_day": window.start, "end_day": window.end}
