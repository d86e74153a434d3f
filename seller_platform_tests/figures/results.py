"""Tables of results: figures beside promises, and medians of samples."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """A line of a table.

    Attributes:
        promise: The promised figure; empty if there is none.
        is_kept: Whether the promise was kept.
    """

    what: str
    measured: object
    promise: str = ""
    is_kept: bool = True


@dataclass(frozen=True)
class Promises:
    """Figures beside what is promised."""

    title: str
    figures: Sequence[Figure]

    @property
    def table(self) -> Table:
        table = Table("what", "measured", "promised", "kept", title=self.title)
        for figure in self.figures:
            measured = f"{figure.measured:,}" if isinstance(figure.measured, int) else str(figure.measured)
            kept = ("yes" if figure.is_kept else "NO") if figure.promise else ""
            table.add_row(figure.what, measured, figure.promise, kept)
        return table

    @property
    def exit_code(self) -> int:
        """1 for a broken promise."""
        return int(not all(figure.is_kept for figure in self.figures))


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
