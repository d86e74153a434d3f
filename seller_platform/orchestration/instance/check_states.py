"""The states of partitioned checks for Dagster's UI, for any number of partitions.

Dagster makes an object of every partition of a check and unites them one by one, in quadratic time. It also looks up
each partition in the database. For 1,000 accounts and 36 months that takes minutes for every check. Here PostgreSQL
groups the partitions of an asset by the states of all its checks, which are few groups. The groups are kept in memory;
later questions read only the partitions that changed.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dagster import (
    AssetCheckKey,
    AssetKey,
    DagsterInstance,
    DagsterRunStatus,
    MultiPartitionsDefinition,
    PartitionsDefinition,
    RunsFilter,
)
from dagster._core.asset_graph_view.serializable_entity_subset import SerializableEntitySubset
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.definitions.partitions.subset import DefaultPartitionsSubset, PartitionsSubset
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecordStatus,
    AssetCheckExecutionResolvedStatus,
)
from dagster._core.storage.asset_check_state import AssetCheckState
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable
from sqlalchemy import (
    Select,
    Subquery,
    Text,
    all_,
    any_,
    case,
    column,
    func,
    literal,
    or_,
    select,
    true,
    union,
    values,
)
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by

Check = tuple[AssetCheckKey, PartitionsDefinition[str] | None]
_Partition = str | None
_Partitions = frozenset[_Partition]
_State = AssetCheckExecutionResolvedStatus
_BEGUN = AssetCheckExecutionRecordStatus.PLANNED.value
_PASSED = AssetCheckExecutionRecordStatus.SUCCEEDED.value

# An event gets its number before it is committed, so an event with a lower number can appear later than one with a
# higher number. Events of so many seconds before the last reading are read again.
_LATE_SECONDS = 60.0
# Before the first reading there is no earlier one: this many numbers are read again then.
_LATE_EVENTS = 1_000
# Beyond so many changed partitions, all are read again.
_MOST_CHANGED = 10_000
_KEPT_SUBSETS = 256


@dataclass(frozen=True)
class Horizon:
    """The highest numbers that were read, with the monotonic time of each reading of the last minute."""

    readings: tuple[tuple[float, int], ...] = ()

    @property
    def after(self) -> int:
        """The number after which is read again."""
        return self.readings[0][1] if self.readings else 0

    def moved(self, last: int) -> "Horizon":
        """Return the horizon after a reading up to a number."""
        now = time.monotonic()
        readings = [*self.readings, (now, last)] if self.readings else [(now, max(0, last - _LATE_EVENTS))]
        while len(readings) > 1 and readings[1][0] < now - _LATE_SECONDS:
            del readings[0]
        return Horizon(tuple(readings))


@dataclass(frozen=True)
class Execution:
    """The newest execution of a check of a partition.

    Attributes:
        status: Its status, as Dagster stores it.
        run_id: The run that has started it; None if it has ended.
        is_current: Whether it is of the newest materialization.
    """

    check_name: str
    status: str
    run_id: str | None
    is_current: bool


@dataclass(frozen=True)
class CheckedPartitions:
    """The partitions of an asset, grouped by the newest executions of all their checks.

    Attributes:
        newest: The highest number of an event of these partitions.
        whole: The number of the newest materialization without a partition.
        horizon: The events that were read.
    """

    groups: Mapping[tuple[Execution, ...], _Partitions] = field(default_factory=dict)
    newest: int = 0
    whole: int | None = None
    horizon: Horizon = field(default_factory=Horizon)
    generation: object = None


class CheckedAssets:
    """The grouped partitions of each asset, in memory; each reading adds what changed."""

    def __init__(self) -> None:
        self._of_asset: dict[AssetKey, CheckedPartitions] = {}
        self._locks: dict[AssetKey, threading.Lock] = defaultdict(threading.Lock)

    def read(
        self,
        asset: AssetKey,
        generation: object,
        *,
        last_event: Callable[[], int],
        last_of_whole: Callable[[], int | None],
        changed: Callable[[int], Sequence[_Partition]],
        read: Callable[[Sequence[_Partition] | None, int | None], Iterable[Sequence[Any]]],
    ) -> CheckedPartitions:
        """Return the partitions of an asset, grouped as they are now.

        Args:
            generation: Changes if events were deleted; then all partitions are read.
            last_event: Returns the highest number of an event.
            last_of_whole: Returns the number of the newest materialization without a partition.
            changed: Returns the partitions with an event after a number.
            read: Returns the rows of `checked_partitions` for some partitions, or for all, given that number.
        """
        with self._locks[asset]:
            last = last_event()
            known, some = self._of_asset.get(asset), None
            if known is not None and known.generation == generation:
                some = changed(known.horizon.after)
            if known is None or some is None or None in some or len(some) > _MOST_CHANGED:
                known, some = CheckedPartitions(generation=generation, whole=last_of_whole()), None
            groups, newest = known.groups, known.newest
            if some is None or some:
                rows = [(_executions(row[0], row[1]), frozenset(row[2]), row[3]) for row in read(some, known.whole)]
                groups = _regrouped(groups, frozenset(some or ()), rows)
                newest = max([newest, *(row[2] or 0 for row in rows)])
            self._of_asset[asset] = CheckedPartitions(
                groups, newest, known.whole, known.horizon.moved(last), generation
            )
            return self._of_asset[asset]


def _regrouped(
    groups: Mapping[tuple[Execution, ...], _Partitions],
    changed: _Partitions,
    rows: Sequence[tuple[tuple[Execution, ...], _Partitions, int]],
) -> dict[tuple[Execution, ...], _Partitions]:
    """Return the groups with changed partitions in the groups of their new rows. Equal groups stay the same object."""
    joining: dict[tuple[Execution, ...], _Partitions] = defaultdict(frozenset)
    for executions, partitions, _ in rows:
        joining[executions] |= partitions
    regrouped = {}
    for executions in [*groups, *(each for each in joining if each not in groups)]:
        before, joined = groups.get(executions, frozenset()), joining[executions]
        leaves = not changed.isdisjoint(before) and not (changed & before) <= joined
        after = before - (changed - joined) if leaves else before
        if not joined <= after:
            after |= joined
        if after:
            regrouped[executions] = after
    return regrouped


def latest_executions(checks: Sequence[AssetCheckKey]) -> Select[Any]:
    """Return a query for the newest execution of each check, whatever its partition."""
    columns = [column(name, Text) for name in ("asset_key", "check_name")]
    keys = values(*columns, name="keys").data([(key.asset_key.to_string(), key.name) for key in checks])
    executions = AssetCheckExecutionsTable.c
    newest = (
        select(AssetCheckExecutionsTable)
        .where(executions.asset_key == keys.c.asset_key, executions.check_name == keys.c.check_name)
        .order_by(executions.id.desc())
        .limit(1)
        .lateral()
    )
    return select(newest).select_from(keys.join(newest, true()))


def changed_partitions(asset: AssetKey, after: int) -> Select[Any]:
    """Return a query for the partitions with a materialization, or an execution of a check, after an event."""
    checks, events = AssetCheckExecutionsTable.c, SqlEventLogStorageTable.c
    checked = select(checks.partition).where(
        checks.evaluation_event_storage_id > after, checks.asset_key == asset.to_string()
    )
    loaded = select(events.partition).where(
        events.asset_key == asset.to_string(),
        events.dagster_event_type == "ASSET_MATERIALIZATION",
        events.id > after,
    )
    return select(union(checked, loaded).subquery().c.partition)


def checked_partitions(
    asset: AssetKey, loaded: Subquery, loaded_whole: int | None, partitions: Sequence[_Partition] | None
) -> Select[Any]:
    """Return a query for the partitions of an asset, grouped by the newest executions of all their checks.

    A row has the executions (`name status run;...`), a letter for each of them (y if it is of the newest
    materialization; no letters if all are), the partitions, and the highest number of an event of these.

    Args:
        loaded: The number (`id`) of the newest materialization of each `partition`.
        loaded_whole: The number of the newest materialization without a partition.
        partitions: The partitions to read; None for all.
    """
    checks = AssetCheckExecutionsTable.c
    of_asset = select(
        checks.partition,
        checks.check_name,
        (
            checks.check_name
            + " "
            + checks.execution_status
            + case((checks.execution_status == _BEGUN, " " + checks.run_id), else_="")
        ).label("execution"),
        checks.evaluation_event_storage_id.label("event"),
        checks.materialization_event_storage_id.label("judged"),
    ).where(checks.asset_key == asset.to_string(), checks.evaluation_event_storage_id.isnot(None))
    if partitions is not None:
        named = [each for each in partitions if each is not None]
        of_asset = of_asset.where(
            or_(
                checks.partition == any_(literal(named, ARRAY(Text))), checks.partition.is_(None) & (None in partitions)
            )
        )
    newest = (
        of_asset.distinct(checks.partition, checks.check_name)
        .order_by(checks.partition, checks.check_name, checks.id.desc())
        .subquery()
    )
    of_partition = (
        select(
            newest.c.partition,
            func.string_agg(newest.c.execution, aggregate_order_by(literal(";"), newest.c.check_name)).label(
                "executions"
            ),
            func.array_agg(aggregate_order_by(newest.c.judged, newest.c.check_name)).label("judged"),
            func.max(newest.c.event).label("event"),
        )
        .group_by(newest.c.partition)
        .subquery()
    )
    materialization = func.greatest(loaded.c.id, literal(loaded_whole))
    each = func.unnest(of_partition.c.judged).column_valued("each")
    letters = select(func.string_agg(case((each == materialization, "y"), else_="n"), "")).scalar_subquery()
    are_current = case(
        (materialization.is_(None), ""), (materialization == all_(of_partition.c.judged), ""), else_=letters
    )
    grouped = (of_partition.c.executions, are_current)
    rows = of_partition.join(loaded, of_partition.c.partition == loaded.c.partition, isouter=True)
    newest_event = func.max(func.greatest(of_partition.c.event, materialization))
    return select(*grouped, func.array_agg(of_partition.c.partition), newest_event).select_from(rows).group_by(*grouped)


def _executions(executions: str, are_current: str) -> tuple[Execution, ...]:
    """Return the executions of a row of `checked_partitions`."""
    read = []
    for number, execution in enumerate(executions.split(";")):
        name, status, *run = execution.split(" ")
        read.append(Execution(name, status, run[0] if run else None, not are_current or are_current[number] == "y"))
    return tuple(read)


class CheckStates:
    """Makes the states of checks, with one subset for all checks whose partitions are equal.

    Equal subsets are one object, in later answers too, so that work on a subset can be done once.
    """

    def __init__(self) -> None:
        self._subsets: dict[tuple[int, ...], tuple[Any, PartitionsSubset[str], Sequence[_Partitions]]] = {}

    def of(
        self, instance: DagsterInstance, checks: Sequence[Check], checked: Mapping[AssetKey, CheckedPartitions]
    ) -> Mapping[AssetCheckKey, AssetCheckState]:
        """Return which partitions of each check succeeded, failed, are running, or were skipped."""
        runs = {each.run_id for asset in checked.values() for group in asset.groups for each in group if each.run_id}
        ended = instance.get_runs(RunsFilter(run_ids=list(runs), statuses=list(FINISHED_STATUSES))) if runs else []
        statuses = {run.run_id: run.status for run in ended}
        existing: list[tuple[PartitionsDefinition[str], _Existing]] = []
        states = {}
        with partition_loading_context(dynamic_partitions_store=instance):
            for key, partitions in checks:
                keys = None
                if partitions is not None:
                    keys = next((keys for known, keys in existing if known == partitions), None)
                    if keys is None:
                        keys = _Existing(partitions)
                        existing.append((partitions, keys))
                states[key] = self._state(key, keys, checked[key.asset_key], statuses)
        return states

    def _state(
        self,
        key: AssetCheckKey,
        existing: "_Existing | None",
        checked: CheckedPartitions,
        ended: Mapping[str, DagsterRunStatus],
    ) -> AssetCheckState:
        of_status: dict[_State, list[_Partitions]] = {status: [] for status in _State}
        of_run: dict[str, list[_Partitions]] = defaultdict(list)
        for executions, partitions in checked.groups.items():
            execution = next((each for each in executions if each.check_name == key.name), None)
            status = None if execution is None else _status(execution, ended)
            if execution is None or status is None:
                continue
            of_status[status].append(partitions)
            if status is _State.IN_PROGRESS and execution.run_id is not None:
                of_run[execution.run_id].append(partitions)

        def subset(groups: Sequence[_Partitions]) -> SerializableEntitySubset[AssetCheckKey]:
            if existing is None:
                return SerializableEntitySubset(key=key, value=any(None in group for group in groups))
            return SerializableEntitySubset(key=key, value=self._subset(existing, groups))

        in_progress = {run: subset(groups) for run, groups in of_run.items()}
        return AssetCheckState(
            latest_storage_id=checked.newest,
            subsets={status: subset(groups) for status, groups in of_status.items()},
            in_progress_runs={run: each for run, each in in_progress.items() if not each.is_empty},
        )

    def _subset(self, existing: "_Existing", groups: Sequence[_Partitions]) -> "PartitionsSubset[str]":
        """Return the partitions of some groups that exist. The same groups have the same subset."""
        key = tuple(id(group) for group in groups)
        known = self._subsets.get(key)
        if known is not None and known[0] == existing.identity:
            return known[1]
        named = existing.filtered(frozenset[_Partition]().union(*groups))
        if existing.definition.partitions_subset_class is DefaultPartitionsSubset:
            subset: PartitionsSubset[str] = DefaultPartitionsSubset(frozenset(named))
        else:
            subset = existing.definition.subset_with_partition_keys(named)
        if len(self._subsets) >= _KEPT_SUBSETS:
            self._subsets.clear()
        # The groups are kept with it, because another object may get the identity of a deleted one.
        self._subsets[key] = (existing.identity, subset, groups)
        return subset


class _Existing:
    """The partitions that exist; keys of two dimensions are looked up in each of them, without listing all pairs."""

    def __init__(self, definition: PartitionsDefinition[str]) -> None:
        self.definition = definition
        dimensions = (
            [each.partitions_def for each in definition.partitions_defs]
            if isinstance(definition, MultiPartitionsDefinition)
            else [definition]
        )
        self._keys = [frozenset(each.get_partition_keys()) for each in dimensions]
        self.identity = (definition, self._keys)

    def filtered(self, partitions: _Partitions) -> list[str]:
        """Return the partitions that exist."""
        if len(self._keys) == 1:
            return [each for each in partitions if each in self._keys[0]]
        first, second = self._keys
        found = []
        for each in partitions:
            if each is not None:
                parts = each.split("|")
                if len(parts) == 2 and parts[0] in first and parts[1] in second:
                    found.append(each)
        return found


def _status(execution: Execution, ended: Mapping[str, DagsterRunStatus]) -> _State | None:
    """Return the status of an execution; None if its partition was materialized after it."""
    if execution.run_id is not None:
        run_status = ended.get(execution.run_id)
        if run_status is None:
            return _State.IN_PROGRESS
        return _State.EXECUTION_FAILED if run_status is DagsterRunStatus.FAILURE else _State.SKIPPED
    if not execution.is_current:
        return None
    return _State.SUCCEEDED if execution.status == _PASSED else _State.FAILED
