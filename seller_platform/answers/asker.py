"""Who asks, what they may see, and the account that a name stands for."""

from collections.abc import Sequence
from dataclasses import dataclass

from seller_platform.clocks import Clock, utc_now
from seller_platform.errors import RequestError, UnanswerableError, did_you_mean
from seller_platform.warehouse.connections.account_names import key_named
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts
from seller_platform.warehouse.monitoring.sampling import sample
from seller_platform.warehouse.postgres.database import Database

_CANDIDATES = 10


@dataclass(frozen=True)
class Asker:
    """Who asks, and what they may see.

    Attributes:
        database: The warehouse with the rights of a reader, as `open_as_reader` lends it.
        accounts: The keys of the accounts that may be seen; None for every account.
        dagster_url: The URL of the Dagster UI, for links; None without one.
        clock: The time.
    """

    database: Database
    accounts: frozenset[str] | None = None
    dagster_url: str | None = None
    clock: Clock = utc_now

    def bound(self) -> str:
        """Return the sentence that says how many of all stored slices differ from the upstream at most."""
        return str(sample(self.database, self.clock()))

    def seen_accounts(self) -> Sequence[KnownAccount]:
        """Return the listed accounts that may be seen, by key."""
        return [each for each in accounts(self.database) if self.accounts is None or each.key in self.accounts]

    def chosen_accounts(self, names: Sequence[str]) -> Sequence[KnownAccount]:
        """Return the accounts of these keys or titles, by key; without names, all that may be seen.

        Raises:
            UnanswerableError: No account may be seen that has a name, or several have it. An account that may not be
                seen is as one that does not exist.
        """
        seen = {each.key: each for each in self.seen_accounts()}
        if not seen:
            raise UnanswerableError("there are no accounts", "Connect accounts, or ask for access to some.")
        titles = {key: each.account.title for key, each in seen.items()}
        keys = {self._key(name, titles) for name in names} or set(seen)
        return [seen[key] for key in sorted(keys)]

    def _key(self, name: str, titles: dict[str, str]) -> str:
        try:
            return key_named(name, titles)
        except RequestError:
            same = name.strip().casefold()
            listed = {f"{key} ({title})": f"{key} {title}".casefold() for key, title in titles.items()}
            alike = [each for each, text in listed.items() if same in text]
            question = "" if alike else did_you_mean(name, [*titles, *titles.values()])
            raise UnanswerableError(
                f"{name!r} is neither the key nor the title of exactly one account{question}",
                "Name an account by its key, as the candidates have it.",
                (alike or list(listed))[:_CANDIDATES],
            ) from None
