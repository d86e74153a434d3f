"""The texts of alerts: what is wrong, why, since when and the next step; none has a secret. Causes group problems."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from hashlib import blake2b
from urllib.parse import quote, urlsplit

from pydantic import SecretStr

from seller_platform.commands import runnable, with_names
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.settings import Settings
from seller_platform.warehouse.monitoring.problems import Incident, Problem

LONGEST_SENTENCE = 1_200
_NAMED_INCIDENTS = 5
_SHORTEST_SECRET = 4
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?<=[Bb]earer )[\w.~+/\-]+=*")
# Every dataset fails with the same sentence where the upstream is away, or the grant was refused.
_OF_UPSTREAM = ("failed", "postponed", "refused")
_OF_DATASET = ("missing", "incomplete", "late")
# A person decides about each account.
_OF_ACCOUNT = ("held", "mismatched", "restated")
_REQUEST = re.compile(r"\b(GET|POST|PUT|DELETE) /\S*")
_ZONE = re.compile(r"\b[A-Z]\w+/[A-Z][\w/+\-]*")
_NUMBER = re.compile(r"\d[\d.,:\-]*")


def problem_text(problems: Sequence[Problem], names: Mapping[str, str], url: str | None, prefix: Sequence[str]) -> str:
    """Return the message of problems with one reason.

    Args:
        names: Title, country and currency of accounts by key.
        url: That of Dagster's UI, for a link.
        prefix: The first parts of asset keys, and of the names of jobs.
    """
    first = problems[0]
    since = min((each.since for each in problems if each.since is not None), default=None)
    lines = [
        problem_title(problems, names, prefix),
        with_names(runnable(first.message), prefix)[:LONGEST_SENTENCE],
        with_names(runnable(first.next_step or ""), prefix),
        f"Since {since.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if since else "",
        _link(first, url, prefix) if url else "",
    ]
    return "\n".join(filter(None, lines))


def incident_text(incidents: Sequence[Incident]) -> str:
    """Return the message of incidents of one kind."""
    first, lines = incidents[0], [each.line for each in incidents[:_NAMED_INCIDENTS]]
    if len(incidents) > _NAMED_INCIDENTS:
        lines.append(f"and {len(incidents) - _NAMED_INCIDENTS} more; `{first.command}` lists them")
    return runnable("\n".join((first.title, *lines, first.step)))


def problem_title(problems: Sequence[Problem], names: Mapping[str, str], prefix: Sequence[str]) -> str:
    """Return the first line of a message: what is wrong with which assets, accounts and months."""
    by_dataset: dict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        by_dataset[problem.dataset].append(problem)
    subjects = []
    for dataset, of_dataset in by_dataset.items():
        named = []
        for account, month in [part for each in of_dataset for part in zip(each.accounts, each.months, strict=True)]:
            titled = f"{names[account][:80]} ({account})" if names.get(account) else account
            named.append(f"{titled}, {month:%Y-%m}" if month else titled)
        slices = sum(each.slices for each in of_dataset)
        subjects.append(title_part(_asset(dataset, prefix), [*dict.fromkeys(named)], slices))
    warning = "Warning: " if all(each.severity != "error" for each in problems) else ""
    kind = problems[0].kind
    return f"{warning}{kind[0].upper()}{kind[1:]}: {'; '.join(subjects)}"


def title_part(subject: str, parts: Sequence[str], count: int) -> str:
    """Return a subject with the first of its parts, and how many more there are."""
    named, more = "; ".join(parts[:3]), count - len(parts[:3])
    return f"{subject} of {named}{f' and {more} more' if more > 0 else ''}" if named else subject


def _asset(dataset: str, prefix: Sequence[str]) -> str:
    path = dataset.split(".")
    return "/".join([*prefix, *(path if len(path) > 1 else ["seller", *path])])


def _link(problem: Problem, url: str, prefix: Sequence[str]) -> str:
    """Return the link to the run, or else to the partition or the checks of the asset."""
    if problem.run_id:
        return f"Run: {url}/runs/{problem.run_id}"
    asset = f"{url}/assets/{_asset(problem.dataset, prefix)}"
    account, month = next(iter(zip(problem.accounts, problem.months, strict=True)), ("", None))
    if month is None or problem.severity != "error":
        return f"Checks: {asset}?view=checks"
    return f"Partition: {asset}?view=partitions&partition={quote(f'{account}|{month}')}"


def without_secrets(text: str, settings: Settings) -> str:
    """Return a text without the secrets of the settings, without credentials in URLs, and without bearer tokens."""
    values = (getattr(settings, name) for name in type(settings).model_fields)
    secrets = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
    parts = {part for secret in secrets for part in (secret, *secret.split(","), urlsplit(secret).password or "")}
    return redacted(text, (part for part in parts if len(part) >= _SHORTEST_SECRET))


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


def cause_of(problem: Problem) -> str:
    """Return the key of a problem's cause."""
    if problem.kind in _OF_UPSTREAM:
        return key_of(common_part(problem))
    parts = {**dict.fromkeys(_OF_ACCOUNT, f"{sorted(problem.accounts)}"), **dict.fromkeys(_OF_DATASET, "")}
    return key_of(problem.kind, problem.dataset, parts.get(problem.kind, common_part(problem)))


def common_part(problem: Problem) -> str:
    """Return the sentence of a problem without accounts, zones, requests and numbers."""
    named = () if problem.dataset == ACCOUNTS.name else problem.accounts
    # Where the upstream fails, some messages say the next step, too.
    step = problem.next_step if problem.kind in _OF_UPSTREAM else None
    return without_names(f"{problem.message} {step or ''}".rstrip(" ."), named)


def without_names(sentence: str, accounts: Iterable[str]) -> str:
    """Return a sentence without these accounts, and without zones, requests and numbers."""
    for account in accounts:
        sentence = sentence.replace(account, "_")
    return _NUMBER.sub("#", _ZONE.sub("zone", _REQUEST.sub("request", sentence)))


def key_of(*parts: str) -> str:
    """Return a short key of some texts."""
    return blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()
