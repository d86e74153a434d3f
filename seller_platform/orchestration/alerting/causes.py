"""Groups failures by their cause: one message reports all failures of a cause, and another that it is resolved.

A cause that was resolved and fails again is reported again.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import blake2b

import msgspec

from seller_platform.orchestration.alerting.delivery import Outbox

# Every asset fails with the same sentence where the upstream is away, or the grant was refused.
_OF_UPSTREAM = ("failed", "postponed", "refused")
_OF_DATASET = ("missing", "incomplete", "late")
# A person decides about each account.
_OF_ACCOUNT = ("held", "mismatched", "restated")

LONGEST_SENTENCE = 1_200
_MOST_CAUSES = 500
_MOST_RUNS = 500
_MOST_OTHERS = 40
_OTHERS = "others"

_REQUEST = re.compile(r"\b(GET|POST|PUT|DELETE) /\S*")
_ZONE = re.compile(r"\b[A-Z]\w+/[A-Z][\w/+\-]*")
_NUMBER = re.compile(r"\d[\d.,:\-]*")

Part = tuple[str, date | None]
"""An account and a month, or an account alone."""


@dataclass(frozen=True)
class Failure:
    """What failed of one asset or job for one reason.

    Attributes:
        kind: As in `platform.problems`, or `run failed`.
        subject: The asset, or else the job.
        sentence: The reason.
        next_step: What to do, unless the sentence says it.
        parts: Some of the slices or partitions that failed.
        count: How many did.
        accounts: Keys of accounts that the sentence may name, and that do not belong to the cause.
        open_until: The runs that must succeed, so that it is resolved.
    """

    kind: str
    subject: str
    sentence: str
    next_step: str = ""
    parts: Sequence[Part] = ()
    count: int = 1
    since: datetime | None = None
    run_id: str | None = None
    is_warning: bool = False
    accounts: Collection[str] = ()
    open_until: Sequence[str] = ()

    @property
    def cause(self) -> str:
        """The key of its cause."""
        if self.kind in _OF_ACCOUNT:
            key = f"{self.subject} {sorted(self.accounts)}"
        elif self.kind in _OF_DATASET:
            key = self.subject
        elif self.kind in _OF_UPSTREAM:
            return _digest(self.common)
        else:
            key = f"{self.subject} {self.common}"
        return _digest(f"{self.kind} {key}")

    @property
    def common(self) -> str:
        """The reason without accounts, zones, requests and numbers."""
        # Runs say the next step together with the reason.
        text = f"{self.sentence} {self.next_step if self.kind in _OF_UPSTREAM else ''}".rstrip(" .")
        for account in self.accounts:
            text = text.replace(account, "_")
        return _NUMBER.sub("#", _ZONE.sub("zone", _REQUEST.sub("request", text)))


def _digest(key: str) -> str:
    return blake2b(key.encode(), digest_size=12).hexdigest()


class Cause(msgspec.Struct):
    """A cause that was reported and is open.

    Attributes:
        title: The first line of its message, once it was written.
        sentence: The reason of its first failure, which its message has.
        others: The newest reasons of other failures.
        failed_at: The newest failure.
        open_until: For each subject, the runs that must succeed.
    """

    title: str
    sentence: str
    failed_at: datetime
    open_until: dict[str, list[str]] = msgspec.field(default_factory=dict)
    others: list[str] = msgspec.field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        """The reasons of its failures."""
        return [self.sentence, *self.others]

    def add(self, failure: Failure) -> None:
        """Add a failure."""
        sentence = failure.sentence[:LONGEST_SENTENCE]
        if sentence not in self.sentences:
            self.others = [*self.others, sentence][-_MOST_OTHERS:]
        self.failed_at = max(self.failed_at, failure.since or self.failed_at)
        until = self.open_until.setdefault(failure.subject, [])
        until += [name for name in failure.open_until if name not in until]
        del until[_MOST_RUNS:]


class Alerts(Outbox, kw_only=True):
    """The cursor of a sensor: open causes, messages to send, and what was read of Dagster.

    Attributes:
        read_to: The number of the last event.
        undecided_runs: Failed runs that Dagster may start again by itself.
    """

    read_to: int = 0
    undecided_runs: list[str] = msgspec.field(default_factory=list)
    causes: dict[str, Cause] = msgspec.field(default_factory=dict)

    def add(self, failures: Iterable[Failure], now: datetime) -> dict[str, list[Failure]]:
        """Add failures to their causes, and return the failures by cause.

        Above 500 causes, those that are not open yet count as one.
        """
        by_cause: dict[str, list[Failure]] = defaultdict(list)
        for failure in failures:
            by_cause[failure.cause].append(failure)
        known = [key for key in by_cause if key in self.causes and key != _OTHERS]
        new = [key for key in by_cause if key not in self.causes]
        for key in new[max(0, _MOST_CAUSES - len(known)) :]:
            by_cause[_OTHERS].extend(by_cause.pop(key))
        for key, of_cause in by_cause.items():
            cause = self.causes.setdefault(
                key, Cause("", of_cause[0].sentence[:LONGEST_SENTENCE], of_cause[0].since or now)
            )
            for failure in of_cause:
                cause.add(failure)
        return by_cause


def together(causes: Mapping[str, Sequence[Failure]]) -> list[list[Failure]]:
    """Return the failures of these causes, those with the same reason together."""
    alike: dict[tuple[str, str], list[Failure]] = defaultdict(list)
    for of_cause in causes.values():
        alike[of_cause[0].kind, of_cause[0].common].extend(of_cause)
    return list(alike.values())
