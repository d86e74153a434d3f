"""Accounts: their attributes, their selection in requests, and the key of their rows."""

import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

_LEGAL_SELLER = re.compile(r"[A-Za-z0-9_-]+")
_LEGAL_MARKETPLACE = re.compile(r"[A-Za-z0-9_.-]+")
_LONGEST_KEY = 63


@dataclass(frozen=True)
class Account:
    """One marketplace account, as the API describes it.

    Attributes:
        timezone: IANA name; the account's days are days of this zone. Empty where the upstream sends none.
    """

    id: int
    title: str
    country_code: str | None
    currency_code: str | None
    timezone: str
    marketplace: str | None
    seller_id: str | None

    @property
    def key(self) -> str:
        return account_key(self.id, self.seller_id, self.marketplace)

    @property
    def selection(self) -> dict[str, str]:
        """The query parameters that select this account and no other."""
        if self.seller_id and self.marketplace:
            return {"seller_id": self.seller_id, "marketplace_id": self.marketplace}
        return {"account_title": self.title}

    @property
    def problem(self) -> str | None:
        """Why the account cannot be read; None where it can."""
        if zone_or_none(self.timezone) is None:
            return f"time zone {self.timezone!r} is not known" if self.timezone else "it has no time zone"
        if not self.title and not (self.seller_id and self.marketplace):
            return "it has neither a title nor a seller and marketplace of its own"
        return None


def zone_or_none(name: str | None) -> ZoneInfo | None:
    """Return the zone of an IANA name; None where no zone has that name."""
    try:
        return ZoneInfo(name or "")
    except (KeyError, ValueError, OSError):
        return None


def account_key(account_id: int, seller_id: str | None, marketplace: str | None) -> str:
    """Return the key of an account: a Dagster partition key and a legal tag value.

    It is `<seller_id>.<marketplace>`, or `account-<id>` where those are missing, hold characters
    that neither partition keys nor tags may hold, or grow beyond 63 characters.
    """
    key = f"{seller_id}.{marketplace}"
    if (
        seller_id
        and marketplace
        and _LEGAL_SELLER.fullmatch(seller_id)
        and _LEGAL_MARKETPLACE.fullmatch(marketplace)
        and len(key) <= _LONGEST_KEY
        and "..." not in key
    ):
        return key
    return f"account-{account_id}"
