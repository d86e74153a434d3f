"""How an account is named beside its key: title, country and currency, in metadata, run tags and texts."""

from collections.abc import Collection

import dagster as dg

from seller_platform.contract import Window
from seller_platform.orchestration.tags import ACCOUNT_TITLE_TAG
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts_by_key, connections
from seller_platform.warehouse.postgres.database import Database


class AccountNames:
    """The accounts of a warehouse by key, and their upstreams; each is read once."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._read: dict[str, KnownAccount] = {}
        self._base_urls: dict[str, str] = {}

    def get(self, key: str) -> KnownAccount | None:
        """Return the account of a key, retired or not; None where the warehouse has none."""
        if key not in self._read:
            self._read.update(accounts_by_key(self.database, [key]))
        return self._read.get(key)

    def title_tags(self, keys: Collection[str]) -> dict[str, str]:
        """Return the tag that names the account of a run for people; empty for a run of several accounts."""
        account = self.get(*keys) if len(keys) == 1 else None
        return {ACCOUNT_TITLE_TAG: account.label} if account is not None and account.label else {}

    def base_url_of(self, key: str) -> str | None:
        """Return the URL of the upstream of an account, or of a connection."""
        account = self.get(key)
        self._base_urls = self._base_urls or {each.name: each.base_url for each in connections(self.database)}
        return self._base_urls.get(account.connection if account else key)


def subject_of(key: str, month: Window | None, account: KnownAccount | None) -> str:
    """Return what a partition holds, for the head of a chart: names and key of its account, and its month."""
    named = f"{account.label} ({key})" if account is not None and account.label else key
    return f"{named}, {month.start:%B %Y}" if month else named


def account_metadata(account: KnownAccount | None) -> dict[str, str]:
    """Return the metadata that names the account of a partition; empty for an unknown account."""
    if account is None:
        return {}
    facts = account.account
    named = {"account_title": facts.title, "country": facts.country_code, "currency": facts.currency_code}
    return {name: value for name, value in named.items() if value}


def tag_with_account(context: dg.AssetExecutionContext, names: AccountNames) -> None:
    """Tag the run of a step with the name of its account: no planner did so for a run that a person has launched."""
    if ACCOUNT_TITLE_TAG not in context.run.tags and (context.has_partition_key or context.has_partition_key_range):
        tags = names.title_tags({key.partition("|")[0] for key in context.partition_keys})
        context.instance.add_run_tags(context.run.run_id, tags)
