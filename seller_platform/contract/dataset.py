"""The declaration of a dataset and its columns, from which all floors derive tables, assets and routes."""

from dataclasses import dataclass, replace
from enum import Enum

LOCAL_DAY = "local_day"
"""The column of a table that holds the day of a row in its account's time zone."""


class Kind(Enum):
    """The kind of a value, on the wire, in PostgreSQL and in a DataFrame."""

    TEXT = "text"
    INTEGER = "integer"
    MONEY = "money"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    JSON = "json"


@dataclass(frozen=True)
class Column:
    """One field of a row.

    Attributes:
        name: The name in the table and, first choice, on the wire.
        kind: The kind of the value. Money and numbers are exact decimals.
        doc: One sentence for the table's comment, the asset's column schema and the OpenAPI field.
        key: Whether it is part of the row's key. The API promises a value; a row without one is stored, and the check
            `keys_are_present` fails for its slice.
        aliases: Other names under which an upstream may send the field.
        currency: For money, the column that names its currency; None means the account's own.
        example: A value for the documentation of the API; None where the kind says enough.
    """

    name: str
    kind: Kind
    doc: str
    key: bool = False
    aliases: tuple[str, ...] = ()
    currency: str | None = None
    example: str | int | None = None

    @property
    def nullable(self) -> bool:
        """Whether the API allows null; tables allow it in every column."""
        return not self.key


class Slicing(Enum):
    """What one slice of the dataset is; a slice is also its Dagster partition."""

    MONTH = "account x month"
    SNAPSHOT = "account"
    CONNECTION = "connection"


class Source(Enum):
    """How the rows of a slice are read."""

    LIST = "a paged list"
    PRODUCT_LOOKUP = "one request per product"
    REPORT = "an asynchronous report"
    DISCOVERY = "the accounts of a user"


@dataclass(frozen=True)
class SplitFilter:
    """A filter that splits a list into parts, which are read one by one.

    Attributes:
        parameter: The query parameter of the filter.
        values: All of its values.
        tag: The column that stores the value, where rows do not carry it.
        required: True where the API has no unfiltered list.
        field: The column of the value, where rows carry it.
        is_merged: True where the unfiltered list has one row for each key, in which the rows of all values are added;
            else it has the rows of all values.
    """

    parameter: str
    values: tuple[str, ...]
    tag: Column | None = None
    required: bool = False
    field: str | None = None
    is_merged: bool = False

    @property
    def column(self) -> str | None:
        """The column of the table that holds the value of the filter."""
        return self.tag.name if self.tag else self.field


@dataclass(frozen=True)
class Dataset:
    """One dataset of the API.

    Attributes:
        name: The table in schema `seller` and the last part of the asset key.
        path: The endpoint, relative to the base URL.
        doc: One sentence about a row.
        area: The endpoint's area in the API, and the asset's group.
        columns: The fields of a row, in the order of the table.
        page_sizes: The values that `per_page` takes; empty where the endpoint has no such parameter.
        fixed_page_size: The rows of a full page where the endpoint chooses it.
        announces_total: Whether the endpoint sends `total`.
        parameters: Query parameters that are always sent.
        split_by: The filter by which the list is read in parts.
        day: The column whose local day decides the window of a row; None where the slice gives the day.
        order: The columns by which the list is ordered, before the tie-breaker.
        lookback_days: How many days back rows of this dataset may still change.
    """

    name: str
    path: str
    doc: str
    area: str
    columns: tuple[Column, ...]
    slicing: Slicing
    source: Source = Source.LIST
    page_sizes: tuple[int, ...] = ()
    fixed_page_size: int | None = None
    announces_total: bool = True
    parameters: tuple[tuple[str, str], ...] = ()
    split_by: SplitFilter | None = None
    day: str | None = None
    order: tuple[str, ...] = ()
    lookback_days: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row; empty for a ledger, whose rows may be equal."""
        return tuple(column.name for column in self.columns if column.key)

    @property
    def tags(self) -> tuple[Column, ...]:
        """The columns whose values come from the request, not from the row."""
        return (self.split_by.tag,) if self.split_by and self.split_by.tag else ()

    @property
    def money(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.kind is Kind.MONEY)

    @property
    def is_dated(self) -> bool:
        """Whether the list takes `start_date` and `end_date`."""
        return self.slicing is Slicing.MONTH

    @property
    def keeps_snapshots(self) -> bool:
        """Whether the table holds a whole list for each day; the newest is current."""
        return self.slicing is Slicing.SNAPSHOT and self.source is not Source.REPORT

    @property
    def is_computed(self) -> bool:
        """Whether the upstream computes the rows from other datasets, as the parameters choose."""
        return bool(self.parameters)

    @property
    def is_divisible(self) -> bool:
        """Whether a window may be read in parts; False where rows sum up their window."""
        return self.day is not None

    @property
    def slice_column(self) -> str:
        """The column of the table that, beside the account, decides the slice of a row."""
        return "connection" if self.slicing is Slicing.CONNECTION else LOCAL_DAY

    @property
    def table(self) -> str:
        return f"seller.{self.name}"

    def asked_by_day(self) -> "Dataset":
        """Return the same list for requests of one day each, whose rows need not repeat the day."""
        columns = tuple(replace(each, key=False) if each.name == self.day else each for each in self.columns)
        return replace(self, columns=columns, day=None)

    def column(self, name: str) -> Column:
        """Return the column of that name.

        Raises:
            KeyError: The dataset has no such column.
        """
        for column in (*self.columns, *self.tags):
            if column.name == name:
                return column
        raise KeyError(f"{self.name} has no column {name!r}")
