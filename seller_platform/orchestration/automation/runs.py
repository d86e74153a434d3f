"""Plans runs over ranges of accounts and months, for schedules and sensors."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import dagster as dg

from seller_platform.contract import Dataset, Source, Window
from seller_platform.ingest.loads.planner import DueSlice
from seller_platform.orchestration.account_names import AccountNames
from seller_platform.orchestration.partitions import LONGEST_RANGE, TODAY, ranges, read_partition_key
from seller_platform.orchestration.placement import Placement
from seller_platform.orchestration.tags import ACCOUNT_TAG, CHANGED, REFRESH_TAG
from seller_platform.warehouse.derived.declaration import Mart

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class PlannedRun:
    """A run of datasets or of marts with one kind of slice, over a range of their partitions.

    Attributes:
        first: First partition key of the range; None for an asset without partitions.
        last: Last partition key; the range is every account between the two, in every month between the two.
        partitions: How many partitions the range has; one for an asset without partitions.
        whole: Whether the run reads whole slices, not only the days that may have changed.
    """

    datasets: tuple[Dataset | Mart, ...]
    first: str | None = None
    last: str | None = None
    partitions: int = 1
    whole: bool = True

    @property
    def accounts(self) -> set[str]:
        """The accounts at the ends of the range."""
        return {read_partition_key(each)[0] for each in (self.first, self.last) if each is not None}

    @property
    def tags(self) -> dict[str, str]:
        """The tags: the range, how it is read, and the account if only one."""
        tags = {} if self.whole else {REFRESH_TAG: CHANGED}
        if self.first is None or self.last is None:
            return tags
        return {
            **tags,
            **({ACCOUNT_TAG: min(self.accounts)} if len(self.accounts) == 1 else {}),
            "dagster/asset_partition_range_start": self.first,
            "dagster/asset_partition_range_end": self.last,
        }


def plan_runs(
    partitions: Iterable[tuple[Dataset | Mart, str, Window | None, bool]],
    *,
    listed: Sequence[str],
    longest: int = LONGEST_RANGE,
) -> list[PlannedRun]:
    """Return the runs that make partitions; assets with the same partitions have the same runs.

    Partitions of whole accounts come first, because their slices are of today; then the newest months. Datasets that
    are looked up product by product come last, in runs of their own, because the products are those of the inventory.

    Args:
        partitions: Each dataset or mart with the account and the month of a partition, and whether it is read as a
            whole. The month is None for a partition of a whole account.
        listed: Every account partition, in Dagster's order.
        longest: How many partitions a run may have.
    """
    accounts: dict[tuple[str, bool], dict[Window | None, set[str]]] = defaultdict(lambda: defaultdict(set))
    sources: dict[str, Dataset | Mart] = {}
    for source, account, month, whole in partitions:
        sources[source.name] = source
        accounts[source.name, whole][month].add(account)
    groups: dict[tuple[bool, object], list[Dataset | Mart]] = defaultdict(list)
    for (name, whole), of_source in accounts.items():
        same = frozenset((month, frozenset(keys)) for month, keys in of_source.items())
        groups[whole, (_is_lookup(sources[name]), same)].append(sources[name])
    planned = [
        PlannedRun(tuple(group), first, last, count, whole)
        for (whole, _), group in groups.items()
        for first, last, count in ranges(accounts[group[0].name, whole], listed, longest)
    ]
    planned.sort(key=lambda run: read_partition_key(run.last or "")[1] or TODAY, reverse=True)
    return sorted(planned, key=lambda run: _is_lookup(run.datasets[0]))


def plan_loads(slices: Iterable[DueSlice], *, listed: Sequence[str], longest: int = LONGEST_RANGE) -> list[PlannedRun]:
    """Return the runs that read slices, as `plan_runs` does."""
    partitions = ((each.dataset, each.account, each.month, each.whole) for each in slices)
    return plan_runs(partitions, listed=listed, longest=longest)


def run_requests(
    planned: Iterable[PlannedRun],
    placement: Placement,
    names: AccountNames,
    *,
    key: str = "",
    tags: Mapping[str, str] = _NONE,
) -> Iterator[dg.RunRequest]:
    """Yield the request of each run.

    Args:
        names: Those of the accounts, for the tags.
        key: What tells requests for the same partitions apart.
        tags: Further tags of the runs.
    """
    for run in planned:
        sources = "+".join(source.name for source in run.datasets)
        yield dg.RunRequest(
            run_key=":".join(filter(None, (key, sources, run.first, run.last))),
            asset_selection=[placement.asset_key(source) for source in run.datasets],
            asset_check_keys=[],  # the step reports them
            tags={**run.tags, **names.title_tags(run.accounts), **tags},
        )


def _is_lookup(source: Dataset | Mart) -> bool:
    return isinstance(source, Dataset) and source.source is Source.PRODUCT_LOOKUP
