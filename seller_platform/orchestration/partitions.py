"""Partitions by account, and by account and month, and the ranges of them that runs have."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date

import dagster as dg

from seller_platform.contract import Dataset, Slicing, Window
from seller_platform.warehouse.derived.declaration import Mart

ACCOUNT = "account"
MONTH = "month"
ALL_ACCOUNTS = "accounts"
ACCOUNT_PARTITIONS = dg.DynamicPartitionsDefinition(name=ALL_ACCOUNTS)

LONGEST_RANGE = 300
"""The most partitions of a run; Dagster's time for a run grows faster than their number."""

TODAY = Window(date.max, date.max)
"""What is of no month is newer than all months."""

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
    source: Dataset | Mart, history_start: date, accounts: dg.PartitionsDefinition[str] = ACCOUNT_PARTITIONS
) -> dg.PartitionsDefinition[str] | None:
    """Return the partitions of the asset of a dataset or a mart, and of its export."""
    if isinstance(source, Mart):
        return account_months(history_start, accounts) if source.is_monthly else accounts
    match source.slicing:
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


def ranges(
    accounts: Mapping[Window | None, Collection[str]], listed: Sequence[str], longest: int
) -> Iterator[tuple[str, str, int]]:
    """Yield the first and the last partition key of each range, and the number of its partitions.

    Args:
        accounts: The keys of the accounts of each month; None is the month of a partition of a whole account.
        listed: Every account partition, in Dagster's order.
        longest: How many partitions a range may have.
    """
    months_of: dict[tuple[str, str, int], list[Window | None]] = defaultdict(list)
    for month in sorted(accounts, key=lambda each: each or TODAY, reverse=True):
        adjacent = list[str]()
        for account in [*listed, ""]:
            if account in accounts[month]:
                adjacent.append(account)
            if adjacent and (account not in accounts[month] or len(adjacent) == longest):
                months_of[adjacent[0], adjacent[-1], len(adjacent)].append(month)
                adjacent = []
    for (first, last, count), months in months_of.items():
        block = months[:1]
        for month in months[1:]:
            if month is None or block[-1] is None or month.end != block[-1].start or len(block) == longest // count:
                yield partition_key(first, block[-1]), partition_key(last, block[0]), count * len(block)
                block = []
            block.append(month)
        yield partition_key(first, block[-1]), partition_key(last, block[0]), count * len(block)


def add_accounts(instance: dg.DagsterInstance, accounts: Iterable[str], name: str = ALL_ACCOUNTS) -> Sequence[str]:
    """Add the account partitions that do not exist yet, and return them. None is ever removed."""
    new_accounts = sorted(set(accounts) - set(instance.get_dynamic_partitions(name)))
    if new_accounts:
        instance.add_dynamic_partitions(name, new_accounts)
    return new_accounts
