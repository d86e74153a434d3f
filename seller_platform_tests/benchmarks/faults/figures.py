"""Measured figures beside the promised ones, printed as a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
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


def print_figures(title: str, figures: Sequence[Figure]) -> int:
    """Print the figures as a table, and return the exit code, 1 for broken promises."""
    table = Table("what", "found", "promised", "kept", title=title)
    for figure in figures:
        measured = f"{figure.measured:,}" if isinstance(figure.measured, int) else str(figure.measured)
        kept = ("yes" if figure.is_kept else "NO") if figure.promise else ""
        table.add_row(figure.what, measured, figure.promise, kept)
    Console().print(table)
    return int(not all_kept(figures))


def all_kept(figures: Sequence[Figure]) -> bool:
    """Return whether no promise was broken."""
    return all(each.is_kept for each in figures)
