"""Partitions by account, and by account and month."""

from collections.abc import Iterable, Sequence
from datetime import date

import dagster as dg

from seller_platform.contract import Dataset, Slicing, Window
from seller_platform.warehouse.marts import Mart

ACCOUNT = "account"
MONTH = "month"
ALL_ACCOUNTS = "accounts"
ACCOUNT_PARTITIONS = dg.DynamicPartitionsDefinition(name=ALL_ACCOUNTS)

# Dagster's time for a run grows faster than its partitions; these sizes keep it in proportion.
_MONTHS_PER_RUN, _ACCOUNTS_PER_RUN = 36, 100


def asset_key(source: Dataset | Mart) -> dg.AssetKey:
    """Return the asset key of a dataset or a mart, which is also its table's name."""
    return dg.AssetKey(source.table.split("."))


def account_months(
    history_start: date, accounts: dg.PartitionsDefinition[str] = ACCOUNT_PARTITIONS
) -> dg.MultiPartitionsDefinition:
    """Return the partitions of dated datasets, up to and including the current month."""
    first = history_start.replace(day=1).isoformat()
    return dg.MultiPartitionsDefinition(
        {ACCOUNT: accounts, MONTH: dg.MonthlyPartitionsDefinition(start_date=first, end_offset=1)}
    )


def partitions_for(
    dataset: Dataset, history_start: date, accounts: dg.PartitionsDefinition[str] = ACCOUNT_PARTITIONS
) -> dg.PartitionsDefinition[str] | None:
    """Return the partitions of a dataset's asset."""
    match dataset.slicing:
        case Slicing.MONTH:
            return account_months(history_start, accounts)
        case Slicing.SNAPSHOT:
            return accounts
        case Slicing.CONNECTION:
            return None


def backfill_policy_of(partitions: dg.PartitionsDefinition[str]) -> dg.BackfillPolicy:
    """Return how a backfill of an asset with these partitions is divided into runs.

    Assets with equal partitions have equal policies, so that a backfill loads and builds a partition in one run.
    """
    is_monthly = isinstance(partitions, dg.MultiPartitionsDefinition)
    return dg.BackfillPolicy.multi_run(_MONTHS_PER_RUN if is_monthly else _ACCOUNTS_PER_RUN)


def partition_key(account: str, month: Window | None) -> str:
    """Return the key of an account's partition, or of its month."""
    if month is None:
        return account
    return dg.MultiPartitionKey({ACCOUNT: account, MONTH: month.start.isoformat()})


def read_partition_key(key: str) -> tuple[str, Window | None]:
    """Return the account of a partition, and its month if the partition is one."""
    if isinstance(key, dg.MultiPartitionKey):
        parts = key.keys_by_dimension
        return parts[ACCOUNT], Window.month_of(date.fromisoformat(parts[MONTH]))
    return key, None


def account_partitions(instance: dg.DagsterInstance, name: str = ALL_ACCOUNTS) -> Sequence[str]:
    """Return every account partition, in Dagster's order."""
    return instance.get_dynamic_partitions(name)


def add_accounts(instance: dg.DagsterInstance, accounts: Iterable[str], name: str = ALL_ACCOUNTS) -> Sequence[str]:
    """Add the account partitions that do not exist yet, and return them. None is ever removed."""
    new_accounts = sorted(set(accounts) - set(account_partitions(instance, name)))
    if new_accounts:
        instance.add_dynamic_partitions(name, new_accounts)
    return new_accounts
