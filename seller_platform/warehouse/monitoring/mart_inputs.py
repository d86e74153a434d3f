"""Builds partitions of marts, unless the slice of an input has a problem."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Slicing, Window
from seller_platform.errors import InputProblemError, WarehouseUnavailableError
from seller_platform.warehouse.marts import Input, Mart
from seller_platform.warehouse.marts.builds import Build, build_partition
from seller_platform.warehouse.marts.due import Derived, keep_try, state_of
from seller_platform.warehouse.monitoring.slice_problems import Problems
from seller_platform.warehouse.postgres.database import Database

# Marts of whole accounts read the sales of 90 days. In a monthly mart every month that it reads may be the reason.
_MONTHS_THAT_BLOCK = 4


def inputs_of(mart: Mart) -> list[Dataset]:
    """Return the datasets whose slices stop a mart: all but the list of accounts."""
    return [each.dataset for each in mart.inputs if each.dataset.slicing is not Slicing.CONNECTION]


def build_unless_failed(
    database: Database,
    mart: Mart,
    account: str,
    month: Window | None,
    problems: Problems,
    *,
    key_prefix: str = "",
    parameters: Mapping[str, int] | None = None,
    run_id: str | None = None,
) -> Build:
    """Build a partition as `build_partition` does, unless the slice of an input has a problem.

    Args:
        problems: Those of the mart's inputs.
        key_prefix: What stands before the names of assets.

    Raises:
        InputProblemError: An input has a problem. That is stored, as another failure is.
    """
    failed = failed_input(problems, mart, account, month, key_prefix=key_prefix)
    if failed is not None:
        with suppress(WarehouseUnavailableError), database.begin() as connection:
            state = state_of(connection, Derived.of(mart), account, month)
            keep_try(connection, Derived.of(mart), state, run_id=run_id, error=failed)
        raise failed
    return build_partition(database, mart, account, month, parameters=parameters, run_id=run_id)


def failed_input(
    problems: Problems, mart: Mart, account: str, month: Window | None, *, key_prefix: str = ""
) -> InputProblemError | None:
    """Return why a partition of a mart must not be built: the slice of an input has a problem.

    A mart of whole accounts reads no month that is older than three. An input that is not required stops a mart, too,
    unless it was never tried.
    """
    for source in mart.inputs:
        of_input = problems.get((source.dataset.name, account), {})
        for read in _months_read(source, month) if of_input else ():
            problem = of_input.get(None if read is None else read.start)
            if problem is not None:
                asset = key_prefix + source.dataset.table.replace(".", "/")
                partition = account if read is None else f"{account}|{read.start}"
                return InputProblemError(problem.kind, asset, partition, problem.sentence)
    return None


def _months_read(source: Input, month: Window | None) -> Iterator[Window | None]:
    """Yield the months of an input that a mart's partition is computed from; None of one without days."""
    if not source.dataset.is_dated:
        yield None
        return
    if month is None:
        last = Window.month_of(utc_now().date())
        first = Window.month_of(last.start - (_MONTHS_THAT_BLOCK - 1) * timedelta(days=28)).start
        days = Window(first, last.end)
    else:
        days = source.days_read(month)
    yield from days.months()
