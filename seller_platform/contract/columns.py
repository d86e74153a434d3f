"""Columns of a dataset: names, kinds, aliases on the wire, and a sentence about each."""

from dataclasses import dataclass
from enum import Enum


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
