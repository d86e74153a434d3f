"""Groups problems by their cause, which one message reports."""

import re
from collections.abc import Iterable
from hashlib import blake2b

from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.warehouse.monitoring.problems import Problem

# Every dataset fails with the same sentence where the upstream is away, or the grant was refused.
_OF_UPSTREAM = ("failed", "postponed", "refused")
_OF_DATASET = ("missing", "incomplete", "late")
# A person decides about each account.
_OF_ACCOUNT = ("held", "mismatched", "restated")

_REQUEST = re.compile(r"\b(GET|POST|PUT|DELETE) /\S*")
_ZONE = re.compile(r"\b[A-Z]\w+/[A-Z][\w/+\-]*")
_NUMBER = re.compile(r"\d[\d.,:\-]*")


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
