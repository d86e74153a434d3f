"""Expects requests, rows and seconds of loads from the receipts of earlier ones.

A slice that was begun, and for which the requests of a day did not suffice, is expected to take twice what was sent.
That is at most what a day has for it, unless as many were sent already.
Without a receipt of a dataset a list is expected to fit one page: one request for each value of its filter, and one for
the unfiltered list. Costs take a request for each product that is known.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil

from sqlalchemy import func, select, text, union

from seller_platform.contract import LOCAL_DAY, Dataset, Source, Window
from seller_platform.contract.datasets.inventory import INVENTORY
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import SLICES, table_for

SECONDS_OF_A_REQUEST = 0.5
"""How long a request is expected to take where no receipt says."""

_SHARE_OF_A_SLICE = 0.9
"""The share of a day's requests that one slice can use. Accounts are discovered with the others."""

# Of each slice: the newest receipt of the same days, and those of at most as many days and of more. Only these are
# read, by index: days that are read every 15 minutes have thousands.
_CANDIDATES = """
    SELECT DISTINCT slice.dataset, slice.account, receipt.*
    FROM unnest(CAST(:datasets AS text[]), CAST(:accounts AS text[]), CAST(:firsts AS date[]), CAST(:afters AS date[]))
         AS slice (dataset, account, first, after)
    CROSS JOIN LATERAL ({receipts}) AS receipt
    ORDER BY receipt.id DESC
"""
_RECEIPT = """
    (SELECT id, window_start, window_end, requests, rows,
            extract(epoch FROM greatest(finished_at - started_at, '0'))::float8
     FROM platform.readings
     WHERE readings.dataset = slice.dataset AND {condition}
     ORDER BY {order} LIMIT 1)
"""
_DAYS, _WANTED = "window_end - window_start", "slice.after - slice.first"
_LIKE = ((f"{_DAYS} <= {_WANTED}", f"{_DAYS} DESC, id DESC"), (f"{_DAYS} > {_WANTED}", f"{_DAYS}, id DESC"))
# The sum keeps PostgreSQL from reading all receipts by their number.
_SAME = (("window_start = slice.first AND window_end = slice.after", "id + 0 DESC"),)
_RECEIPTS = (
    [_RECEIPT.format(condition=of_account + condition, order=order) for condition, order in forms]
    for of_account, forms in (("readings.account = slice.account AND ", _SAME + _LIKE), ("", _LIKE))
)
_OF_PAIRS, _OF_DATASETS = (text(_CANDIDATES.format(receipts=" UNION ALL ".join(each))) for each in _RECEIPTS)


class Basis(StrEnum):
    """What an expectation follows from."""

    SAME = "receipt of the slice"
    ALIKE = "receipt of a like slice"
    NONE = "estimate"


@dataclass(frozen=True)
class ExpectedLoad:
    """What the load of a slice is expected to take.

    Attributes:
        rows: None where no receipt says.
    """

    requests: int
    rows: int | None
    seconds: float
    basis: Basis


@dataclass(frozen=True)
class _PastLoad:
    """The facts of a receipt that later loads are expected to repeat."""

    window: Window
    requests: int
    rows: int
    seconds: float


def expected_loads(
    database: Database, slices: Sequence[tuple[Dataset, str, Window]], *, requests_per_day: int | None
) -> list[ExpectedLoad]:
    """Return what the load of each slice is expected to take.

    The newest receipt of the same days decides; else the newest one of that account whose days are most nearly as many,
    else one of another account.

    Args:
        slices: Each dataset with an account and the days to read.
        requests_per_day: How many requests each connection may send on one day; None for any number.
    """
    own, of_others = _past_loads(database, slices)
    columns = (SLICES.c.dataset, SLICES.c.account, SLICES.c.month, SLICES.c.requests_in_vain)
    rows = database.execute(select(*columns).where(SLICES.c.requests_in_vain > 0))
    in_vain = {(dataset, account, month): sent for dataset, account, month, sent in rows}
    expected = []
    for dataset, account, window in slices:
        past = own.get((dataset.name, account)) or of_others.get(dataset.name)
        load = _expected(database, dataset, account, window, past)
        sent = in_vain.get((dataset.name, account, window.start.replace(day=1) if dataset.is_dated else None), 0)
        budget = float("inf") if requests_per_day is None else int(_SHARE_OF_A_SLICE * requests_per_day)
        least = int(min(2 * sent, max(sent + 1, budget))) if sent else 0
        expected.append(load if load.requests >= least else replace(load, requests=least))
    return expected


def fewest_requests(dataset: Dataset) -> int:
    """Return how many requests a slice takes whose lists fit one page each."""
    if dataset.source is Source.DISCOVERY:
        return 2  # the user, and the accounts
    split = dataset.split_by
    return 1 if split is None else len(split.values) + (not split.required)


def _past_loads(
    database: Database, slices: Sequence[tuple[Dataset, str, Window]]
) -> tuple[Mapping[tuple[str, str], list[_PastLoad]], Mapping[str, list[_PastLoad]]]:
    """Return past loads like the slices of each pair, newest first, and those of datasets of which a pair has none."""
    own: dict[tuple[str, str], list[_PastLoad]] = defaultdict(list)
    of_others: dict[str, list[_PastLoad]] = defaultdict(list)

    def bound(chosen: Collection[tuple[str, str, Window]]) -> dict[str, list[object]]:
        return {
            "datasets": [name for name, _, _ in chosen],
            "accounts": [account for _, account, _ in chosen],
            "firsts": [window.start for _, _, window in chosen],
            "afters": [window.end for _, _, window in chosen],
        }

    wanted = {(dataset.name, account, window) for dataset, account, window in slices}
    with database.begin() as connection:
        for name, account, _, first, after, *facts in connection.execute(_OF_PAIRS, bound(wanted)).all():
            own[name, account].append(_PastLoad(Window(first, after), *facts))
        without = {(name, "", window) for name, account, window in wanted if (name, account) not in own}
        for name, _, _, first, after, *facts in connection.execute(_OF_DATASETS, bound(without)) if without else ():
            of_others[name].append(_PastLoad(Window(first, after), *facts))
    return own, of_others


def _expected(
    database: Database, dataset: Dataset, account: str, window: Window, past: Sequence[_PastLoad] | None
) -> ExpectedLoad:
    if not past:
        is_lookup = dataset.source is Source.PRODUCT_LOOKUP
        requests = max(1, len(skus_of_account(database, account))) if is_lookup else fewest_requests(dataset)
        return ExpectedLoad(requests, None, requests * SECONDS_OF_A_REQUEST, Basis.NONE)
    same = next((each for each in past if each.window == window), None)
    if same is not None or not dataset.is_dated:
        like = same or past[0]
        basis = Basis.ALIKE if same is None else Basis.SAME
        return ExpectedLoad(max(1, like.requests), like.rows, like.seconds, basis)
    like = min(past, key=lambda each: abs(each.window.days - window.days))
    share = window.days / max(1, like.window.days)
    rows = round(like.rows * share)
    fewest, size = fewest_requests(dataset), max(dataset.page_sizes, default=dataset.fixed_page_size)
    beyond = ceil(max(0, like.requests - fewest) * share)
    # Several pages are read with the first one again at their end; a few rows more than a page take two more requests.
    of_pages = 0 if size is None or rows <= size else ceil(rows / size)
    requests = fewest + max(beyond, of_pages)
    seconds = like.seconds * requests / max(1, like.requests)
    return ExpectedLoad(requests, rows, seconds, Basis.ALIKE)


def skus_of_account(database: Database, account: str) -> list[str]:
    """Return the SKUs of the account's newest inventory and of its daily sales, in order."""
    stock, sales = table_for(INVENTORY), table_for(DAILY_PRODUCT_SALES)
    newest = select(func.max(stock.c[LOCAL_DAY])).where(stock.c.account == account).scalar_subquery()
    stocked = select(stock.c.sku).where(stock.c.account == account, stock.c[LOCAL_DAY] == newest)
    sold = select(sales.c.sku).where(sales.c.account == account)
    # A row without its key is of no product.
    return sorted(filter(None, database.execute(union(stocked, sold)).scalars()))
