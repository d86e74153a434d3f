"""A loop over partitions in which a failed partition does not stop the others."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import dagster as dg

from seller_platform.counts import count_of
from seller_platform.errors import SellerPlatformError, first_few, followed
from seller_platform.orchestration.failures import ForeseenError, in_the_ui
from seller_platform.orchestration.placement import Placement

Item = TypeVar("Item")
Result = TypeVar("Result")


class PartitionLoop:
    """Collects the errors of a step's partitions and fails the step at its end.

    Args:
        prefix: The text before a name in the log.

    Attributes:
        failures: The errors by the name of their partition, or of another part of the step.
    """

    def __init__(self, log: dg.DagsterLogManager, placement: Placement, prefix: str = "") -> None:
        self.failures: dict[str, SellerPlatformError] = {}
        self._log, self._placement, self._prefix = log, placement, prefix

    def attempt(self, items: Iterable[Item], work: Callable[[Item], Result]) -> Iterator[tuple[Item, Result]]:
        """Yield each item with the result of its work; a `SellerPlatformError` is collected instead."""
        for item in items:
            try:
                result = work(item)
            except SellerPlatformError as error:
                self.add(str(item), error)
            else:
                yield item, result

    def add(self, name: str, error: SellerPlatformError, *, subject: str | None = None) -> None:
        """Collect an error and log it, under its subject or else under its name."""
        self.failures[name] = error
        self._log.error("%s: %s", subject or f"{self._prefix}{name}", in_the_ui(str(error), self._placement))

    def fail_partitions(self, what: str, done: str, count: int) -> None:
        """Fail the step if any of its partitions failed. The message has the reason of the first.

        Args:
            what: Of which asset they are.
            done: What was not done with them, such as `built`.
            count: How many partitions the step has.

        Raises:
            dagster.Failure: A partition failed.
        """
        if not self.failures:
            return
        names, reason = list(self.failures), str(next(iter(self.failures.values())))
        were = "was" if len(names) == 1 else "were"
        message = (
            f"{len(names)} of {count_of(count, 'partition')} of {what} {were} not {done}: {first_few(names)}. "
            f"The reason of {names[0]}: {reason}"
        )
        self.fail(followed(message, "Once it is resolved, backfill the failed and missing partitions"))

    def fail(self, message: str) -> None:
        """Fail the step if there are errors, with the reason of each in the metadata.

        Raises:
            dagster.Failure: There are errors. The step is not retried: requests that can succeed later already were.
        """
        if self.failures:
            reasons = {name: str(error) for name, error in self.failures.items()}
            raise ForeseenError(message, reasons, self._placement)
