"""How an account is named beside its key: title, country and currency, in metadata, run tags and texts."""

import re
import threading
import unicodedata
from collections.abc import Iterable

from seller_platform.contract import Window
from seller_platform.orchestration.tags import ACCOUNT_TITLE_TAG
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts_by_key
from seller_platform.warehouse.postgres.database import Database

# Dagster allows these characters in the value of a tag, and so many of them.
_ILLEGAL_IN_TAGS = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_TAG = 63


class AccountNames:
    """The accounts of a warehouse by key; each is read once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read: dict[str, KnownAccount] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> KnownAccount | None:
        """Return the account of a key, retired or not; None where the warehouse has none."""
        with self._lock:
            if key not in self._read:
                self._read.update(accounts_by_key(self._database, [key]))
            return self._read.get(key)


def name_of(account: KnownAccount) -> str:
    """Return title, country and currency of an account, without those that it does not have."""
    facts = account.account
    return ", ".join(filter(None, (facts.title.strip(), facts.country_code, facts.currency_code)))


def subject_of(key: str, month: Window | None, account: KnownAccount | None) -> str:
    """Return what a partition holds, for the head of a chart: names and key of its account, and its month."""
    named = f"{name_of(account)} ({key})" if account is not None and name_of(account) else key
    return f"{named}, {month.start:%B %Y}" if month else named


def account_metadata(account: KnownAccount | None) -> dict[str, str]:
    """Return the metadata that names the account of a partition; empty for an unknown account."""
    if account is None:
        return {}
    facts = account.account
    named = {"account_title": facts.title, "country": facts.country_code, "currency": facts.currency_code}
    return {name: value for name, value in named.items() if value}


def title_tags(account: KnownAccount | None) -> dict[str, str]:
    """Return the run tag with title, country and currency, in the characters that Dagster allows.

    Letters lose their accents. A title without a Latin letter or digit is replaced by the account's key.
    """
    if account is None:
        return {}
    facts = account.account
    ends = [spelled for value in (facts.country_code, facts.currency_code) if (spelled := _spelled(value or ""))]
    title = _spelled(facts.title) or _spelled(account.key)
    length = _LONGEST_TAG - sum(len(end) + 1 for end in ends)
    return {ACCOUNT_TITLE_TAG: ".".join([title[:length].rstrip("_-"), *ends])}


def account_of_all(keys: Iterable[str], names: AccountNames) -> KnownAccount | None:
    """Return the account to which all partition keys belong; None where there are several, or where it is unknown."""
    of_accounts = {str(key).partition("|")[0] for key in keys}
    return names.get(of_accounts.pop()) if len(of_accounts) == 1 else None


def _spelled(text: str) -> str:
    latin = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return _ILLEGAL_IN_TAGS.sub("_", latin).strip("_-")
