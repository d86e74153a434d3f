"""Plans runs over ranges of accounts and months, for schedules, jobs and commands.

`demo`, `dev` and `marts build` execute their runs in their own process. Jobs add theirs to the queue of the instance.
"""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg
from dagster._core.events import DagsterEvent  # public in no module, as the queue
from dagster._core.remote_origin import RemoteJobOrigin
from dagster._core.run_coordinator import QueuedRunCoordinator

from seller_platform.contract import Dataset, Slicing, Source, Window
from seller_platform.orchestration.account_names import title_tags
from seller_platform.orchestration.failures import ForeseenError
from seller_platform.orchestration.instance.command_runs import IN_PROCESS, attended
from seller_platform.orchestration.partitions import asset_key, partition_key, read_partition_key
from seller_platform.orchestration.placement import Placement
from seller_platform.orchestration.tags import ACCOUNT_TAG, CHANGED, EXIT_CODE, NOT_OFFERED, REFRESH_TAG
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.marts import Mart

LONGEST_RUN = 300
"""The most partitions of a run; Dagster's time for a run grows faster than their number."""
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""The config of runs in this process, whose events are in the UI and not in the terminal."""


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
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def slices(self) -> int:
        """The most slices that the run can load."""
        return self.partitions * len(self.datasets)

    @property
    def tags(self) -> dict[str, str]:
        """The tags: the range, how it is read, and the account if only one."""
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

    def tags_with(self, accounts: Iterable[KnownAccount]) -> dict[str, str]:
        """Return the tags, and the name of the account if only one."""
        key = self.tags.get(ACCOUNT_TAG)
        return {**self.tags, **title_tags(next((each for each in accounts if each.key == key), None))}


@dataclass(frozen=True)
class RunEnd:
    """The result of a run.

    Attributes:
        failures: The failed partitions, each with its reason.
        exit_code: The exit code that fits the failures.
        not_offered: Sentences that name what the upstream does not offer.
    """

    run_id: str
    failures: dict[str, str]
    exit_code: int
    not_offered: frozenset[str]


def snapshot_groups(datasets: Sequence[Dataset]) -> Iterator[Sequence[Dataset]]:
    """Yield the snapshot datasets, in groups that a run may read together.

    Datasets that are looked up product by product follow the inventory in a run of their own.
    """
    snapshots = [dataset for dataset in datasets if dataset.slicing is Slicing.SNAPSHOT]
    for follows in (False, True):
        group = [each for each in snapshots if (each.source is Source.PRODUCT_LOOKUP) is follows]
        if group:
            yield group


def plan_builds(
    parts: Iterable[tuple[Dataset | Mart, Collection[tuple[str, Window | None]]]], *, listed: Sequence[str]
) -> Iterator[PlannedRun]:
    """Yield the runs that make partitions of marts or of files; those with the same partitions have the same runs.

    Args:
        parts: Each mart or table with the account and the month of its partitions; None for a whole account.
        listed: Every account partition, in Dagster's order.
    """
    sources_of: dict[frozenset[tuple[str, Window | None]], list[Dataset | Mart]] = defaultdict(list)
    for source, partitions in parts:
        sources_of[frozenset(partitions)].append(source)
    for chosen, sources in sources_of.items():
        by_month: dict[Window, set[str]] = defaultdict(set)
        for account, month in chosen:
            if month is not None:
                by_month[month].add(account)
        yield from plan_months(sources, by_month, listed=listed, whole=True)
        whole_accounts = {account for account, month in chosen if month is None}
        yield from plan_snapshots(sources, whole_accounts, listed=listed, whole=True)


def plan_months(
    datasets: Sequence[Dataset | Mart],
    accounts: Mapping[Window, Collection[str]],
    *,
    listed: Sequence[str],
    whole: bool,
    longest: int = LONGEST_RUN,
) -> Iterator[PlannedRun]:
    """Yield the runs that load dated datasets, newest months first.

    Args:
        accounts: The keys of the accounts of each month.
        listed: Every account partition, in Dagster's order.
        whole: Read whole months, not only the days that may have changed.
        longest: How many partitions a run may have.
    """
    months_of: dict[_AccountRange, list[Window]] = defaultdict(list)
    for month in sorted(accounts, reverse=True):
        for keys in _account_ranges(accounts[month], listed, longest):
            months_of[keys].append(month)
    blocks = [(block, keys) for keys, months in months_of.items() for block in _blocks(months, longest // keys.count)]
    for block, keys in sorted(blocks, key=lambda each: each[0][0], reverse=True):
        first, last = partition_key(keys.first, block[-1]), partition_key(keys.last, block[0])
        yield PlannedRun(tuple(datasets), first, last, len(block) * keys.count, whole)


def plan_snapshots(
    datasets: Sequence[Dataset | Mart],
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
    for keys in _account_ranges(accounts, listed, longest):
        yield PlannedRun(tuple(datasets), keys.first, keys.last, keys.count, whole)


def submit(
    planned: PlannedRun,
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
    requester: dg.DagsterRun,
    placement: Placement,
    *,
    tags: Mapping[str, str],
) -> None:
    """Add a run to the queue of the instance.

    Args:
        job: The job of all assets.
        requester: A run of the same code location.
        tags: All tags of the run.

    Raises:
        ForeseenError: The instance has no queue, or no code location executes the requester.
    """
    remote, code = requester.remote_job_origin, requester.job_code_origin
    if not isinstance(instance.run_coordinator, QueuedRunCoordinator) or remote is None or code is None:
        raise ForeseenError(
            "The run cannot request others: that needs a code location, and an instance with a QueuedRunCoordinator, "
            "Dagster's default. Remove `run_coordinator` from the `dagster.yaml`, and launch the job in the UI."
        )
    keys = frozenset(placement.asset_key(dataset) for dataset in planned.datasets)
    run = instance.create_run_for_job(
        job.get_subset(asset_selection=keys),
        run_id=planned.run_id,
        tags=tags,
        asset_selection=keys,
        remote_job_origin=RemoteJobOrigin(remote.repository_origin, job.name),
        job_code_origin=code._replace(job_name=job.name),
    )
    # A run coordinator takes the workspace, too, which a run does not have; that of the queue only reports this event.
    instance.report_dagster_event(DagsterEvent.job_enqueue(run), run.run_id)


def execute(
    planned: PlannedRun,
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
) -> RunEnd:
    """Execute a run in this process, and return its result even if steps fail.

    Args:
        job: The job of all assets.
    """
    # A run that waits in no queue must not let others wait, least of all when its process is killed.
    own = {name: value for name, value in planned.tags.items() if name != ACCOUNT_TAG}
    with attended(instance, planned.run_id):
        keys = {asset_key(dataset) for dataset in planned.datasets}
        result = job.get_subset(asset_selection=keys, asset_check_selection=set()).execute_in_process(
            instance=instance,
            tags={**own, **IN_PROCESS},
            run_id=planned.run_id,
            run_config=QUIET,
            raise_on_error=False,
        )
    return run_end(result)


def run_end(result: dg.ExecuteInProcessResult) -> RunEnd:
    """Return the failures of a run that ended in this process."""
    failures: dict[str, str] = {}
    exit_codes, not_offered = set(), set()
    for event in result.all_events:
        if event.is_step_materialization:
            sentence = event.step_materialization_data.materialization.metadata.get(NOT_OFFERED)
            not_offered.update([] if sentence is None else [str(sentence.value)])
        if not event.is_step_failure:
            continue
        failed = event.step_failure_data
        raised = failed.user_failure_data
        if raised is None:
            failures[event.step_key or "run"] = failed.error.message.strip() if failed.error else "it failed"
            exit_codes.add(1)
            continue
        for name, value in raised.metadata.items():
            if name == EXIT_CODE:
                exit_codes.add(int(str(value.value)))
            else:
                failures[f"{(event.step_key or '').replace('__', '.')} {name}"] = str(value.value)
    exit_code = max(exit_codes, default=0 if result.success else 1)
    return RunEnd(result.run_id, failures, exit_code, frozenset(not_offered))


@dataclass(frozen=True)
class _AccountRange:
    """Accounts that follow one another among the partitions."""

    first: str
    last: str
    count: int


def _account_ranges(accounts: Collection[str], listed: Sequence[str], longest: int) -> Iterator[_AccountRange]:
    """Yield the accounts as ranges, none longer than a run may be."""
    chosen, adjacent = set(accounts), []
    for account in [*listed, None]:
        if account in chosen:
            adjacent.append(str(account))
        if adjacent and (account not in chosen or len(adjacent) == longest):
            yield _AccountRange(adjacent[0], adjacent[-1], len(adjacent))
            adjacent = []


def _blocks(months: Sequence[Window], longest: int) -> Iterator[Sequence[Window]]:
    """Yield blocks of consecutive months, newest first, one block for each run."""
    block = list(months[:1])
    for month in months[1:]:
        if month.end != block[-1].start or len(block) == longest:
            yield block
            block = []
        block.append(month)
    yield block
