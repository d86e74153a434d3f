"""Compares stored slices with the upstream by value, and repairs what differs."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum

import msgspec

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Window
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import NotOfferedError, ReadingHeldError
from seller_platform.ingest.loads.accounts import discover, read_accounts
from seller_platform.ingest.loads.loading import SliceLoader, SliceResult, load_each
from seller_platform.ingest.loads.slices import SliceRequest, read_slice
from seller_platform.warehouse.connections.accounts import account_of, connections
from seller_platform.warehouse.history.changes import Row, compared
from seller_platform.warehouse.loads.difference import RowsApart
from seller_platform.warehouse.loads.receipts import Receipt, Slice
from seller_platform.warehouse.loads.slices import open_load

_ROWS_SHOWN = 5
_FIELDS_SHOWN = 6


class ComparisonResult(StrEnum):
    """How a stored slice compares with the upstream."""

    EQUAL = "equal"
    DIFFERENT = "different"
    REPAIRED = "repaired"
    HELD = "held"
    FAILED = "failed"
    NOT_OFFERED = "not offered"


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a stored slice compares with what the upstream lists.

    Attributes:
        first_day: Null for a list without days.
        may_have_changed: The list was expected to change after it was read.
        listed: How many rows the upstream lists.
        not_stored: How many of them were not stored.
        not_listed: How many rows were stored, and are not listed.
        examples: The first of these rows, a sentence each.
        problem: Why it could not be compared or repaired, or is held.
        exit_code: That of the problem; 0 without one.
    """

    dataset: str
    account: str
    first_day: date | None
    last_day: date | None
    may_have_changed: bool
    result: ComparisonResult
    listed: int
    not_stored: int
    not_listed: int
    examples: list[str]
    problem: str | None
    exit_code: int

    @property
    def name(self) -> str:
        """The dataset, the account and the days."""
        days = f", {self.first_day}..{self.last_day}" if self.first_day else ""
        return f"{self.dataset} of {self.account}{days}"


@dataclass(frozen=True)
class SliceComparer(SliceLoader):
    """Compares slices, and loads those that differ if it repairs; threads may share it.

    Attributes:
        repairs: Who asked to store what differs; None where nothing is stored.
        compared: How many rows are listed of each slice that was read, and the rows that it and the table do not share.
    """

    repairs: str | None = None
    compared: dict[SliceRequest, tuple[int, RowsApart]] = field(default_factory=dict)

    def load(self, request: SliceRequest) -> Receipt | None:
        """Compare a slice, and load it if it differs and is to be repaired, as `load_slice` and `discover` do.

        The list of a connection's accounts is a slice, too; the name of the connection stands for the account.
        """
        account = None if request.dataset == ACCOUNTS else account_of(self.database, request.account)
        name = request.account if account is None else account.connection
        api = self.api(name).listening(lambda wait: self.on_wait(request, str(wait)))
        if account is None:
            slice_ = Slice(ACCOUNTS, name, Window.day(utc_now().date()))
        else:
            window = request.month or Window.day(self.now.astimezone(account.zone).date())
            slice_ = Slice.of(account, request.dataset, window)
        with open_load(self.database, slice_, by_value="a comparison") as load:
            if account is None:
                read_accounts(api, self.database, load)
            else:
                read_slice(api, self.database, account, load)
            _, apart = self.compared[request] = load.spool.count, load.compare()
        if self.repairs is None or not (apart.listed or apart.stored):
            return None
        if account is None:
            (connection,) = (each for each in connections(self.database) if each.name == name)
            return discover(lambda _: api, self.database, connection, run_id=None, repairs=self.repairs)[1]
        # The comparison was the first reading.
        return super().load(replace(request, by_value=self.repairs, is_second=True))

    def compare_each(
        self, requests: Sequence[SliceRequest], changing: Collection[SliceRequest] = ()
    ) -> Iterator[Comparison]:
        """Compare slices as `load_each` loads them, and yield the comparisons in order.

        Args:
            changing: The slices that were expected to change after they were read.
        """
        for result in load_each(requests, self, records=False):
            rows = self.compared.pop(result.request, None)
            request = replace(result.request, lookback_days=None)
            yield comparison_of(result, rows, may_have_changed=request in changing)


def comparison_of(
    of: SliceResult, rows: tuple[int, RowsApart] | None = None, *, may_have_changed: bool = False
) -> Comparison:
    """Return how a slice compares.

    Args:
        of: What was loaded of it, if it differed, and why it could not be compared or repaired.
        rows: As the attribute `compared` of the comparer has it; None where it was not read.
    """
    listed, apart = rows or (0, RowsApart(0, 0, (), ()))
    results = {NotOfferedError: ComparisonResult.NOT_OFFERED, ReadingHeldError: ComparisonResult.HELD}
    if of.error is not None:
        result = results.get(type(of.error), ComparisonResult.FAILED)
    elif of.receipt is not None:
        result = ComparisonResult.REPAIRED
    else:
        result = ComparisonResult.DIFFERENT if apart.listed or apart.stored else ComparisonResult.EQUAL
    month = of.request.month
    return Comparison(
        dataset=of.request.dataset.name,
        account=of.request.account,
        first_day=month.start if month else None,
        last_day=month.last_day if month else None,
        may_have_changed=may_have_changed,
        result=result,
        listed=listed,
        not_stored=apart.listed,
        not_listed=apart.stored,
        examples=list(_examples(of.request.dataset, apart)),
        problem=None if of.error is None else str(of.error),
        exit_code=0 if of.error is None else of.error.exit_code,
    )


def _examples(dataset: Dataset, apart: RowsApart) -> Iterator[str]:
    """Yield a sentence for each of the first rows."""

    def named(row: Row) -> str:
        names = dataset.key or tuple(row)
        return ", ".join([f"{name} {row[name]}" for name in names if row[name] is not None][:_FIELDS_SHOWN])

    listed, stored, changed = compared(dataset, apart.first_stored, apart.first_listed)
    lines = [
        f"{named(row.before)}: {name} {row.before[name]} is stored, {value} is listed"
        for row in changed
        for name, value in row.after.items()
        if row.before[name] != value
    ]
    lines += [*(f"{named(row)}: not stored" for row in listed), *(f"{named(row)}: not listed" for row in stored)]
    yield from lines[:_ROWS_SHOWN]
    if len(lines) > _ROWS_SHOWN:
        yield f"and {count_of(max(apart.listed, apart.stored, len(lines)) - _ROWS_SHOWN, 'more row')}"
