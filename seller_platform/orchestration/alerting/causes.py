"""Causes of failures: many failures of one cause are one message, and the next comes when it was resolved between."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b

import msgspec

from seller_platform.clocks import is_past

RUN = "Run"

# Whether a cause is resolved is told by a few of the partitions that it struck, not by thousands.
_REMEMBERED_PARTITIONS = 10
_NAMED_PARTITIONS = 3
_MOST_CAUSES = 500
_MOST_LETTERS = 100
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
    """One thing that went wrong.

    Attributes:
        kind: What it is, as a message begins.
        cause: What is the same in all failures of one cause.
        place: The asset, with its check if it is one; the job where it is no asset.
        partition: The partition; "" where there is none.
        sentence: Why, with the next step.
        event_id: The event that tells of it.
    """

    kind: str
    cause: str
    place: str
    partition: str
    sentence: str
    run_id: str
    event_id: int
    failed_at: datetime


@dataclass
class Cause:
    """A cause that is not resolved yet.

    Attributes:
        partitions: Those it struck and that are not well yet, or a few of them, by place, each with the event that told
            of it last; the partition of what has none is "".
        struck: The places it struck, with how many partitions of each.
    """

    kind: str
    sentence: str
    run_id: str
    last_seen: datetime
    partitions: dict[str, dict[str, int]] = field(default_factory=dict)
    struck: dict[str, int] = field(default_factory=dict)

    def add(self, failure: Failure) -> None:
        """Take one more failure of this cause."""
        remembered = self.partitions.setdefault(failure.place, {})
        if failure.partition not in remembered:
            self.struck[failure.place] = self.struck.get(failure.place, 0) + 1
        if failure.partition in remembered or len(remembered) < _REMEMBERED_PARTITIONS:
            remembered[failure.partition] = failure.event_id
        self.last_seen = max(self.last_seen, failure.failed_at)

    def heal(self, place: str, partition: str) -> None:
        """Take note that a partition of a place is well."""
        remembered = self.partitions.get(place, {})
        remembered.pop(partition, None)
        if not remembered:
            self.partitions.pop(place, None)

    @property
    def is_resolved(self) -> bool:
        return not self.partitions


@dataclass(frozen=True)
class PendingMessage:
    """A message that the webhook has not taken yet."""

    text: str
    written_at: datetime
    attempts: int = 0
    not_before: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Whether to send it."""
        return self.not_before is None or is_past(self.not_before, now, _LONGEST_PAUSE)

    def put_off(self, now: datetime) -> "PendingMessage":
        """Return the letter as it is after an attempt that failed."""
        pause = min(_FIRST_PAUSE * 2 ** min(self.attempts, 10), _LONGEST_PAUSE)
        return PendingMessage(self.text, self.written_at, self.attempts + 1, now + pause)


@dataclass
class Alerts:
    """What a sensor remembers from tick to tick: how far it has read, which causes are open, what is to be sent.

    Attributes:
        retried: The runs that failed and are to be started again, with the event that tells of it.
    """

    read_to: int
    retried: dict[str, int] = field(default_factory=dict)
    causes: dict[str, Cause] = field(default_factory=dict)
    letters: list[PendingMessage] = field(default_factory=list)

    @classmethod
    def read(cls, cursor: str) -> "Alerts":
        return msgspec.json.decode(cursor, type=cls)

    @property
    def cursor(self) -> str:
        return msgspec.json.encode(self).decode()

    def take(self, failure: Failure) -> None:
        """Take a failure, of a cause that is open or of a new one."""
        if failure.cause not in self.causes:
            self.causes[failure.cause] = Cause(
                failure.kind, failure.sentence[:_LONGEST_SENTENCE], failure.run_id, failure.failed_at
            )
        self.causes[failure.cause].add(failure)

    def heal(self, place: str, partition: str) -> None:
        """Take note that a partition of a place is well, whatever the cause was."""
        for cause in self.causes.values():
            cause.heal(place, partition)

    def forget(self, now: datetime) -> None:
        """Forget the causes that are resolved or were not seen for long, and the oldest where there are too many."""
        newest = sorted(self.causes.items(), key=lambda item: item[1].last_seen, reverse=True)[:_MOST_CAUSES]
        self.causes = {
            key: cause for key, cause in newest if not cause.is_resolved and now - cause.last_seen < _FORGOTTEN_AFTER
        }

    def write(self, text: str, now: datetime) -> list[PendingMessage]:
        """Add a letter; return those that there is no more room for, the oldest."""
        letters = [*self.letters, PendingMessage(text, now)]
        self.letters = letters[-_MOST_LETTERS:]
        return letters[:-_MOST_LETTERS]


def cause_of(kind: str, place: str, sentence: str, accounts: Collection[str]) -> str:
    """Return what is the same in all failures of one cause, whichever account, zone, request or number they are of.

    An upstream that is away strikes every asset by the same sentence, and is one cause; so is a grant that is refused.
    What a check finds is a matter of its own asset.

    Args:
        accounts: The keys of accounts, which are no part of a cause.
    """

    def masked(word: re.Match[str]) -> str:
        return "_" if word[0].rstrip(".") in accounts else word[0]

    told = _NUMBER.sub("#", _ZONE.sub("zone", _REQUEST.sub("request", _WORD.sub(masked, sentence))))
    named = told if kind == RUN else f"{kind} {place}: {told}"
    return blake2b(named.encode(), digest_size=12).hexdigest()


def failure_text(cause: Cause, *, run_url: str | None) -> str:
    """Return the message of a new cause: what, where, why and the next step, and where to look."""
    where = "; ".join(_struck(cause))
    return f"{cause.kind} failed: {where}\n{cause.sentence}" + (f"\nRun: {run_url}" if run_url else "")


def more_text(causes: Sequence[Cause]) -> str:
    """Return the one message for causes that are too many to be told one by one."""
    first = causes[0]
    return f"{len(causes)} more causes, the first: {failure_text(first, run_url=None)}\nThe Dagster UI lists the runs."


def resolved_text(cause: Cause) -> str:
    """Return the message that a cause is resolved."""
    return f"Resolved: {', '.join(cause.struck)}\nIt was: {cause.sentence}"


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets: neither those given, nor credentials in URLs, nor bearer tokens."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return _CREDENTIALS.sub("***", text)


def slack_payload(text: str) -> dict[str, object]:
    """Return a message as Slack's incoming webhooks take it."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    title, _, rest = escaped.partition("\n")
    body = f"*{title}*" + (f"\n{rest}" if rest else "")
    return {"text": escaped, "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": body[:3_000]}}]}


def _struck(cause: Cause) -> Iterator[str]:
    """Yield each place, with a few of its partitions and how many more there are."""
    for place, count in cause.struck.items():
        named = [partition for partition in cause.partitions.get(place, ()) if partition][:_NAMED_PARTITIONS]
        more = f" and {count - len(named)} more" if count > len(named) else ""
        yield f"{place} ({', '.join(named)}{more})" if named else place
