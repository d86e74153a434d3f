"""Completes the day of rows of a list that is asked for day by day, because its rows lack their day."""

from collections.abc import Sequence

from seller_platform.client.decoding.pages import Row
from seller_platform.contract import Dataset
from seller_platform.counts import count_of
from seller_platform.errors import ContractViolationError


def placed_rows(dataset: Dataset, rows: Sequence[Row]) -> Sequence[Row]:
    """Return the row of one day, which comes with the day that was asked for as its last value.

    Args:
        dataset: The list as it is declared, with the column of its day.

    Raises:
        ContractViolationError: There are several rows, or one of another day.
    """
    position = next(number for number, column in enumerate(dataset.columns) if column.name == dataset.day)
    if len(rows) > 1:
        problem = f"{rows[0][-1]} has {count_of(len(rows), 'row')}, but a day has one"
        raise ContractViolationError(dataset.name, problem)
    for row in rows:
        if row[position] not in (None, row[-1]):
            problem = f"{dataset.day} is {row[position]} in the row of {row[-1]} that was asked for"
            raise ContractViolationError(dataset.name, problem)
    return [(*row[:position], row[-1], *row[position + 1 :]) for row in rows]
