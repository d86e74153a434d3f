"""Who asks, what they may see, and the account that a name stands for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from seller_platform.clocks import Clock, utc_now
from seller_platform.errors import RequestError, UnanswerableError, did_you_mean
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts, key_named
from seller_platform.warehouse.monitoring.metrics import evidence
from seller_platform.warehouse.postgres.database import Database


@dataclass(frozen=True)
class Asker:
    """Who asks, and what they may see.

    Attributes:
        database: The warehouse, as `open_reading` returns it.
        accounts: The keys of the accounts that may be seen; None for every account.
        reader_url: The login as which statements are executed; None if none are.
        dagster_url: The URL of the Dagster UI, for links; None without one.
    """

    database: Database
    accounts: frozenset[str] | None = None
    reader_url: str | None = None
    dagster_url: str | None = None
    clock: Clock = utc_now

    def today(self) -> dict[str, date]:
        """Return which day it is now, in UTC and by the time zones of the accounts that may be seen."""
        seen = [each for each in accounts(self.database) if self.accounts is None or each.key in self.accounts]
        return {
            "UTC": self.clock().date(),
            **dict(sorted((each.account.timezone, self.today_of(each)) for each in seen)),
        }

    def today_of(self, account: KnownAccount) -> date:
        """Return which day it is now by the time zone of an account."""
        return self.clock().astimezone(account.zone_or_utc).date()

    def bound(self) -> str:
        """Return the sentence that says how many slices of the seen accounts differ from the upstream at most."""
        return evidence(self.database, self.clock(), self.accounts).sentence

    def chosen_accounts(self, names: Sequence[str] = ()) -> Sequence[KnownAccount]:
        """Return the accounts of these keys or titles, by key; without names, all that may be seen.

        Raises:
            UnanswerableError: No account may be seen that has a name, or several have it. An account that may not be
                seen is as one that does not exist.
        """
        every = {each.key: each for each in accounts(self.database)}
        seen = {key: each for key, each in every.items() if self.accounts is None or key in self.accounts}
        if not seen:
            raise UnanswerableError("there are no accounts", "Connect accounts, or ask for access to some.")
        facts, keys = {key: each.account for key, each in seen.items()}, set[str]()
        for name in names:
            try:
                keys.add(key_named(name, facts))
            except RequestError:
                titles = {key: [account.title] for key, account in facts.items()}
                raise refused_name(name, titles, "neither the key nor the title of exactly one account") from None
        return [seen[key] for key in sorted(keys or seen)]


def refused_name(name: str, names: Mapping[str, Sequence[str]], problem: str) -> UnanswerableError:
    """Return the refusal of a name that does not stand for exactly one account or product.

    Args:
        names: What else each key is named; the candidates are those with a similar name, or a few in all.
    """
    labels = [f"{key} ({', '.join(others)})" for key, others in names.items()]
    alike = [each for each in labels if name.strip().casefold() in each.casefold()]
    every = [*names, *(each for others in names.values() for each in others)]
    return UnanswerableError(
        f"{name!r} is {problem}{'' if alike else did_you_mean(name, every)}",
        "Take the key of a candidate: what stands before the brackets.",
        (alike or labels)[:10],
    )
