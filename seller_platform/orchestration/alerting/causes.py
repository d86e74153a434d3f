"""Groups failures by their cause: one message reports all failures of a cause.

A cause that was resolved and fails again is reported again.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b

import msgspec

from seller_platform.clocks import is_past
from seller_platform.counts import count_of

RUN = "Run"

# There may be thousands of affected partitions. When these have recovered, Dagster's storage is asked for others.
_REMEMBERED_PARTITIONS = 10
_NAMED_ACCOUNTS = 5
_LONGEST_NAME = 80
_LONGEST_EXAMPLES = 400
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
        examples: Rows that contradict a check, and their share; "" where there are none.
    """

    kind: str
    cause: str
    subject: str
    partition: str
    sentence: str
    run_id: str
    event_id: int
    failed_at: datetime
    examples: str = ""


class Cause(msgspec.Struct, rename={"affected": "struck"}):
    """A cause, which is open until all affected partitions have recovered.

    Attributes:
        partitions: For each subject, up to ten affected partitions that have not recovered yet, each with the number
            of the last event that reported its failure; "" stands for a failure without a partition. It is empty when
            these ten have recovered and others have to be looked up.
        affected: The affected subjects, with the number of affected partitions of each.
        examples: Rows that contradict a check, of the first failure.
    """

    kind: str
    sentence: str
    run_id: str
    last_seen: datetime
    partitions: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    affected: dict[str, int] = msgspec.field(default_factory=dict)
    examples: str = ""

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
        if not remembered and self.affected.get(subject, 0) <= _REMEMBERED_PARTITIONS:
            self.partitions.pop(subject, None)

    @property
    def to_look_up(self) -> list[str]:
        """The subjects of which all remembered partitions have recovered, and others may not have."""
        return [subject for subject, remembered in self.partitions.items() if not remembered]

    def remember(self, subject: str, failed: Mapping[str, int]) -> None:
        """Remember partitions of a subject that are still failed; without any the subject has recovered.

        Args:
            failed: The partitions, each with a number below that of any event that can report its recovery.
        """
        if not failed:
            del self.partitions[subject]
            return
        self.partitions[subject] = dict(list(failed.items())[:_REMEMBERED_PARTITIONS])
        self.affected[subject] = len(failed)

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
            self.causes[failure.cause].examples = failure.examples[:_LONGEST_EXAMPLES]
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


def failure_text(cause: Cause, *, link: str | None, names: Mapping[str, str]) -> str:
    """Return the message of a new cause: assets, reason, next step, accounts, examples and a link.

    Args:
        link: What to open, with its URL.
        names: Title, country and currency of accounts by key.
    """
    subjects, accounts = [], dict[str, str]()
    for subject, count in cause.affected.items():
        named = [partition for partition in cause.partitions.get(subject, ()) if partition][:_NAMED_PARTITIONS]
        more = f" and {count - len(named)} more" if count > len(named) else ""
        subjects.append(f"{subject} ({', '.join(named)}{more})" if named else subject)
        keys = [partition.partition("|")[0] for partition in named]
        accounts.update({key: f"{key} is {names[key][:_LONGEST_NAME]}" for key in keys if names.get(key)})
    lines = [f"{cause.kind} failed: {'; '.join(subjects)}", cause.sentence]
    if accounts:
        lines.append(f"Accounts: {'; '.join(list(accounts.values())[:_NAMED_ACCOUNTS])}")
    if cause.examples:
        lines.append(f"Examples: {cause.examples}")
    return "\n".join([*lines, *([link] if link else [])])


def more_text(causes: Sequence[Cause], *, link: str | None, names: Mapping[str, str]) -> str:
    """Return one message for causes that are too many for a message each."""
    first = failure_text(causes[0], link=None, names=names)
    return f"{count_of(len(causes), 'more cause')}, the first: {first}\n{link or 'The Dagster UI lists the runs.'}"


def resolved_text(cause: Cause, others: Iterable[Cause]) -> str:
    """Return the message that a cause is resolved, with what is still failed of the same assets.

    Args:
        others: The other causes; those that are open count.
    """
    still = [
        f"{subject} ({other.affected[subject]}): {other.sentence}"
        for other in others
        for subject in other.partitions
        if subject in cause.affected
    ]
    failed = f"\nStill failed, for other causes: {'; '.join(still)}" if still else ""
    return f"Resolved: {', '.join(cause.affected)}\nIt was: {cause.sentence}{failed[:_LONGEST_SENTENCE]}"


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
