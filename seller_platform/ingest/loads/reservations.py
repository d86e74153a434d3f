"""Reserves the requests of a slice before it is read, where its connection has a budget for a day."""

from collections.abc import Iterator
from contextlib import contextmanager

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Dataset, Window
from seller_platform.warehouse.loads.expectations import expected_loads
from seller_platform.warehouse.postgres.database import Database


@contextmanager
def reserving(
    api: SellerApi, database: Database, dataset: Dataset, account: str, window: Window
) -> Iterator[SellerApi]:
    """Reserve what the slice is expected to take, so that no slice is begun that cannot be read to its end.

    Raises:
        RequestsUsedUpError: Fewer requests are left today. None was sent.
        BudgetTooSmallError: A whole day has fewer. None was sent.
    """
    if api.meter is None:
        yield api
        return
    (expected,) = expected_loads(database, [(dataset, account, window)], requests_per_day=api.meter.per_day)
    with api.reserving(expected.requests) as reserved:
        yield reserved
