"""A loop over the partitions of a run, in which one that fails does not stop the others."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import dagster as dg

from seller_platform.errors import SellerPlatformError
from seller_platform.orchestration.tags import EXIT_CODE

Item = TypeVar("Item")
Result = TypeVar("Result")


class PartitionLoop:
    """Collects the errors of a step's partitions and fails the step at its end.

    Attributes:
        failures: The errors, by the name of the partition, or of what else the step is divided into.
    """

    def __init__(self, log: dg.DagsterLogManager, prefix: str = "") -> None:
        """Begin without failures.

        Args:
            prefix: What comes before a name in the log.
        """
        self.failures: dict[str, SellerPlatformError] = {}
        self._log, self._prefix = log, prefix

    def attempt(self, items: Iterable[Item], work: Callable[[Item], Result]) -> Iterator[tuple[Item, Result]]:
        """Yield each item with the result of its work; errors of ours are collected by the item's name."""
        for item in items:
            try:
                result = work(item)
            except SellerPlatformError as error:
                self.add(str(item), error)
            else:
                yield item, result

    def add(self, name: str, error: SellerPlatformError, *, subject: str | None = None) -> None:
        """Collect an error and log it, with another subject than the name if there is one."""
        self.failures[name] = error
        self._log.error("%s: %s", subject or f"{self._prefix}{name}", error)

    def fail_partitions(self, what: str) -> None:
        """Fail the step if any of its partitions failed.

        Args:
            what: What did not happen to which partitions, as it follows their number.

        Raises:
            dagster.Failure: One did.
        """
        self.fail(
            f"{len(self.failures)} {what}: {', '.join(self.failures)}. All others were. "
            "Mend the cause, then backfill the failed and missing partitions",
        )

    def fail(self, message: str) -> None:
        """Fail the step if anything in it failed, with the reason of each in the metadata.

        Raises:
            dagster.Failure: Something did. It is not retried here: every request was, as far as that can help.
        """
        if self.failures:
            raise dg.Failure(
                message,
                metadata={
                    **{name: str(error) for name, error in self.failures.items()},
                    EXIT_CODE: max(error.exit_code for error in self.failures.values()),
                },
                allow_retries=False,
            )
