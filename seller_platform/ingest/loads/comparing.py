"""Compares stored slices with the upstream by value, and repairs what differs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from seller_platform.client.http.api import SellerApi
from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Window
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import ReadingHeldError, SellerPlatformError
from seller_platform.ingest.loads.accounts import discover, read_accounts
from seller_platform.ingest.loads.loading import SliceLoader, load_each
from seller_platform.ingest.loads.slices import SliceRequest, read_slice
from seller_platform.warehouse.connections.accounts import KnownConnection, account_of
from seller_platform.warehouse.history.changes import Row, compared
from seller_platform.warehouse.loads.difference import RowsApart
from seller_platform.warehouse.loads.slices import Load, Receipt, Slice, open_load
from seller_platform.warehouse.postgres.database import Database

_ROWS_SHOWN = 5
_FIELDS_SHOWN = 6


class ComparisonResult(Enum):
    """How a stored slice compares with the upstream."""

    EQUAL = "equal"
    DIFFERENT = "different"
    REPAIRED = "repaired"
    HELD = "held"
    FAILED = "failed"


@dataclass(frozen=True)
class ComparedRows:
    """How the rows of a slice compare.

    Attributes:
        listed: How many rows the upstream lists.
        not_stored: How many of them were not stored.
        not_listed: How many rows were stored, and are not listed.
        examples: The first of these rows, a sentence each.
    """

    listed: int
    not_stored: int
    not_listed: int
    examples: tuple[str, ...]

    @property
    def are_equal(self) -> bool:
        return not (self.not_stored or self.not_listed)

    @classmethod
    def of(cls, load: Load) -> "ComparedRows":
        """Compare what was read into the spool of a load."""
        apart = load.compare()
        return cls(load.spool.count, apart.listed, apart.stored, tuple(_examples(load.slice.dataset, apart)))


@dataclass(frozen=True)
class Comparison:
    """A slice, and how it compares.

    Attributes:
        rows: None where it could not be read.
        receipt: The load that stored what differed.
        error: Why it could not be compared or repaired, or that its reading is held.
    """

    request: SliceRequest
    rows: ComparedRows | None = None
    receipt: Receipt | None = None
    error: SellerPlatformError | None = None

    @property
    def result(self) -> ComparisonResult:
        if self.error is not None or self.rows is None:
            return ComparisonResult.HELD if isinstance(self.error, ReadingHeldError) else ComparisonResult.FAILED
        if self.receipt is not None:
            return ComparisonResult.REPAIRED
        return ComparisonResult.EQUAL if self.rows.are_equal else ComparisonResult.DIFFERENT


@dataclass(frozen=True)
class SliceComparer(SliceLoader):
    """Compares slices, and loads those that differ if it repairs; threads may share it.

    Attributes:
        repairs: What differs is stored.
        compared: How the rows of slices compare that were read.
    """

    repairs: bool = False
    compared: dict[SliceRequest, ComparedRows] = field(default_factory=dict)

    def load(self, request: SliceRequest) -> Receipt | None:
        """Compare a slice, and load it if it differs and is to be repaired.

        Raises:
            SellerPlatformError: As `load_slice` does.
        """
        account = account_of(self.database, request.account)
        api = self.api(account.connection).listening(lambda wait: self.on_wait(request, str(wait)))
        window = request.month or Window.day(self.now.astimezone(account.zone).date())
        with open_load(self.database, Slice.of(account, request.dataset, window), by_value=True) as load:
            read_slice(api, self.database, account, load)
            rows = self.compared[request] = ComparedRows.of(load)
        if rows.are_equal or not self.repairs:
            return None
        # The comparison was the first reading.
        return super().load(replace(request, by_value=True, repairs=True, is_second=True))


def compare_each(requests: Sequence[SliceRequest], comparer: SliceComparer) -> Iterator[Comparison]:
    """Compare slices as `load_each` loads them, and yield the comparisons in order."""
    for result in load_each(requests, comparer, records=False):
        rows = comparer.compared.pop(result.request, None)
        yield Comparison(result.request, rows, result.receipt, result.error)


def compare_accounts(
    api: Callable[[str], SellerApi], database: Database, connection: KnownConnection, *, repairs: bool
) -> Comparison:
    """Compare the stored list of a connection's accounts."""
    comparison = Comparison(SliceRequest(ACCOUNTS, connection.name, None))
    try:
        with open_load(database, Slice(ACCOUNTS, connection.name, Window.day(utc_now().date())), by_value=True) as load:
            read_accounts(api(connection.name), load)
            comparison = replace(comparison, rows=ComparedRows.of(load))
        if not repairs or comparison.result is ComparisonResult.EQUAL:
            return comparison
        _, receipt = discover(api(connection.name), database, connection, run_id=None, repairs=True)
        return replace(comparison, receipt=receipt)
    except SellerPlatformError as error:
        return replace(comparison, error=error)


def _examples(dataset: Dataset, apart: RowsApart) -> Iterator[str]:
    """Yield a sentence for each of the first rows."""
    listed, stored, changed = compared(dataset, apart.first_stored, apart.first_listed)
    lines = [
        *(f"{_named(dataset, before)}: {', '.join(_changes(before, after))}" for before, after in changed),
        *(f"{_named(dataset, row)}: not stored" for row in listed),
        *(f"{_named(dataset, row)}: not listed" for row in stored),
    ]
    yield from lines[:_ROWS_SHOWN]
    if len(lines) > _ROWS_SHOWN:
        yield f"and {count_of(max(apart.listed, apart.stored, len(lines)) - _ROWS_SHOWN, 'more row')}"


def _named(dataset: Dataset, row: Row) -> str:
    """Return what names a row: its key, or else its first values."""
    names = dataset.key or tuple(row)
    return ", ".join([f"{name} {row[name]}" for name in names if row[name] is not None][:_FIELDS_SHOWN])


def _changes(before: Row, after: Row) -> Iterator[str]:
    for name, value in after.items():
        if before[name] != value:
            yield f"{name} {before[name]} is stored, {value} is listed"
