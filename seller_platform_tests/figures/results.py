"""Medians of samples, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from rich.table import Table


@dataclass
class Samples:
    """Values that were measured several times in one run, by line and column.

    Attributes:
        ratio_of: Lines and columns that all lines are compared with, each as a ratio.
        exit_code: Nothing is promised.
    """

    title: str
    ratio_of: Sequence[tuple[str, str]] = ()
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    exit_code: int = 0

    def add(self, line: str, **values: float) -> None:
        """Add a measurement to a line."""
        for column, value in values.items():
            self.values.setdefault(line, {}).setdefault(column.replace("_", " "), []).append(value)

    @property
    def table(self) -> Table:
        """The median of each line and column."""
        columns = dict.fromkeys(column for line in self.values.values() for column in line)
        table = Table(title=f"{self.title}; medians")
        for name in ("", *columns, *(f"x {line}" for line, _ in self.ratio_of)):
            table.add_column(name, justify="right" if name else "left")
        for name, line in self.values.items():
            cells = [f"{median(line[column]):,.2f}" if column in line else "–" for column in columns]
            table.add_row(name, *cells, *(self._ratio(line, *base) for base in self.ratio_of))
        return table

    def _ratio(self, line: dict[str, list[float]], base: str, column: str) -> str:
        return f"{median(line[column]) / median(self.values[base][column]):.2f}"
