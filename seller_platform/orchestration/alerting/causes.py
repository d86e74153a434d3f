"""Groups failures by their cause: one message reports all failures of a cause.

A cause that was resolved and fails again is reported again.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b

import msgspec

from seller_platform.clocks import is_past

RUN = "Run"

# A few of the affected partitions are enough to see that a cause is resolved; there may be thousands.
_REMEMBERED_PARTITIONS = 10
_NAMED_PARTITIONS = 3
_MOST_CAUSES = 500
_MOST_MESSAGES = 100
_LONGEST_SENTENCE = 1_200
_FORGOTTEN_AFTER = timedelta(days=14)
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=30), timedelta(minutes=30)

_REQUEST = re.compile(r"\b(GET|POST|PUT|DELETE) /\S*")
_ZONE = re.compile(r"\b[A-Z]\w+/[A-Z][\w/+\-]*")
_WORD = re.compile(r"[\w.\-]+")
_NUMBER = re.compile(r"\d[\d.,:\-]*")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?<=[Bb]earer )[\w.~+/\-]+=*")


@dataclass(frozen=True)
class Failure:
    """One failure of a run or of a check.

    Attributes:
        kind: The kind of failure, with which its message begins.
        cause: The key of its cause, as `cause_of` returns it.
        subject: The asset; for a check, the asset and the check; for a step without an asset, the job.
        partition: The partition; "" where there is none.
        sentence: The reason, with the next step.
        event_id: The number of the event that reports it.
    """

    kind: str
    cause: str
    subject: str
    partition: str
    sentence: str
    run_id: str
    event_id: int
    failed_at: datetime


class Cause(msgspec.Struct, rename={"affected": "struck"}):
    """A cause, which is open until all its remembered partitions have recovered.

    Attributes:
        partitions: For each subject, up to ten affected partitions that have not recovered yet, each with the number
            of the last event that reported its failure; "" stands for a failure without a partition.
        affected: The affected subjects, with the number of affected partitions of each.
    """

    kind: str
    sentence: str
    run_id: str
    last_seen: datetime
    partitions: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    affected: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, failure: Failure) -> None:
        """Add a failure of this cause."""
        remembered = self.partitions.setdefault(failure.subject, {})
        if failure.partition not in remembered:
            self.affected[failure.subject] = self.affected.get(failure.subject, 0) + 1
        if failure.partition in remembered or len(remembered) < _REMEMBERED_PARTITIONS:
            remembered[failure.partition] = failure.event_id
        self.last_seen = max(self.last_seen, failure.failed_at)

    def resolve(self, subject: str, partition: str) -> None:
        """Remove a partition that has recovered."""
        remembered = self.partitions.get(subject, {})
        remembered.pop(partition, None)
        if not remembered:
            self.partitions.pop(subject, None)

    @property
    def is_resolved(self) -> bool:
        return not self.partitions


class PendingMessage(msgspec.Struct, frozen=True):
    """A message that the webhook has not accepted yet."""

    text: str
    written_at: datetime
    attempts: int = 0
    not_before: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Return whether to send it."""
        return self.not_before is None or is_past(self.not_before, now, _LONGEST_PAUSE)

    def put_off(self, now: datetime) -> "PendingMessage":
        """Return the message with one more failed attempt and the time of the next."""
        pause = min(_FIRST_PAUSE * 2 ** min(self.attempts, 10), _LONGEST_PAUSE)
        return PendingMessage(self.text, self.written_at, self.attempts + 1, now + pause)


class Alerts(msgspec.Struct, rename={"messages": "letters"}):
    """The cursor of a sensor: the last event read, open causes, messages to send.

    Attributes:
        retried: The failed runs that Dagster is to start again, with the number of the event of each failure.
    """

    read_to: int
    retried: dict[str, int] = msgspec.field(default_factory=dict)
    causes: dict[str, Cause] = msgspec.field(default_factory=dict)
    messages: list[PendingMessage] = msgspec.field(default_factory=list)

    @classmethod
    def read(cls, cursor: str) -> "Alerts":
        return msgspec.json.decode(cursor, type=cls)

    @property
    def cursor(self) -> str:
        return msgspec.json.encode(self).decode()

    def add(self, failure: Failure) -> None:
        """Add a failure to its cause, which is opened where it is not open yet."""
        if failure.cause not in self.causes:
            self.causes[failure.cause] = Cause(
                failure.kind, failure.sentence[:_LONGEST_SENTENCE], failure.run_id, failure.failed_at
            )
        self.causes[failure.cause].add(failure)

    def resolve(self, subject: str, partition: str) -> None:
        """Remove a partition that has recovered from every cause."""
        for cause in self.causes.values():
            cause.resolve(subject, partition)

    def forget(self, now: datetime) -> None:
        """Remove causes that are resolved or 14 days old, and the oldest above 500."""
        newest = sorted(self.causes.items(), key=lambda item: item[1].last_seen, reverse=True)[:_MOST_CAUSES]
        self.causes = {
            key: cause for key, cause in newest if not cause.is_resolved and now - cause.last_seen < _FORGOTTEN_AFTER
        }

    def add_message(self, text: str, now: datetime) -> list[PendingMessage]:
        """Add a message and return the oldest ones that had to be dropped for it."""
        messages = [*self.messages, PendingMessage(text, now)]
        self.messages = messages[-_MOST_MESSAGES:]
        return messages[:-_MOST_MESSAGES]


def cause_of(kind: str, subject: str, sentence: str, accounts: Collection[str]) -> str:
    """Return the key of a failure's cause, which leaves out accounts, zones, requests and numbers.

    Failures of runs share a cause whatever their asset: an upstream that is away fails every asset with the same
    sentence, and a refused grant does the same. A failed check belongs to its own asset.

    Args:
        accounts: The keys of all accounts.
    """

    def masked(word: re.Match[str]) -> str:
        return "_" if word[0].rstrip(".") in accounts else word[0]

    common = _NUMBER.sub("#", _ZONE.sub("zone", _REQUEST.sub("request", _WORD.sub(masked, sentence))))
    key = common if kind == RUN else f"{kind} {subject}: {common}"
    return blake2b(key.encode(), digest_size=12).hexdigest()


def failure_text(cause: Cause, *, run_url: str | None) -> str:
    """Return the message of a new cause: assets, reason, next step and the run's URL."""
    subjects = []
    for subject, count in cause.affected.items():
        named = [partition for partition in cause.partitions.get(subject, ()) if partition][:_NAMED_PARTITIONS]
        more = f" and {count - len(named)} more" if count > len(named) else ""
        subjects.append(f"{subject} ({', '.join(named)}{more})" if named else subject)
    return f"{cause.kind} failed: {'; '.join(subjects)}\n{cause.sentence}" + (f"\nRun: {run_url}" if run_url else "")


def more_text(causes: Sequence[Cause]) -> str:
    """Return one message for causes that are too many for a message each."""
    first = causes[0]
    return f"{len(causes)} more causes, the first: {failure_text(first, run_url=None)}\nThe Dagster UI lists the runs."


def resolved_text(cause: Cause) -> str:
    """Return the message that a cause is resolved."""
    return f"Resolved: {', '.join(cause.affected)}\nIt was: {cause.sentence}"


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return a text without these secrets, without credentials in URLs, and without bearer tokens."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return _CREDENTIALS.sub("***", text)


def slack_payload(text: str) -> dict[str, object]:
    """Return a message as the body of a request to a Slack incoming webhook."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    title, _, rest = escaped.partition("\n")
    body = f"*{title}*" + (f"\n{rest}" if rest else "")
    return {"text": escaped, "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": body[:3_000]}}]}
