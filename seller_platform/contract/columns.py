"""The columns of a dataset: name, kind, nullability, aliases on the wire, and one sentence each."""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a value is, on the wire, in PostgreSQL and in a DataFrame."""

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
        kind: What the value is. Money and numbers are exact decimals.
        doc: One sentence for the table's comment, the asset's column schema and the OpenAPI field.
        key: Part of what identifies a row. A key is never null; a row without it refuses the slice.
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
        return not self.key
