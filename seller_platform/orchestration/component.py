"""The Dagster component that mounts Seller Platform in a project, and its scaffold."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from string import Template
from typing import Annotated, TypeVar

import dagster as dg
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from pydantic import Field, ValidationError, field_validator

from seller_platform.capabilities import COVERAGE, ORDERS_TODAY, contributed, extras
from seller_platform.contract import DATASETS, LISTS, REFRESHED, Dataset, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.sales import ORDERS
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.files import write_atomically
from seller_platform.orchestration.assets.accounts import discovery_definitions
from seller_platform.orchestration.assets.coverage import coverage_definitions
from seller_platform.orchestration.assets.datasets import asset_for, load_partitions
from seller_platform.orchestration.assets.reporting import check_definitions
from seller_platform.orchestration.automation.following import following_definitions
from seller_platform.orchestration.automation.schedules import daily_definitions, schedule_definitions
from seller_platform.orchestration.downstream import IO_MANAGER_KEY, WarehouseIOManager
from seller_platform.orchestration.jobs.decisions import accept_job, acknowledge_job
from seller_platform.orchestration.jobs.loading import loading_definitions
from seller_platform.orchestration.jobs.today import today_definitions
from seller_platform.orchestration.mounting import Mounted
from seller_platform.orchestration.placement import SCHEDULES_OFF, Placement, Schedules, invalid_attribute
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.settings import OWNER, Settings, read_settings
from seller_platform.warehouse.loads.history_start import history_start_of

T = TypeVar("T")

_PART = re.compile(r"[A-Za-z0-9_]+")

EXECUTOR = dg.in_process_executor.configured(
    {"step_dependency_config": {"require_upstream_step_success": False}}, name="in_process"
)
"""Executes the steps of a run one after the other; marts and exports of what was loaded also after a failed step.

A step whose partitions failed has yielded its outputs before.
"""

_DEFS_YAML = Path(__file__).with_name("defs_template.yaml")


class SellerPlatformScaffolder(dg.Scaffolder):
    """Writes a `defs.yaml` that names and explains every attribute."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        if request.scaffold_format != "yaml":
            dg.scaffold_component(request, {})
            return
        name = re.sub(r"\W+", "_", request.target_path.name, flags=re.ASCII)
        text = Template(_DEFS_YAML.read_text()).substitute(type_name=request.type_name, name=name)
        file = request.target_path / "defs.yaml"
        if request.append and file.exists():
            text = f"{file.read_text()}---\n{text}"
        write_atomically(file, text.encode(), 0o666)


def _day(context: dg.ResolutionContext, written: str | None) -> date | None:
    if written is None:
        return None
    day = context.resolve_value(written, as_type=str)
    try:
        return date.fromisoformat(day)
    except ValueError:
        raise invalid_attribute("history_start", f"{day!r} is not a day as YYYY-MM-DD") from None


@dg.scaffold_with(SellerPlatformScaffolder)
class SellerPlatformComponent(dg.Component, dg.Model, dg.Resolvable):
    """The assets, checks, schedules, sensors and jobs of Seller Platform, under a key prefix and in a group.

    The warehouse and the API come from the settings of the environment. The attributes `datasets`, `accounts`,
    `history_start`, `schedules`, `owners` and `alerts` are by default what the project file says.

    The component brings the resources `warehouse`, `seller_api` and `seller_warehouse`. The last one is an IO manager:
    with `AssetIn(key, input_manager_key="seller_warehouse")`, assets of the project load partitions as DataFrames.

    A subclass may override `get_asset_spec`, `execute` and `resources`.
    """

    key_prefix: Sequence[str] = Field(
        default=(), description="The first parts of all asset keys, and of the names of jobs, schedules and sensors."
    )
    group: str | None = Field(
        default=None, description="The group of all assets; by default they are lists, marts, exports and platform."
    )
    connections: Sequence[str] | None = Field(
        default=None, description="The names of the connections to read; by default all."
    )
    accounts: Sequence[str] | None = Field(
        default=None, description="The keys of the accounts to read; by default all accounts of the connections."
    )
    datasets: Sequence[str] | None = Field(
        default=None,
        description="The names of the datasets to read, besides the accounts; by default all. A mart is left out if "
        "one of its inputs is. `coverage` (an asset), `orders_today` (a schedule) and `sample` "
        "(comparisons at random, in a component that reads all accounts) may be named, too.",
    )
    history_start: Annotated[date | None, dg.Resolver(_day, model_field_type=str | None)] = Field(
        default=None,
        description="The first day of history; by default the stored one, or else SELLER_PLATFORM_HISTORY_START.",
    )
    schedules: bool | Schedules | None = Field(
        default=None,
        description="Whether schedules are on when they are first loaded (by default they are), or settings of each: "
        f"{', '.join(Schedules.model_fields)}.",
    )
    alerts: bool | None = Field(
        default=None,
        description="Whether sensors report what is wrong with slices, and which runs of the instance failed. They do "
        "by default, to SELLER_PLATFORM_ALERT_WEBHOOK_URL and to the log.",
    )
    owners: Sequence[str] | None = Field(
        default=None, description="The owners of all assets; by default SELLER_PLATFORM_OWNER."
    )
    translation: Annotated[TranslationFn[dg.AssetSpec], TranslationFnResolver[dg.AssetSpec](lambda _: {})] | None = (
        Field(
            default=None,
            description="Further attributes of each asset, such as tags or metadata; `spec` is the spec of the asset.",
        )
    )

    @field_validator("key_prefix", mode="before")
    @classmethod
    def _parts(cls, prefix: object) -> object:
        parts = prefix.split("/") if isinstance(prefix, str) else prefix
        for part in parts if isinstance(parts, Sequence) else ():
            if not _PART.fullmatch(str(part)):
                raise ValueError(f"{part!r} is no part of a key; use letters, digits and underscores")
        return parts

    @field_validator("owners")
    @classmethod
    def _owners(cls, owners: Sequence[str] | None) -> Sequence[str] | None:
        for owner in owners or ():
            if not OWNER.fullmatch(owner):
                raise ValueError(f"{owner!r} is no owner; write an e-mail address or team:NAME")
        return owners

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:  # noqa: ARG002  # Dagster's signature
        """Return the definitions for a project with a folder of components."""
        return self.definitions()

    def definitions(self, settings: Settings | None = None, *, daily: Sequence[dg.OpDefinition] = ()) -> dg.Definitions:
        """Return the definitions.

        Args:
            settings: By default those of the environment.
            daily: Further steps of the job `daily`.

        Raises:
            SettingsError: The attributes contradict each other, or name an unknown dataset.
            SettingsError: A file with rules of marts, which the settings name, cannot be used.
        """
        settings = settings or read_settings()
        datasets, beside = _chosen(_first(self.datasets, settings.datasets))
        placement = self._placement_with(settings)
        refreshed = [each for each in REFRESHED if each in datasets]
        history_start = self.history_start or history_start_of(settings)
        mounted = Mounted(datasets, beside, self.alerts, history_start, placement, settings)
        with warnings.catch_warnings():
            # Backfill policies are in beta and partitioned checks a preview; our tests fail if they change.
            warnings.simplefilter("ignore", dg.BetaWarning)
            warnings.simplefilter("ignore", dg.PreviewWarning)
            contributions = [define(mounted) for define in contributed("definitions")]
            sources = [*datasets, *(mart for each in contributions for mart in each.marts)]
            parts = [
                *(each.definitions for each in contributions),
                dg.Definitions(
                    assets=[
                        asset_for(each, history_start, placement, self.execute)
                        for each in (*LISTS, COST_PERIODS)
                        if each in datasets
                    ],
                    resources=self.resources,
                ),
                discovery_definitions(placement),
                check_definitions(sources, placement),
                following_definitions(
                    [follower for each in contributions for follower in each.followers], history_start, placement
                ),
                schedule_definitions(history_start, refreshed, placement),
                loading_definitions(history_start, placement, datasets),
                dg.Definitions(jobs=[accept_job(placement), acknowledge_job(sources, placement)]),
                daily_definitions([*(step for each in contributions for step in each.daily), *daily], placement),
            ]
            if COVERAGE in beside:
                parts.append(coverage_definitions(placement, refreshed))
            if ORDERS_TODAY in beside:
                parts.append(today_definitions(placement, refreshed))
            owners = list(self.owners or settings.owners)

            def own(spec: dg.AssetSpec) -> dg.AssetSpec:
                changed = self.get_asset_spec(spec.merge_attributes(owners=owners, metadata=placement.tags))
                if changed.key != spec.key:
                    problem = f"the key of {spec.key.to_user_string()} cannot be changed; set key_prefix instead"
                    raise invalid_attribute("translation", problem)
                return changed

            return dg.Definitions.merge(*parts).map_asset_specs(func=own)

    @property
    def resources(self) -> Mapping[str, object]:
        """The resources `warehouse`, `seller_api` and `seller_warehouse`, by key.

        Override it where the settings of the environment do not fit. Dagster refuses two resources with one key:
        several components of a project share the default ones.
        """
        return _resources(self.history_start)

    def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the spec of an asset, by default the one that is declared, with the attribute `translation`.

        Override it to add or replace any attribute but the key.

        Args:
            spec: As declared, with the key prefix, the group and the owners of the component.
        """
        return spec if self.translation is None else self.translation(spec, spec)

    def execute(
        self,
        context: dg.AssetExecutionContext,
        dataset: Dataset,
        warehouse: WarehouseResource,
        seller_api: SellerApiResource,
    ) -> Iterator[object]:
        """Load the partitions of a step of a list, and yield an event for each of them.

        Override it to do something before or after.

        Args:
            context: That of the step; `context.partition_keys` are its accounts, or accounts and months.

        Raises:
            dagster.Failure: Some partitions failed; all others are loaded.
        """
        yield from load_partitions(self._placement_with(warehouse.settings), context, dataset, warehouse, seller_api)

    def _placement_with(self, settings: Settings) -> Placement:
        connections, accounts = (
            None if names is None else frozenset(names)
            for names in (self.connections, _first(self.accounts, settings.accounts))
        )
        schedules = _first(self.schedules, settings.schedules)
        if isinstance(schedules, Mapping):
            try:
                schedules = Schedules.model_validate(schedules)
            except ValidationError as error:
                first = error.errors(include_input=False, include_url=False)[0]
                raise invalid_attribute("schedules", f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        if not isinstance(schedules, Schedules):
            schedules = Schedules() if schedules else SCHEDULES_OFF
        return Placement(tuple(self.key_prefix), self.group, connections, accounts, schedules)


def _chosen(names: Sequence[str] | None) -> tuple[Sequence[Dataset], Sequence[str]]:
    """Return the datasets to read, in their usual order, and what is brought beside them; accounts are always read."""
    if names is None:
        return DATASETS, extras()
    allowed = [*(each.name for each in DATASETS), *extras()]
    if unknown := sorted(set(names) - set(allowed)):
        raise invalid_attribute("datasets", f"there is no dataset {unknown[0]!r}; choose of {', '.join(allowed)}")
    if ORDERS_TODAY in names and ORDERS.name not in names:
        raise invalid_attribute("datasets", f"{ORDERS_TODAY} reads orders; add {ORDERS.name}")
    if COST_PERIODS.name in names and dataset_named("inventory").name not in names:
        raise invalid_attribute("datasets", "cost_periods are read for each SKU of inventory; add inventory")
    return [each for each in DATASETS if each.name in {*names, ACCOUNTS.name}], names


def _first(attribute: T | None, setting: T) -> T:
    """Return the attribute of a component, or where it has none, what the settings say."""
    return setting if attribute is None else attribute


@cache
def _resources(history_start: date | None) -> dict[str, object]:
    """Return the resources, whose attributes are the settings of the environment.

    Several components of a project share them, for Dagster refuses two with one key.
    """
    warehouse = WarehouseResource(history_start=history_start.isoformat() if history_start else None)
    api = SellerApiResource(warehouse=warehouse)
    return {"warehouse": warehouse, "seller_api": api, IO_MANAGER_KEY: WarehouseIOManager()}
