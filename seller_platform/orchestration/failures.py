"""Failures of a step that people can resolve: a sentence without a stack trace, with next steps of the UI."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated, Any

import dagster as dg
from pydantic import AfterValidator, ValidationError

from seller_platform.commands import with_names
from seller_platform.contract.window import read_month
from seller_platform.errors import SellerPlatformError
from seller_platform.orchestration.dagster_internals import DagsterUserCodeProcessError, SerializableErrorInfo
from seller_platform.orchestration.placement import WHOLE, Placement

ACCOUNTS_FIELD = "The accounts, by their keys or titles; empty for every account."
"""The description of config that chooses accounts."""

Month = Annotated[str, AfterValidator(lambda text: f"{read_month(text):%Y-%m}")]
"""The type of config that names a month, as YYYY-MM."""

_COMMAND = r"`(?:[^`]* )?seller-platform "
_IN_THE_UI = (
    (rf"{_COMMAND}accept (\d+)`(?: or the job accept_held of the Dagster UI)?", r"the job accept_held of load \1"),
    (rf"{_COMMAND}accept`", "the job accept_held"),
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
