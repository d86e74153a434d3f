"""Plans runs over ranges of accounts and months, for schedules, jobs and commands.

`demo` and `dev` execute their runs in their own process. Jobs add theirs to the queue of the instance.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from seller_platform.contract import Dataset, Source, Window
from seller_platform.ingest.loads.planner import DueSlice
from seller_platform.orchestration.failures import ForeseenError
from seller_platform.orchestration.instance.command_runs import IN_PROCESS, attended
from seller_platform.orchestration.partitions import LONGEST_RANGE, TODAY, asset_key, ranges, read_partition_key
from seller_platform.orchestration.placement import Placement
from seller_platform.orchestration.tags import ACCOUNT_TAG, CHANGED, EXIT_CODE, NOT_OFFERED, REFRESH_TAG
from seller_platform.warehouse.marts import Mart

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
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

    @classmethod
    def of(cls, result: dg.ExecuteInProcessResult) -> "RunEnd":
        """Return the result of a run that ended in this process."""
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
        return cls(result.run_id, failures, exit_code, frozenset(not_offered))


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


def submit(
    planned: PlannedRun,
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
    requester: dg.DagsterRun,
    placement: Placement,
    *,
    tags: Mapping[str, str],
) -> str:
    """Add a run to the queue of the instance, and return its id.

    Args:
        job: The job of all assets.
        requester: A run of the same code location.
        tags: All tags of the run.

    Raises:
        ForeseenError: The instance has no queue, or no code location executes the requester.
    """
    remote, code = requester.remote_job_origin, requester.job_code_origin
    if not isinstance(instance.run_coordinator, dg.QueuedRunCoordinator) or remote is None or code is None:
        raise ForeseenError(
            "The run cannot request others: that needs a code location, and an instance with a QueuedRunCoordinator, "
            "Dagster's default. Remove `run_coordinator` from the `dagster.yaml`, and launch the job in the UI."
        )
    keys = frozenset(placement.asset_key(dataset) for dataset in planned.datasets)
    run = instance.create_run_for_job(
        job.get_subset(asset_selection=keys),
        tags=tags,
        asset_selection=keys,
        remote_job_origin=remote._replace(job_name=job.name),
        job_code_origin=code._replace(job_name=job.name),
    )
    # Only a coordinator that launches runs itself reads the workspace.
    instance.submit_run(run.run_id, workspace=None)  # type: ignore[arg-type]
    return run.run_id


def execute(planned: PlannedRun, job: dg.JobDefinition, instance: dg.DagsterInstance) -> RunEnd:
    """Execute a run in this process, and return its result even if steps fail.

    Args:
        job: The job of all assets.
    """
    # A run that waits in no queue must not let others wait, least of all when its process is killed.
    own = {name: value for name, value in planned.tags.items() if name != ACCOUNT_TAG}
    run_id = str(uuid.uuid4())
    with attended(instance, run_id):
        keys = {asset_key(dataset) for dataset in planned.datasets}
        result = job.get_subset(asset_selection=keys, asset_check_selection=set()).execute_in_process(
            instance=instance, tags={**own, **IN_PROCESS}, run_id=run_id, run_config=_QUIET, raise_on_error=False
        )
    return RunEnd.of(result)


def _is_lookup(source: Dataset | Mart) -> bool:
    return isinstance(source, Dataset) and source.source is Source.PRODUCT_LOOKUP
