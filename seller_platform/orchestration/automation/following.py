"""The sensor that requests the partitions of marts and exports whose inputs changed.

`warehouse/derived/due` says which are due. The sensor leaves out those that wait for an input, and those that a run
under way makes anyway. A run that is lost changes nothing: its partitions are still due. A tick looks at as many
accounts as take it two seconds; its cursor says with which one the next tick goes on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from hashlib import sha256

import dagster as dg
import msgspec
from sqlalchemy import text

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Window
from seller_platform.counts import count_of
from seller_platform.orchestration.account_names import AccountNames
from seller_platform.orchestration.automation.runs import PlannedRun, plan_runs
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import ACCOUNT_TAG, under_way
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.due import EVERY_ACCOUNT, Derived, PartitionState, partition_states

SENSOR = "marts_and_exports"
_RUNS_PER_TICK = 100
_PARTITIONS_PER_TICK = 36_000
# Without a new load or build, what failed or was made by hand may be due.
_LOOKS_AGAIN_AFTER = timedelta(minutes=10)
_VERSION_DIGITS = 12

_NEWEST = text("SELECT (SELECT max(id) FROM platform.loads), (SELECT max(id) FROM platform.mart_builds)")


@dataclass(frozen=True, eq=False)
class Follower:
    """An asset whose partitions follow their inputs.

    Attributes:
        source: The mart, or the table that it exports.
        inputs: The assets for which it waits while they are loaded.
    """

    key: dg.AssetKey
    source: Dataset | Mart
    derived: Derived
    inputs: frozenset[dg.AssetKey]


_States = Mapping[Follower, Sequence[PartitionState]]


class _Round(msgspec.Struct, frozen=True):
    """The ticks that look at every account once, as the cursor keeps them.

    Attributes:
        newest: The newest load and build at its beginning; empty once something was due.
        follows: The account with which the next tick goes on; None after the last.
    """

    newest: str
    began: datetime
    follows: str | None = None

    @classmethod
    def of(cls, cursor: str | None) -> "_Round":
        try:
            return msgspec.json.decode(cursor or "", type=cls)
        except msgspec.DecodeError:  # of no tick, or of another version
            return cls("", utc_now())


def following_definitions(
    followers: Sequence[Follower], history_start: date, placement: Placement = WHOLE
) -> dg.Definitions:
    """Return the sensor, which needs the resource `warehouse`; nothing where nothing follows."""
    if not followers:
        return dg.Definitions()
    declared = repr([(each.key, each.derived) for each in followers])
    version = sha256(declared.encode()).hexdigest()[:_VERSION_DIGITS]

    @placement.sensor(
        SENSOR,
        "Builds marts, and writes exports, whose inputs were loaded and have changed.",
        asset_selection=dg.AssetSelection.assets(*(each.key for each in followers)),
    )
    def evaluate(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        database, now = warehouse.database, utc_now()
        with database.begin() as connection:
            newest = f"{version} {connection.execute(_NEWEST).one()}"
        last = _Round.of(context.cursor)
        if last.follows is None and last.newest == newest and now < last.began + _LOOKS_AGAIN_AFTER:
            yield dg.SkipReason("nothing was loaded or built since nothing was due")
            return

        listed = context.instance.get_dynamic_partitions(placement.accounts_name)
        months = list(Window(history_start.replace(day=1), Window.month_of(now.date()).end).months())
        begun, first = (last, listed.index(last.follows)) if last.follows in listed else (_Round(newest, now), 0)
        of_account = sum(len(months) if each.derived.is_monthly else 1 for each in followers)
        after = first + max(1, _PARTITIONS_PER_TICK // of_account)
        with database.begin() as connection:
            due: _States = {
                each: partition_states(connection, each.derived, listed[first:after], months, only_due=True)
                for each in followers
                if first == 0 or not each.derived.is_of_all
            }
        ready = {each: [state for state in states if state.problem is None] for each, states in due.items()}
        free = _without_those_under_way(context, ready, listed)
        requests = list(_requests(free, listed, now, warehouse.names))
        yield from requests
        follows = listed[after] if after < len(listed) else None
        ended = _Round("" if _count(ready) else begun.newest, begun.began, follows)
        context.update_cursor(msgspec.json.encode(ended).decode())
        if not requests:
            blocked = _count(due) - _count(ready)
            reasons = {"a run under way": _count(ready), "an input that has a problem": blocked}
            waits = [f"{count_of(count, 'partition', 'waits')} for {of}" for of, count in reasons.items() if count]
            yield dg.SkipReason("; ".join(waits) or "nothing is due")

    return dg.Definitions(sensors=[evaluate])


@dataclass(frozen=True)
class _Range:
    """The partitions of a run under way: accounts, and the first days of months; None for all."""

    assets: frozenset[dg.AssetKey]
    accounts: frozenset[str] | None
    months: tuple[str, str] | None

    @classmethod
    def of(cls, run: dg.DagsterRun, listed: Sequence[str]) -> "_Range":
        single = run.tags.get("dagster/partition")
        ends = [run.tags.get(f"dagster/asset_partition_range_{end}", single) for end in ("start", "end")]
        (first, _, first_month), (last, _, last_month) = ((end or "").partition("|") for end in ends)
        among = listed[listed.index(first) : listed.index(last) + 1] if {first, last} <= {*listed} else None
        return cls(
            frozenset(run.asset_selection or ()),
            None if among is None else frozenset(among),
            (first_month, last_month) if first_month and last_month else None,
        )

    def has(self, account: str, month: Window | None) -> bool:
        """Return whether the run has a partition, or any of an account."""
        is_of_account = self.accounts is None or account == EVERY_ACCOUNT or account in self.accounts
        is_of_month = month is None or self.months is None or self.months[0] <= str(month.start) <= self.months[1]
        return is_of_account and is_of_month


def _without_those_under_way(context: dg.SensorEvaluationContext, ready: _States, listed: Sequence[str]) -> _States:
    """Return the partitions that no run in the queue or under way makes, or loads an input of."""
    if not any(ready.values()):
        return {}
    ranges = [_Range.of(run, listed) for run in context.instance.get_runs(under_way())]

    def free(follower: Follower, states: Sequence[PartitionState]) -> list[PartitionState]:
        of_runs = [each for each in ranges if {follower.key, *follower.inputs} & each.assets]
        return [state for state in states if not any(each.has(state.account, state.window) for each in of_runs)]

    return {each: free(each, states) for each, states in ready.items() if states}


def _requests(free: _States, listed: Sequence[str], now: datetime, names: AccountNames) -> Iterator[dg.RunRequest]:
    """Yield the runs, newest months first. The same run is requested once an hour, for it may end without a trace."""
    chosen = {each: states for each, states in free.items() if states}
    runs: list[tuple[PlannedRun, dict[str, Follower]]] = []
    for are_exports in (False, True):
        group = {each.source.name: each for each in chosen if bool(each.derived.folder) is are_exports}
        partitions = (
            (each.source, state.account, state.window, True)
            for each in group.values()
            if not each.derived.is_of_all
            for state in chosen[each]
        )
        whole = [PlannedRun((each.source,)) for each in group.values() if each.derived.is_of_all]
        runs += [(run, group) for run in (*whole, *plan_runs(partitions, listed=listed))]
    for run, group in runs[:_RUNS_PER_TICK]:
        followers = [group[source.name] for source in run.datasets]
        assets = "+".join(each.key.to_user_string() for each in followers)
        changes = sha256(b"".join(state.fingerprint for each in followers for state in chosen[each])).hexdigest()
        yield dg.RunRequest(
            run_key=f"{assets}:{run.first}:{run.last}:{changes[:_VERSION_DIGITS]}:{now:%Y-%m-%dT%H}",
            asset_selection=[each.key for each in followers],
            asset_check_keys=[],  # the step reports them
            # With the tag of its account, a run would wait for the loads of the account.
            tags={name: value for name, value in run.tags.items() if name != ACCOUNT_TAG}
            | names.title_tags(run.accounts),
        )


def _count(states: _States) -> int:
    return sum(map(len, states.values()))
