"""The findings of `doctor`: one prerequisite each, with its level and next step."""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from seller_platform.cli.output import Document, Outcome, Output
from seller_platform.counts import count_of
from seller_platform.errors import CheckFailedError, SellerPlatformError


class FindingLevel(StrEnum):
    """Whether a prerequisite is met; a warning does not stop the work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Document, frozen=True):
    """The finding about one prerequisite.

    Attributes:
        next_step: What to do about it; empty where there is nothing to do.
    """

    subject: str
    level: FindingLevel
    message: str
    next_step: str

    @property
    def is_failure(self) -> bool:
        return self.level is FindingLevel.FAIL


class DoctorDocument(Outcome, frozen=True):
    """The findings about all prerequisites."""

    findings: list[Finding]


def ok(subject: str, message: str) -> Finding:
    """Return the finding that a prerequisite is met."""
    return Finding(subject=subject, level=FindingLevel.OK, message=message, next_step="")


def warn(subject: str, message: str, next_step: str) -> Finding:
    """Return the finding that a prerequisite may not be met."""
    return Finding(subject=subject, level=FindingLevel.WARN, message=message, next_step=next_step)


def fail(subject: str, message: str, next_step: str) -> Finding:
    """Return the finding that a prerequisite is not met."""
    return Finding(subject=subject, level=FindingLevel.FAIL, message=message, next_step=next_step)


def failed(subject: str, error: SellerPlatformError) -> Finding:
    """Return the finding of an error."""
    return fail(subject, error.problem_alone, error.next_step)


def examined(subject: str, examine: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield the findings of an examination; an error that ends it is a finding too."""
    try:
        yield from examine()
    except SellerPlatformError as error:
        yield failed(subject, error)


def report_findings(findings: Iterable[Finding], output: Output) -> None:
    """Print findings as they come; end with exit code 5 if a prerequisite is not met."""
    seen = []
    with output.progress("Checking"):
        for finding in findings:
            seen.append(finding)
            output.line(f"{finding.level:<5} {finding.subject}: {finding.message}")
            if finding.next_step:
                output.line(f"      next: {finding.next_step}")
    document = DoctorDocument(findings=seen)
    wrong = [finding.subject for finding in seen if finding.is_failure]
    if wrong:
        problem = f"{len(wrong)} of {count_of(len(seen), 'prerequisite', 'is')} not met"
        step = "Take the next step of each, then run `seller-platform doctor` again"
        output.outcome(document, CheckFailedError(f"{problem}: {', '.join(dict.fromkeys(wrong))}. {step}"))
    warned = [finding.subject for finding in seen if finding.level is FindingLevel.WARN]
    look = f"Nothing is missing. These need a look: {', '.join(dict.fromkeys(warned))}"
    output.result(look if warned else "All prerequisites are met.", document)
