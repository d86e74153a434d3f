"""What `doctor` finds: a verdict on one prerequisite each, with the next step."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from seller_platform.errors import SellerPlatformError


class FindingLevel(StrEnum):
    """Whether a prerequisite is met; what is doubtful does not stop the work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """What was found of one prerequisite.

    Attributes:
        next_step: What to do about it; empty where there is nothing to do.
    """

    subject: str
    verdict: FindingLevel
    message: str
    next_step: str = ""


def ok(subject: str, message: str) -> Finding:
    """Return that a prerequisite is met."""
    return Finding(subject, FindingLevel.OK, message)


def warn(subject: str, message: str, next_step: str) -> Finding:
    """Return that a prerequisite is doubtful."""
    return Finding(subject, FindingLevel.WARN, message, next_step)


def fail(subject: str, message: str, next_step: str) -> Finding:
    """Return that a prerequisite is not met."""
    return Finding(subject, FindingLevel.FAIL, message, next_step)


def failed(subject: str, error: SellerPlatformError) -> Finding:
    """Return that an error stands in the way; its message ends with the next step."""
    return fail(subject, str(error), "as said")


def examined(subject: str, examine: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield what an examination finds; an error that ends it is a finding too."""
    try:
        yield from examine()
    except SellerPlatformError as error:
        yield failed(subject, error)
