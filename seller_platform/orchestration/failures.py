"""Failures of a step and of its partitions: sentences without a stack trace, with next steps of the UI."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import dagster as dg
from pydantic import AfterValidator, ValidationError

from seller_platform.commands import with_names
from seller_platform.contract.window import read_month
from seller_platform.counts import count_of
from seller_platform.errors import SellerPlatformError, first_few, followed
from seller_platform.orchestration.dagster_internals import DagsterUserCodeProcessError, SerializableErrorInfo
from seller_platform.orchestration.placement import WHOLE, Placement

Item = TypeVar("Item")
Result = TypeVar("Result")

ACCOUNTS_FIELD = "The accounts, by their keys or titles; empty for every account."
"""The description of config that chooses accounts."""

Month = Annotated[str, AfterValidator(lambda text: f"{read_month(text):%Y-%m}")]
"""The type of config that names a month, as YYYY-MM."""

_COMMAND = r"`(?:[^`]* )?seller-platform "
_IN_THE_UI = (
    (rf"{_COMMAND}accept (\d+)`(?: or the job accept_held of the Dagster UI)?", r"the job accept_held of load \1"),
    (rf"{_COMMAND}accept LOAD`", "the job accept_held"),
    (rf"{_COMMAND}held`", "the failed checks reading_is_plausible"),
    (rf"{_COMMAND}report request`", "the job request_reports"),
    (rf"{_COMMAND}costs apply[^`]*`", "the job write_costs"),
    (rf"Run {_COMMAND}status`", "The failed checks say what is wrong"),
    (rf", or run {_COMMAND}sync`", ""),
    (rf"{_COMMAND}sync[^`]*`", "*Materialize* of its partitions"),
)
"""Commands in messages, and what does the same in the UI."""


def in_the_ui(message: str, placement: Placement = WHOLE) -> str:
    """Return a message that names jobs of a component, and buttons of the UI, in place of commands where it can."""
    for command, instead in _IN_THE_UI:
        message = re.sub(command, instead, message)
    return with_names(message, placement.key_prefix)


class ForeseenError(DagsterUserCodeProcessError, dg.Failure):  # in this order, in which their constructors chain
    """A failure that the run shows as its sentence alone. The step is not retried."""

    def __init__(
        self, message: str, metadata: Mapping[str, Any] = MappingProxyType({}), placement: Placement = WHOLE
    ) -> None:
        """Keep the sentence and its metadata, in which jobs have the names that they have in the component."""
        message = in_the_ui(message, placement)
        metadata = {
            name: in_the_ui(each, placement) if isinstance(each, str) else each for name, each in metadata.items()
        }
        described = SerializableErrorInfo(message, stack=[], cls_name=None)
        facts = {"metadata": metadata, "allow_retries": False, "user_code_process_error_infos": [described]}
        super().__init__(message, **facts)  # type: ignore[no-untyped-call]  # Dagster's


@contextmanager
def foreseen(placement: Placement) -> Iterator[None]:
    """Turn an error that was raised on purpose into the failure of the step."""
    try:
        yield
    except SellerPlatformError as error:
        raise ForeseenError(str(error), placement=placement) from None


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
        if self.failures:
            names, were = list(self.failures), "was" if len(self.failures) == 1 else "were"
            failed = f"{len(names)} of {count_of(count, 'partition')} of {what} {were} not {done}: {first_few(names)}"
            reason = f"{failed}. The reason of {names[0]}: {self.failures[names[0]]}"
            self.fail(followed(reason, "Once it is resolved, backfill the failed and missing partitions"))

    def fail(self, message: str) -> None:
        """Fail the step if there are errors, with the reason of each in the metadata.

        Raises:
            dagster.Failure: There are errors. The step is not retried: requests that can succeed later already were.
        """
        if self.failures:
            reasons = {name: str(error) for name, error in self.failures.items()}
            raise ForeseenError(message, reasons, self._placement)


class CheckedConfig(dg.Config):
    """Config whose wrong values fail the step with a sentence for each of them.

    The Launchpad refuses values of another type and values that an enumeration lacks. Bounds and dates are known only
    to the run.
    """

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problems = []
            for each in error.errors():
                text = each["msg"].removeprefix("Value error, ")
                if each["type"] != "value_error":  # the text of our own validators names the value already
                    text = f"{text[:1].lower()}{text[1:]}, not {each['input']!r}"
                problems.append(f"{'.'.join(map(str, each['loc']))}: {text}")
            message = "Correct it in the Launchpad, and launch the run again."
            raise ForeseenError(f"The config cannot be used: {'; '.join(problems)}. {message}") from None
