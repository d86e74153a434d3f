"""Partitions by account, and by account and month."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

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


@dataclass(frozen=True)
class MonthsAround(dg.PartitionMapping):
    """Maps an account's month to the same month of an input, and to months before and after it.

    `dg.MultiPartitionMapping` has the same result, but takes seconds for 36,000 partitions. Dagster sends only its own
    mappings to the web server and the daemon. There the months are the same, so a backfill loads the inputs of a mart's
    partition and builds it in one run. The sensors in the code location use this mapping.

    Attributes:
        before: How many months before its own a partition reads.
        after: How many months after its own.
    """

    before: int
    after: int

    @property
    def description(self) -> str:
        """The sentence in the UI."""
        return f"Maps a month to the same month, {self.before} before and {self.after} after it, of the same account."

    def validate_partition_mapping(self, upstream_partitions_def: Any, downstream_partitions_def: Any) -> None:
        """Refuse definitions of different types."""
        dg.IdentityPartitionMapping().validate_partition_mapping(upstream_partitions_def, downstream_partitions_def)

    def get_upstream_mapped_partitions_result_for_partitions(
        self,
        downstream_partitions_subset: Any,
        downstream_partitions_def: Any,  # noqa: ARG002  # Dagster's signature
        upstream_partitions_def: Any,
        current_time: Any = None,
        dynamic_partitions_store: Any = None,
    ) -> Any:
        """Return the partitions of the input; a month that does not exist is left out."""
        with dg.partition_loading_context(current_time, dynamic_partitions_store):
            read = _widened(downstream_partitions_subset, upstream_partitions_def, self.before, self.after)
            return dg.IdentityPartitionMapping().get_upstream_mapped_partitions_result_for_partitions(
                read, upstream_partitions_def, upstream_partitions_def
            )

    def get_downstream_partitions_for_partitions(
        self,
        upstream_partitions_subset: Any,
        upstream_partitions_def: Any,  # noqa: ARG002  # Dagster's signature
        downstream_partitions_def: Any,
        current_time: Any = None,
        dynamic_partitions_store: Any = None,
    ) -> Any:
        """Return the partitions that read one of these partitions of the input."""
        with dg.partition_loading_context(current_time, dynamic_partitions_store):
            return _widened(upstream_partitions_subset, downstream_partitions_def, self.after, self.before)


def _widened(subset: Any, partitions: dg.MultiPartitionsDefinition, before: int, after: int) -> Any:
    """Return the partitions of the months around those of a subset."""
    months = partitions.get_partitions_def_for_dimension(MONTH).get_partition_keys()
    around = {month: months[max(number - before, 0) : number + after + 1] for number, month in enumerate(months)}
    keys = {
        f"{account}|{each}"
        for account, _, month in (key.partition("|") for key in subset.get_partition_keys())
        for each in around.get(month, ())
    }
    return partitions.empty_subset().with_partition_keys(keys)


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
