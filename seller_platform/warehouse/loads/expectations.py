"""Expects requests, rows and seconds of loads from the receipts of earlier ones.

A slice that was begun, and for which the requests of a day did not suffice, is expected to take twice what was sent.
That is at most what a day has for it, unless as many were sent already.
Without a receipt of a dataset a list is expected to fit one page: one request for each value of its filter, and one for
the unfiltered list. Costs take a request for each product that is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil
from typing import Any

from sqlalchemy import Row, func, select, text, union

from seller_platform.contract import LOCAL_DAY, Dataset, Source, Window
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.contract.datasets.stock import INVENTORY
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import SLICES, table_for

SECONDS_OF_A_REQUEST = 0.5
"""How long a request is expected to take where no receipt says."""

_SHARE_OF_A_SLICE = 0.9
"""The share of a day's requests that one slice can use. Accounts are discovered with the others."""

# Of each slice: the newest receipt of the same days, else that of the days that are most nearly as many, of the account
# if it has any. Only these are read, by index: days that are read every 15 minutes have thousands.
_RECEIPTS = """
    SELECT slice.number, receipt.account, receipt.is_same, receipt.days, receipt.requests, receipt.rows, receipt.seconds
    FROM unnest(CAST(:datasets AS text[]), CAST(:accounts AS text[]), CAST(:firsts AS date[]), CAST(:afters AS date[]))
         WITH ORDINALITY AS slice (dataset, account, first, after, number)
    LEFT JOIN LATERAL ({own}) AS own ON true
    CROSS JOIN LATERAL (SELECT own.* WHERE own.id IS NOT NULL UNION ALL ({of_others})) AS receipt
"""
_NEAREST = """
    SELECT id, account, window_start = slice.first AND window_end = slice.after AS is_same,
           window_end - window_start AS days, requests, rows,
           extract(epoch FROM greatest(finished_at - started_at, '0'))::float8 AS seconds
    FROM ({}) AS candidate
    ORDER BY is_same DESC, abs(window_end - window_start - (slice.after - slice.first)), id DESC LIMIT 1
"""
_CANDIDATE = "(SELECT * FROM platform.readings WHERE dataset = slice.dataset AND {} ORDER BY {} LIMIT 1)"
_DAYS, _WANTED = "window_end - window_start", "slice.after - slice.first"
_MORE = f"""
    SELECT min({_DAYS}) FROM platform.readings WHERE dataset = slice.dataset AND {{of}} AND {_DAYS} > {_WANTED}
"""  # noqa: S608  # constants
_FORMS = (
    # The sum keeps PostgreSQL from reading all receipts by their number.
    ("{of} AND window_start = slice.first AND window_end = slice.after", "id + 0 DESC"),
    (f"{{of}} AND {_DAYS} <= {_WANTED}", f"{_DAYS} DESC, id DESC"),
    (f"{{of}} AND {_DAYS} = ({_MORE})", "id DESC"),
)
_OWN, _OF_OTHERS = (
    _NEAREST.format(" UNION ALL ".join(_CANDIDATE.format(form.format(of=of), order) for form, order in forms))
    for of, forms in (("account = slice.account", _FORMS), ("own.id IS NULL", _FORMS[1:]))
)
_EXPECTED = text(_RECEIPTS.format(own=_OWN, of_others=_OF_OTHERS))


class Basis(StrEnum):
    """What an expectation follows from."""

    SAME = "receipt of the slice"
    ALIKE = "receipt of a like slice"
    NONE = "estimate"


@dataclass(frozen=True)
class ExpectedLoad:
    """What the load of a slice is expected to take; its rows are None where no receipt says."""

    requests: int
    rows: int | None
    seconds: float
    basis: Basis


def expected_loads(
    database: Database,
    slices: Sequence[tuple[Dataset, str, Window]],
    *,
    requests_per_day: int | None,
    products: Mapping[str, int] | None = None,
) -> list[ExpectedLoad]:
    """Return what the load of each slice is expected to take.

    The newest receipt of the same days decides; else the newest one of that account whose days are most nearly as many,
    else one of another account.

    Args:
        slices: Each dataset with an account and the days to read.
        requests_per_day: How many requests each connection may send on one day; None for any number.
        products: How many products accounts have, by key, of which no list is stored.
    """
    bound = {
        "datasets": [dataset.name for dataset, _, _ in slices],
        "accounts": [account for _, account, _ in slices],
        "firsts": [window.start for _, _, window in slices],
        "afters": [window.end for _, _, window in slices],
    }
    receipts = {receipt.number: receipt for receipt in database.execute(_EXPECTED, bound)}
    columns = (SLICES.c.dataset, SLICES.c.account, SLICES.c.month, SLICES.c.requests_in_vain)
    rows = database.execute(select(*columns).where(SLICES.c.requests_in_vain > 0))
    in_vain = {(dataset, account, month): sent for dataset, account, month, sent in rows}
    expected = []
    for number, (dataset, account, window) in enumerate(slices, start=1):
        like, count = receipts.get(number), 0
        if dataset.source is Source.PRODUCT_LOOKUP and (like is None or like.account != account):
            count = len(skus_of_account(database, account)) or (products or {}).get(account, 0)
        load = _unlike(count) if count else _expected(dataset, window, like)
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


def _unlike(requests: int) -> ExpectedLoad:
    return ExpectedLoad(requests, None, requests * SECONDS_OF_A_REQUEST, Basis.NONE)


def _expected(dataset: Dataset, window: Window, like: Row[Any] | None) -> ExpectedLoad:
    """Return what a load is expected to take by a receipt like it, as far as there is one."""
    if like is None:
        return _unlike(fewest_requests(dataset))
    if like.is_same or not dataset.is_dated:
        basis = Basis.SAME if like.is_same else Basis.ALIKE
        return ExpectedLoad(max(1, like.requests), like.rows, like.seconds, basis)
    share = window.days / max(1, like.days)
    rows = round(like.rows * share)
    fewest, size = fewest_requests(dataset), max(dataset.page_sizes, default=dataset.fixed_page_size)
    beyond = ceil(max(0, like.requests - fewest) * share)
    # Several pages are read with the first one again at their end; a few rows more than a page take two more requests.
    of_pages = 0 if size is None or rows <= size else ceil(rows / size)
    requests = fewest + max(beyond, of_pages)
    return ExpectedLoad(requests, rows, like.seconds * requests / max(1, like.requests), Basis.ALIKE)


def skus_of_account(database: Database, account: str) -> list[str]:
    """Return the SKUs of the account's newest inventory and of its daily sales, in order."""
    stock, sales = table_for(INVENTORY), table_for(DAILY_PRODUCT_SALES)
    newest = select(func.max(stock.c[LOCAL_DAY])).where(stock.c.account == account).scalar_subquery()
    stocked = select(stock.c.sku).where(stock.c.account == account, stock.c[LOCAL_DAY] == newest)
    sold = select(sales.c.sku).where(sales.c.account == account)
    # A row without its key is of no product.
    return sorted(filter(None, database.execute(union(stocked, sold)).scalars()))
