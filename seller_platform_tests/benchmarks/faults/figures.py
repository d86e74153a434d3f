"""Figures: what a command about faults found, what was promised, and whether that was kept."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One line of a table.

    Attributes:
        promise: What was promised; empty where the figure is told for its own sake.
        is_kept: Whether it was.
    """

    what: str
    found: object
    promise: str = ""
    is_kept: bool = True


def print_figures(title: str, figures: Sequence[Figure]) -> int:
    """Print the figures as one table, and return the exit code: 1 where a promise was broken."""
    table = Table("what", "found", "promised", "kept", title=title)
    for each in figures:
        found = f"{each.found:,}" if isinstance(each.found, int) else str(each.found)
        table.add_row(each.what, found, each.promise, ("yes" if each.is_kept else "NO") if each.promise else "")
    Console().print(table)
    return int(not all_kept(figures))


def all_kept(figures: Sequence[Figure]) -> bool:
    """Whether no promise was broken."""
    return all(each.is_kept for each in figures)
