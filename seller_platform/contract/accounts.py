"""Accounts: their attributes, their selection in requests, and the key of their rows."""

import re
from dataclasses import astuple, dataclass
from zoneinfo import ZoneInfo

from seller_platform.errors import UnusableAccountError

DEFAULT_CONNECTION = "default"

ACCOUNT_KEY = re.compile(r"[a-z]{2}-\d")
"""How keys of accounts begin. No connection is called so: problems name either of them as their account."""

_LONGEST_NAME = 32


@dataclass(frozen=True)
class Account:
    """One marketplace account, as the API describes it.

    Attributes:
        timezone: IANA name; the account's days are days of this zone. Empty where the upstream sends none.
        key: The key of its rows, which stays when the facts change; by default that of a new account.
    """

    id: int
    title: str
    country_code: str | None
    currency_code: str | None
    timezone: str
    marketplace: str | None
    seller_id: str | None
    key: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.key or account_key(self))

    @property
    def row(self) -> tuple[object, ...]:
        """The account as the API lists it, without its key."""
        return astuple(self)[:-1]

    @property
    def seller(self) -> str | None:
        """The seller and its marketplace, `<seller_id>.<marketplace>`; None where the account lacks one of them."""
        return f"{self.seller_id}.{self.marketplace}" if self.seller_id and self.marketplace else None

    @property
    def selection(self) -> dict[str, str]:
        """The query parameters that select this account and no other."""
        if self.seller_id and self.marketplace:
            return {"seller_id": self.seller_id, "marketplace_id": self.marketplace}
        return {"account_title": self.title}

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of the account's local days.

        Raises:
            UnusableAccountError: It names none, or none that exists.
        """
        zone = zone_or_none(self.timezone)
        if zone is None:
            raise UnusableAccountError(f"account {self.key}", self.problem or "")
        return zone

    @property
    def problem(self) -> str | None:
        """Why the account cannot be read; None where it can."""
        if zone_or_none(self.timezone) is None:
            return f"time zone {self.timezone!r} is not known" if self.timezone else "it has no time zone"
        if not self.title and self.seller is None:
            return "it has neither a title nor a seller and marketplace of its own"
        return None


def zone_or_none(name: str | None) -> ZoneInfo | None:
    """Return the zone of an IANA name; None where no zone has that name."""
    try:
        return ZoneInfo(name or "")
    except (KeyError, ValueError, OSError):
        return None


def account_key(account: Account, connection: str = DEFAULT_CONNECTION) -> str:
    """Return the key that an account gets when it is first listed, such as `us-1042`.

    It is a Dagster partition key, a legal value of a tag and a part of a path. The accounts of each connection but the
    default one have keys of their own: numbers of several APIs may be equal.
    """
    country = (account.country_code or "").lower()
    key = f"{country if re.fullmatch('[a-z]{2}', country) else 'xx'}-{account.id}"
    if connection == DEFAULT_CONNECTION:
        return key
    return f"{key}.{re.sub('[^A-Za-z0-9_-]', '_', connection)[:_LONGEST_NAME]}"
