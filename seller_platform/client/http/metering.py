"""What an API asks before it sends a request, where a connection has a budget."""

from contextlib import AbstractContextManager
from typing import Protocol


class RequestMeter(Protocol):
    """Counts the requests of a connection; threads and processes share the count."""

    @property
    def per_day(self) -> int:
        """How many requests the connection may send on one day."""

    def take(self) -> None:
        """Count a request that is about to be sent.

        Raises:
            RequestsUsedUpError: The connection may send no more today.
        """

    def reserved(self, count: int) -> "AbstractContextManager[RequestMeter]":
        """Reserve requests until the block ends, and yield the meter that uses them first.

        Raises:
            RequestsUsedUpError: Fewer are left today.
            BudgetTooSmallError: A whole day has fewer.
        """

    def for_reports(self) -> "RequestMeter":
        """Return the meter for reports, for which some requests of each day are kept."""
