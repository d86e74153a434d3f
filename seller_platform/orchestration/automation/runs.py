"""Runs over stretches of accounts and months, planned for schedules and for `seller-platform sync`.

The command executes them in its own process.
"""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from seller_platform.contract import Dataset, Slicing, Source, Window
from seller_platform.orchestration.partitions import asset_key, partition_key, read_partition_key
from seller_platform.orchestration.tags import ACCOUNT_TAG, CHANGED, EXIT_CODE, NOT_OFFERED, REFRESH_TAG

LONGEST_RUN = 300
"""More partitions than this make one run slow; Dagster's time grows faster than their number."""
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class PlannedRun:
    """One run: some datasets of the same kind of slice, over a range of their partitions.

    Attributes:
        first: First partition key of the range; None for an asset without partitions.
        last: Last partition key; the range is every account between the two, in every month between the two.
        partitions: How many there are in the range; one where the asset has none.
    """

    datasets: tuple[Dataset, ...]
    first: str | None = None
    last: str | None = None
    partitions: int = 1
    whole: bool = True
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def slices(self) -> int:
        """How many slices the run loads at most."""
        return self.partitions * len(self.datasets)

    @property
    def tags(self) -> dict[str, str]:
        """The run's tags: its range, how it reads, and its account if it is of one alone."""
        tags = {} if self.whole else {REFRESH_TAG: CHANGED}
        if self.first is None or self.last is None:
            return tags
        (account, _), (last_account, _) = read_partition_key(self.first), read_partition_key(self.last)
        return {
            **tags,
            **({ACCOUNT_TAG: account} if account == last_account else {}),
            "dagster/asset_partition_range_start": self.first,
            "dagster/asset_partition_range_end": self.last,
        }


@dataclass(frozen=True)
class RunEnd:
    """How a run ended.

    Attributes:
        failures: The partitions that failed, with the reason of each.
        exit_code: The one that fits the failures.
        not_offered: What the upstream does not offer, in sentences.
    """

    run_id: str
    succeeded: bool
    failures: dict[str, str]
    exit_code: int
    not_offered: frozenset[str]


def plan_runs(
    datasets: Sequence[Dataset], accounts: Sequence[str], months: Sequence[Window], *, listed: Sequence[str]
) -> Iterator[PlannedRun]:
    """Yield the runs that load whole months of datasets, newest months first, and then today's snapshots.

    Args:
        accounts: Account keys.
        months: Consecutive months, oldest first; empty where no dated dataset is to be read.
        listed: Every account partition, in Dagster's order: a range holds all that lie between its ends.
    """
    dated = tuple(dataset for dataset in datasets if dataset.slicing is Slicing.MONTH)
    if dated:
        yield from plan_months(dated, dict.fromkeys(months, accounts), listed=listed, whole=True)
    for group in snapshot_groups(datasets):
        yield from plan_snapshots(group, accounts, listed=listed, whole=True)


def snapshot_groups(datasets: Sequence[Dataset]) -> Iterator[Sequence[Dataset]]:
    """Yield the snapshots among datasets, as runs may read them together.

    What is looked up product by product follows the inventory, in a run of its own.
    """
    snapshots = [dataset for dataset in datasets if dataset.slicing is Slicing.SNAPSHOT]
    for follows in (False, True):
        group = [each for each in snapshots if (each.source is Source.PRODUCT_LOOKUP) is follows]
        if group:
            yield group


def plan_months(
    datasets: Sequence[Dataset],
    wanted: Mapping[Window, Collection[str]],
    *,
    listed: Sequence[str],
    whole: bool,
    longest: int = LONGEST_RUN,
) -> Iterator[PlannedRun]:
    """Yield the runs that load dated datasets, newest months first.

    Args:
        wanted: The accounts of each month.
        listed: Every account partition, in Dagster's order.
        whole: Read months as a whole, not only what may have changed.
        longest: How many partitions a run may have.
    """
    months_of: dict[_Stretch, list[Window]] = defaultdict(list)
    for month in sorted(wanted, reverse=True):
        for stretch in _stretches(wanted[month], listed, longest):
            months_of[stretch].append(month)
    blocks = [
        (block, stretch) for stretch, months in months_of.items() for block in _blocks(months, longest // stretch.count)
    ]
    for block, stretch in sorted(blocks, key=lambda each: each[0][0], reverse=True):
        first, last = partition_key(stretch.first, block[-1]), partition_key(stretch.last, block[0])
        yield PlannedRun(tuple(datasets), first, last, len(block) * stretch.count, whole)


def plan_snapshots(
    datasets: Sequence[Dataset],
    accounts: Collection[str],
    *,
    listed: Sequence[str],
    whole: bool,
    longest: int = LONGEST_RUN,
) -> Iterator[PlannedRun]:
    """Yield the runs that load today's snapshots of accounts.

    Args:
        listed: Every account partition, in Dagster's order.
        longest: How many partitions a run may have.
    """
    for stretch in _stretches(accounts, listed, longest):
        yield PlannedRun(tuple(datasets), stretch.first, stretch.last, stretch.count, whole)


def execute(planned: PlannedRun, job: dg.JobDefinition, instance: dg.DagsterInstance) -> RunEnd:
    """Execute a run in this process, to its end, whatever fails in it.

    Args:
        job: The job of all assets.
    """
    result = job.execute_in_process(
        instance=instance,
        asset_selection=[asset_key(dataset) for dataset in planned.datasets],
        tags=planned.tags,
        run_id=planned.run_id,
        run_config=_QUIET,
        raise_on_error=False,
    )
    return _end(result)


def _end(result: dg.ExecuteInProcessResult) -> RunEnd:
    failures: dict[str, str] = {}
    exit_codes, not_offered = set(), set()
    for event in result.all_events:
        if event.is_asset_observation:
            told = event.asset_observation_data.asset_observation.metadata.get(NOT_OFFERED)
            not_offered.update([] if told is None else [str(told.value)])
        if not event.is_step_failure:
            continue
        failed = event.step_failure_data
        named = failed.user_failure_data
        if named is None:
            failures[event.step_key or "run"] = failed.error.message.strip() if failed.error else "it failed"
            exit_codes.add(1)
            continue
        for name, value in named.metadata.items():
            if name == EXIT_CODE:
                exit_codes.add(int(str(value.value)))
            else:
                failures[f"{(event.step_key or '').replace('__', '.')} {name}"] = str(value.value)
    exit_code = max(exit_codes, default=0 if result.success else 1)
    return RunEnd(result.run_id, result.success, failures, exit_code, frozenset(not_offered))


@dataclass(frozen=True)
class _Stretch:
    """Accounts that lie side by side."""

    first: str
    last: str
    count: int


def _stretches(accounts: Collection[str], listed: Sequence[str], longest: int) -> Iterator[_Stretch]:
    """Yield the stretches of accounts, none longer than a run may be."""
    wanted, stretch = set(accounts), []
    for account in [*listed, None]:
        if account in wanted:
            stretch.append(str(account))
        if stretch and (account not in wanted or len(stretch) == longest):
            yield _Stretch(stretch[0], stretch[-1], len(stretch))
            stretch = []


def _blocks(months: Sequence[Window], longest: int) -> Iterator[Sequence[Window]]:
    """Yield the months, newest first, as blocks of consecutive ones that make one run each."""
    block = list(months[:1])
    for month in months[1:]:
        if month.end != block[-1].start or len(block) == longest:
            yield block
            block = []
        block.append(month)
    yield block
