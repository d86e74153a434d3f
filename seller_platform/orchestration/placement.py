"""The names of definitions in a project, and the accounts that they read."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from functools import cached_property
from typing import Any, TypeVar

import dagster as dg
from pydantic import Field

from seller_platform.contract import Dataset
from seller_platform.errors import SettingsError
from seller_platform.ingest.loads.planner import Planner
from seller_platform.orchestration.partitions import ALL_ACCOUNTS, asset_key
from seller_platform.warehouse.connections.accounts import KnownAccount, KnownConnection
from seller_platform.warehouse.derived.declaration import Mart

REFRESH_CRON = "0 11,12,14,18 * * *"
"""When the schedule `refresh` is due; later ticks of a day request what the first did not bring."""

CONNECTION_TAG = "seller_platform/connection"
"""The tag of ops, and the metadata of assets, that read only one connection."""

Reader = TypeVar("Reader", KnownAccount, KnownConnection)


class ScheduleSettings(dg.Model, dg.Resolvable):
    """When a schedule runs."""

    enabled: bool | None = Field(
        default=None,
        description="Whether it is on when it is first loaded; by default all are but `snapshot` and `orders_today`.",
    )
    cron: str | None = Field(default=None, description="When it runs, in UTC.")


class AccountScheduleSettings(ScheduleSettings):
    """When a schedule runs, and of which accounts."""

    accounts: Sequence[str] | None = Field(default=None, description="The keys of its accounts; by default all.")


class ListScheduleSettings(AccountScheduleSettings):
    """When a schedule runs, and which lists of which accounts it reads."""

    datasets: Sequence[str] | None = Field(default=None, description="The names of its datasets; by default all.")


class Schedules(dg.Model, dg.Resolvable):
    """The settings of each schedule."""

    refresh: ListScheduleSettings = ListScheduleSettings()
    reread: ListScheduleSettings = ListScheduleSettings()
    snapshot: ListScheduleSettings = ListScheduleSettings()
    orders_today: AccountScheduleSettings = AccountScheduleSettings()
    sample: ScheduleSettings = ScheduleSettings()
    daily: ScheduleSettings = ScheduleSettings()


SCHEDULES_OFF = Schedules.model_validate({name: {"enabled": False} for name in Schedules.model_fields})


def invalid_attribute(attribute: str, problem: str) -> SettingsError:
    """Return the error of an attribute of `SellerPlatformComponent` whose value cannot be used."""
    return SettingsError(
        f"{attribute}: {problem}",
        code="InvalidComponentError",
        step="Correct the attribute in the component's defs.yaml, or the setting in the project file.",
    )


@dataclass(frozen=True)
class Placement:
    """How the definitions of a component are named, and which accounts they read.

    Attributes:
        key_prefix: The first parts of all asset keys, and of the names of jobs, schedules and sensors.
        group: The group of all assets; by default lists, marts, exports and platform.
        connections: The names of the connections to read; None for all.
        accounts: The keys of the accounts to read; None for all accounts of these connections.
        schedules: When they run, and what they read.
    """

    key_prefix: tuple[str, ...] = ()
    group: str | None = None
    connections: frozenset[str] | None = None
    accounts: frozenset[str] | None = None
    schedules: Schedules = field(default_factory=Schedules)

    def key(self, key: dg.AssetKey) -> dg.AssetKey:
        return key.with_prefix(self.key_prefix) if self.key_prefix else key

    def asset_key(self, source: Dataset | Mart) -> dg.AssetKey:
        return self.key(asset_key(source))

    def group_of(self, name: str) -> str:
        """Return the group of assets whose own group has this name."""
        return self.group or name

    def name_of(self, name: str) -> str:
        return "_".join((*self.key_prefix, name))

    def schedule(self, name: str, cron: str, *, is_on: bool = True) -> dict[str, Any]:
        """Return name, time and status of a schedule, as Dagster's definitions take them.

        Args:
            cron: When it runs, where its settings do not say so; `is_on` likewise.
        """
        own: ScheduleSettings = getattr(self.schedules, name)
        is_on = is_on if own.enabled is None else own.enabled
        status = dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED
        when = {"cron_schedule": own.cron or cron, "execution_timezone": "UTC"}
        return {"name": self.name_of(name), "default_status": status, **when}

    def sensor(
        self, name: str, description: str, *, seconds: int = 30, **options: Any
    ) -> Callable[[Callable[..., Any]], dg.SensorDefinition]:
        """Return a decorator that makes a sensor of a function, which is on at first, and evaluated so often."""
        options |= {"minimum_interval_seconds": seconds, "default_status": dg.DefaultSensorStatus.RUNNING}
        return dg.sensor(name=self.name_of(name), description=description, **options)

    def refresh_at(self, now: datetime) -> time:
        """Return the time at which the schedule `refresh` is due first on a day of UTC."""
        midnight = datetime.combine(now.astimezone(UTC), time(), UTC)
        due = dg.TimeWindowPartitionsDefinition(
            midnight, "%H:%M", cron_schedule=self.schedules.refresh.cron or REFRESH_CRON, timezone="UTC", end_offset=1
        )
        with dg.partition_loading_context(now):
            first = due.get_first_partition_window()
        return Planner.refresh_at if first is None else first.start.time()

    def read_by(self, schedule: str, datasets: Sequence[Dataset]) -> list[Dataset]:
        """Return the datasets that a schedule reads.

        Raises:
            SettingsError: Its settings name one that it cannot read.
        """
        names, known = getattr(self.schedules, schedule).datasets, [each.name for each in datasets]
        for unknown in (name for name in names or () if name not in known):
            raise invalid_attribute(
                "schedules", f"{schedule} reads no dataset {unknown!r}; choose of {', '.join(known)}"
            )
        return [each for each in datasets if names is None or each.name in names]

    @property
    def is_whole(self) -> bool:
        """Whether all accounts are read."""
        return self.connections is None and self.accounts is None

    @cached_property
    def accounts_name(self) -> str:
        """The name of the dynamic partitions: chosen accounts have partitions of their own."""
        return ALL_ACCOUNTS if self.is_whole else self.name_of(f"selected_{ALL_ACCOUNTS}")

    @cached_property
    def account_partitions(self) -> dg.DynamicPartitionsDefinition:
        return dg.DynamicPartitionsDefinition(name=self.accounts_name)

    @property
    def pool(self) -> str:
        """The concurrency pool of steps that call the API: of the connection, or of all connections."""
        # Dagster allows everything but spaces in the names of pools.
        return "_".join(["seller_api", *(self._only_connection or "").split()])

    @property
    def tags(self) -> dict[str, str]:
        """The tags of ops and the metadata of assets: the connection, if they read only one."""
        only = self._only_connection
        return {} if only is None else {CONNECTION_TAG: only}

    def job(
        self, name: str, step: str, description: str, *, calls_api: bool = True
    ) -> Callable[[Callable[..., object]], dg.JobDefinition]:
        """Return a decorator that makes a job of a function, its only step."""
        op = self.op(step, description, calls_api=calls_api)
        return lambda function: self.job_of(name, op(function))

    def op(
        self, step: str, description: str, *, calls_api: bool = True
    ) -> Callable[[Callable[..., object]], dg.OpDefinition]:
        """Return a decorator that makes a step of a function which returns nothing."""
        pool, nothing = self.pool if calls_api else None, dg.Out(dg.Nothing)
        return dg.op(name=self.name_of(step), pool=pool, tags=self.tags, description=description, out=nothing)

    def job_of(self, name: str, step: dg.OpDefinition) -> dg.JobDefinition:
        return dg.GraphDefinition(self.name_of(name), description=step.description, node_defs=[step]).to_job()

    def chosen(self, known: Iterable[Reader]) -> list[Reader]:
        """Return the accounts or the connections that are read."""
        return [
            each
            for each in known
            if self.connections is None
            or (each.name if isinstance(each, KnownConnection) else each.connection) in self.connections
            if self.accounts is None or isinstance(each, KnownConnection) or each.key in self.accounts
        ]

    def accounts_of(self, schedule: str, known: Iterable[KnownAccount]) -> list[KnownAccount]:
        """Return the accounts that a schedule reads."""
        keys = getattr(self.schedules, schedule).accounts
        return [each for each in self.chosen(known) if keys is None or each.key in keys]

    @property
    def _only_connection(self) -> str | None:
        return next(iter(self.connections)) if self.connections is not None and len(self.connections) == 1 else None


WHOLE = Placement()
"""The placement of our own code location: plain names, all accounts."""
