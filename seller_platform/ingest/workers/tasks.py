"""A slice to load with everything that decides how it is read, and the loader of this process."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from seller_platform.client.http.api import SellerApi
from seller_platform.ingest.loads.slices import SliceRequest, load_requested
from seller_platform.warehouse.connections.accounts import account_of
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database

OnSliceWait = Callable[[SliceRequest, str], None]
"""Receives a slice that waits for its upstream, and the reason."""


@dataclass(frozen=True)
class LoadTask:
    """A slice to load.

    Attributes:
        now: The moment that decides which days an account has.
        whole: Read the month as a whole; otherwise only the days that may have changed since they were read.
        run_id: The Dagster run, for the receipt.
        lookback_days: How many days back rows may still change; by default as the dataset says.
    """

    request: SliceRequest
    now: datetime
    whole: bool
    run_id: str | None
    lookback_days: int | None = None


class TaskLoader(Protocol):
    """Loads tasks; threads may share it."""

    def load(self, task: LoadTask, on_wait: OnSliceWait) -> Receipt | None:
        """Load the days of a task that are due; return None if there are none.

        Raises:
            SellerPlatformError: As `load_slice` does.
        """
        ...


class OwnLoader:
    """Loads tasks in this process.

    Args:
        api: Returns the API of a connection; threads call it.
    """

    def __init__(self, database: Database, api: Callable[[str], SellerApi]) -> None:
        self._database, self._api = database, api

    def load(self, task: LoadTask, on_wait: OnSliceWait) -> Receipt | None:
        """Load the days of a task that are due; return None if there are none."""
        request, database = task.request, self._database
        account = account_of(database, request.account)
        api = self._api(account.connection).listening(lambda wait: on_wait(request, str(wait)))
        return load_requested(
            api,
            database,
            account,
            request,
            now=task.now,
            whole=task.whole,
            run_id=task.run_id,
            lookback_days=task.lookback_days,
        )
