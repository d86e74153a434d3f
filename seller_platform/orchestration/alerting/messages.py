"""The texts of alerts: what failed, why, since when and the next step; and what is resolved."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC

from seller_platform.counts import count_of
from seller_platform.orchestration.alerting.causes import LONGEST_SENTENCE, Cause, Failure

_NAMED_PARTS = 3
_LONGEST_NAME = 80


def failure_text(failures: Sequence[Failure], *, link: str | None, names: Mapping[str, str]) -> str:
    """Return the message of failures with one reason: what failed, why, since when, the next step and a link.

    Args:
        link: What to open, with its URL.
        names: Title, country and currency of accounts by key.
    """
    first = failures[0]
    since = min((each.since for each in failures if each.since is not None), default=None)
    lines = [
        title_of(failures, names),
        first.sentence[:LONGEST_SENTENCE],
        first.next_step,
        f"Since {since.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if since else "",
        link or "",
    ]
    return "\n".join(filter(None, lines))


def title_of(failures: Sequence[Failure], names: Mapping[str, str]) -> str:
    """Return the first line of a message: what failed."""
    by_subject: dict[str, list[Failure]] = defaultdict(list)
    for failure in failures:
        by_subject[failure.subject].append(failure)
    subjects = []
    for subject, of_subject in by_subject.items():
        parts = [part for failure in of_subject for part in failure.parts]
        named = []
        for account, month in list(dict.fromkeys(parts))[:_NAMED_PARTS]:
            titled = f"{names[account][:_LONGEST_NAME]} ({account})" if names.get(account) else account
            named.append(f"{titled}, {month:%Y-%m}" if month else titled)
        left = sum(failure.count for failure in of_subject) - len(named)
        more = f" and {left} more" if left > 0 and named else ""
        subjects.append(f"{subject} of {'; '.join(named)}{more}" if named else subject)
    warning = "Warning: " if all(failure.is_warning for failure in failures) else ""
    kind = failures[0].kind
    return f"{warning}{kind[0].upper()}{kind[1:]}: {'; '.join(subjects)}"


def more_text(groups: Sequence[Sequence[Failure]], *, link: str | None, names: Mapping[str, str]) -> str:
    """Return one message for causes that are too many for a message each."""
    first = failure_text(groups[0], link=None, names=names)
    step = link or "`SELECT * FROM platform.problems` lists what is wrong."
    return f"{count_of(len(groups), 'more cause')}, the first: {first}\n{step}"


def resolved_text(cause: Cause, still_open: Iterable[Cause]) -> str:
    """Return the message that a cause is resolved, with the open causes of the same assets."""
    still = [other.title for other in still_open if other.open_until.keys() & cause.open_until.keys()]
    others = f"\nStill open: {'; '.join(still)}" if still else ""
    return f"Resolved: {cause.title}\nIt was: {cause.sentence}{others[:LONGEST_SENTENCE]}"
