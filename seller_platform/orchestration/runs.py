"""Runs of our assets in this process, as `seller-platform sync` makes them."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import dagster as dg

from seller_platform.contract import Dataset, Slicing, Window
from seller_platform.orchestration.assets import CHANGED, EXIT_CODE, NOT_OFFERED, REFRESH_TAG
from seller_platform.orchestration.events import asset_key
from seller_platform.orchestration.partitions import ACCOUNTS, partition_key

# More partitions than this make one run slow; Dagster's time grows faster than their number.
_PARTITIONS_PER_RUN = 300
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class PlannedRun:
    """One run: some datasets of the same kind of slice, over a range of their partitions.

    Attributes:
        first: First partition key of the range; None for an asset without partitions.
        last: Last partition key; the range is every account between the two, in every month between the two.
    """

    datasets: tuple[Dataset, ...]
    first: str | None = None
    last: str | None = None
    whole: bool = True
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))


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
    datasets: Sequence[Dataset],
    accounts: Sequence[str],
    months: Sequence[Window],
    *,
    listed: Sequence[str],
    whole: bool,
) -> Iterator[PlannedRun]:
    """Yield the runs that load datasets for accounts and months, newest months first.

    Args:
        accounts: Account keys.
        months: Consecutive months, oldest first; empty where no dated dataset is to be read.
        listed: Every account partition, in Dagster's order: a range holds all that lie between its ends.
        whole: Read months as a whole, not only what may have changed.
    """
    dated = tuple(dataset for dataset in datasets if dataset.slicing is Slicing.MONTH)
    snapshots = tuple(dataset for dataset in datasets if dataset.slicing is Slicing.SNAPSHOT)
    for first, last, count in _neighbours(accounts, listed):
        if dated and months:
            step = max(1, _PARTITIONS_PER_RUN // count)
            for end in range(len(months), 0, -step):
                oldest, newest = months[max(0, end - step)], months[end - 1]
                yield PlannedRun(dated, partition_key(first, oldest), partition_key(last, newest), whole)
        if snapshots:
            yield PlannedRun(snapshots, first, last, whole)


def account_partitions(instance: dg.DagsterInstance) -> Sequence[str]:
    """Return every account partition, in Dagster's order."""
    assert ACCOUNTS.name is not None
    return instance.get_dynamic_partitions(ACCOUNTS.name)


def execute(planned: PlannedRun, instance: dg.DagsterInstance) -> RunEnd:
    """Execute a run in this process, to its end, whatever fails in it."""
    from seller_platform.orchestration.definitions import defs  # reads the environment, which a command sets first

    tags = {} if planned.whole else {REFRESH_TAG: CHANGED}
    if planned.first is not None and planned.last is not None:
        tags |= {
            "dagster/asset_partition_range_start": planned.first,
            "dagster/asset_partition_range_end": planned.last,
        }
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        asset_selection=[asset_key(dataset) for dataset in planned.datasets],
        tags=tags,
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


def _neighbours(accounts: Iterable[str], listed: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Yield the first and last account of each stretch of accounts that lie side by side, and their number."""
    wanted, stretch = set(accounts), []
    for account in [*listed, None]:
        if account is not None and account in wanted:
            stretch.append(account)
        elif stretch:
            yield stretch[0], stretch[-1], len(stretch)
            stretch = []
