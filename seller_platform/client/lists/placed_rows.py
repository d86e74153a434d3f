"""Places the rows of a list that is asked for day by day, because its rows lack their day."""

from collections.abc import Mapping, Sequence
from typing import Any

from seller_platform.client.lists.row_sink import RowSink
from seller_platform.contract import Dataset
from seller_platform.counts import count_of
from seller_platform.errors import ContractViolationError


class PlacedRows:
    """A sink that completes the day of rows, and writes them to another sink.

    Rows come with the day that was asked for as their last value.

    Args:
        dataset: The list as it is declared, with the column of its day.
    """

    def __init__(self, dataset: Dataset, sink: RowSink) -> None:
        self._dataset, self._sink = dataset, sink
        self._day = next(number for number, column in enumerate(dataset.columns) if column.name == dataset.day)

    @property
    def count(self) -> int:
        return self._sink.count

    @property
    def digest(self) -> bytes:
        return self._sink.digest

    def restart(self) -> None:
        """Forget every row."""
        self._sink.restart()

    def write(
        self, rows: Sequence[tuple[Any, ...]], *, tags: Sequence[str | None], extras: Mapping[int, str], page: int
    ) -> None:
        """Append the row of one day.

        Raises:
            ContractViolationError: It has several rows, or one of another day.
        """
        if len(rows) > 1:
            raise ContractViolationError(
                self._dataset.name, f"{rows[0][-1]} has {count_of(len(rows), 'row')}, but a day has one"
            )
        for row in rows:
            if row[self._day] not in (None, row[-1]):
                problem = f"{self._dataset.day} is {row[self._day]} in the row of {row[-1]} that was asked for"
                raise ContractViolationError(self._dataset.name, problem)
        placed = [(*row[: self._day], row[-1], *row[self._day + 1 :]) for row in rows]
        self._sink.write(placed, tags=tags, extras=extras, page=page)
