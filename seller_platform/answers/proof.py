"""What every answer carries beside its rows."""

from datetime import date, datetime
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field


class Fact(BaseModel):
    """A part of an answer: it cannot be changed, and an amount is a text, so that no digit is lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Period(Fact):
    """The local days of an answer, both inclusive."""

    first_day: date
    last_day: date


class Seen(Fact):
    """Where a person sees the same numbers."""

    command: str = Field(description="A command that prints them.")
    url: str | None = Field(
        default=None, description="The page of the Dagster UI with the rows that they are computed from."
    )


class Proof(Fact):
    """How far the rows of an answer can be trusted."""

    as_of: datetime | None = Field(
        description="The rows are those of the upstream at this moment or later; null where they come from no upstream."
    )
    period: Period | None = Field(default=None, description="The days that the rows are of; null where they have none.")
    coverage: str = Field(description="Which part of what was asked for is stored.")
    problems: tuple[str, ...] = Field(
        default=(), description="Checks that fail for the rows, and what else is wrong with them."
    )
    settledness: str = Field(description="Which of the days may still change upstream.")
    bound: str | None = Field(
        default=None, description="How many of the stored slices differ from the upstream at most."
    )
    currencies: tuple[str, ...] = Field(default=(), description="The currencies of the amounts, as ISO 4217 codes.")
    time_zones: tuple[str, ...] = Field(default=(), description="The time zones that days are days of.")
    seen: Seen = Field(description="Where a person sees the same numbers.")


Row = TypeVar("Row", bound=Fact)


class ToolAnswer(Fact, Generic[Row]):
    """Rows, and their proof."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = Field(default=(), description="What has to be said with the numbers.")
    proof: Proof
