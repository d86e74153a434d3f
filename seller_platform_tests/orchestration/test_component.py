"""Tests our definitions as a component of another project: names, choices, and the keys of events."""

from collections.abc import Set
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.instance.config import PoolGranularity
from dagster.components.testing import create_defs_folder_sandbox

from seller_platform.contract import DATASETS, dataset_named
from seller_platform.errors import SettingsError
from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.orchestration.partitions import add_accounts, asset_key, partition_key
from seller_platform.orchestration.placement import Placement
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.connections.accounts import KnownConnection, save_connection
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform_tests.support.platform import HISTORY_START, KEYS, MONTHS, ROW_COUNT, Platform, newest_checks
from seller_platform_tests.support.shop import mart_named

TOP, PREFIX = Path(__file__).parents[2], ["shop", "market"]


def _settings(**values: Any) -> Settings:
    return read_settings().model_copy(update=values)


def _definitions(**attributes: Any) -> dg.Definitions:
    return SellerPlatformComponent(**{"history_start": HISTORY_START, **attributes}).definitions(
        _settings(export_dir="/srv/exports")
    )


def _keys(definitions: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in definitions.resolve_asset_graph().materializable_asset_keys}


@pytest.fixture(scope="module")
def plain() -> dg.Definitions:
    return _definitions()


@pytest.fixture(scope="module")
def mounted() -> dg.Definitions:
    return _definitions(key_prefix=PREFIX, group="market", owners=["team:shop"], schedules=False)


def _running(repository: dg.RepositoryDefinition) -> set[str]:
    """Return the schedules and sensors that are on when they are first loaded."""
    schedules, sensors = dg.DefaultScheduleStatus.RUNNING, dg.DefaultSensorStatus.RUNNING
    return {each.name for each in repository.schedule_defs if each.default_status is schedules} | {
        each.name for each in repository.sensor_defs if each.default_status is sensors
    }


@pytest.mark.needs("lake", "marts")
def test_assets_and_checks_are_the_same_under_a_prefix(plain: dg.Definitions, mounted: dg.Definitions) -> None:
    own, others = plain.resolve_asset_graph(), mounted.resolve_asset_graph()

    def prefixed(keys: Any) -> set[dg.AssetKey]:
        return {key.with_prefix(PREFIX) for key in keys}

    assert set(others.get_all_asset_keys()) == prefixed(own.get_all_asset_keys())
    assert {(key.asset_key, key.name) for key in others.asset_check_keys} == {
        (key.asset_key.with_prefix(PREFIX), key.name) for key in own.asset_check_keys
    }
    assert {own.get(key).group_name for key in own.get_all_asset_keys()} == {"lists", "marts", "exports", "platform"}
    for key in own.get_all_asset_keys():
        node, other = own.get(key), others.get(key.with_prefix(PREFIX))
        assert other.parent_keys == prefixed(node.parent_keys)
        assert (other.group_name, other.owners) == ("market", ["team:shop"])
        assert (other.partitions_def, other.tags, other.kinds) == (node.partitions_def, node.tags, node.kinds)
        lineage = other.metadata.get("dagster/column_lineage")
        deps = lineage.deps_by_column.values() if lineage is not None else ()
        assert {dep.asset_key for columns in deps for dep in columns} <= other.parent_keys


@pytest.mark.needs("costs", "lake", "marts", "reports", "sampling", "alerts")
def test_automation_is_the_same_under_a_prefix_and_targets_its_assets(
    plain: dg.Definitions, mounted: dg.Definitions
) -> None:
    own, others, graph = plain.get_repository_def(), mounted.get_repository_def(), mounted.resolve_asset_graph()

    def named(repository: dg.RepositoryDefinition) -> tuple[set[str], set[str]]:
        return {each.name for each in repository.schedule_defs}, {each.name for each in repository.sensor_defs}

    def assets_of(job: str) -> Set[dg.AssetKey]:
        return others.get_job(job).asset_layer.selected_asset_keys

    sensors = {
        each.name: each.asset_selection.resolve(graph)
        if each.asset_selection is not None
        else {key for target in each.targets for key in assets_of(target.job_name)}
        for each in others.sensor_defs
    }
    schedules = {each.name: assets_of(each.job_name) for each in others.schedule_defs}

    assert named(others) == tuple({f"shop_market_{name}" for name in names} for names in named(own))
    assert {"shop_market_request_reports", "shop_market_write_costs"} <= {each.name for each in others.get_all_jobs()}
    assert {name for name, keys in sensors.items() if keys} == {
        f"shop_market_{name}"
        for name in ("coverage", "discover_accounts", "report_jobs", "requested_loads", "marts_and_exports")
    }
    assert {name for name, keys in schedules.items() if not keys} == {"shop_market_orders_today", "shop_market_daily"}
    for keys in (*sensors.values(), *schedules.values()):
        assert all(list(key.path[:2]) == PREFIX for key in keys)
    # Without schedules nothing waits for what they would read.
    stopped = _running(own) - {name.removeprefix("shop_market_") for name in _running(others)}
    assert stopped >= {each.name for each in own.schedule_defs if each.name in _running(own)}
    assert "alerts" not in stopped


@pytest.mark.needs("lake", "marts")
def test_marts_without_one_of_their_inputs_are_left_out() -> None:
    chosen = ["daily_product_sales", "inventory", "warehouse_stock"]
    names = {"accounts", *chosen}

    keys = _keys(_definitions(datasets=chosen))

    complete = {mart.name for mart in MARTS if {each.dataset.name for each in mart.inputs} <= names}
    assert complete
    assert {key for key in keys if not key.startswith("platform/")} == {
        *(f"seller/{name}" for name in names),
        *(f"marts/{name}" for name in complete),
        *(f"export/{name}" for name in names | complete),
    }


def _names(definitions: dg.Definitions) -> dict[str, set[str]]:
    repository = definitions.get_repository_def()
    return {
        "assets": _keys(definitions),
        "jobs": {each.name for each in repository.get_all_jobs() if not each.name.startswith("__")},
        "schedules": {each.name for each in repository.schedule_defs},
        "sensors": {each.name for each in repository.sensor_defs},
    }


@pytest.mark.needs("marts", "sampling", "lake")
def test_a_component_of_one_dataset_brings_only_what_the_dataset_needs() -> None:
    alone = _names(_definitions(datasets=["orders"], alerts=False))
    more = ["orders", "coverage", "orders_today", "sample"]
    extended = _names(_definitions(datasets=more, alerts=False))

    assert alone == {
        "assets": {"seller/accounts", "seller/orders", "export/accounts", "export/orders"},
        "jobs": {"accept_held", "acknowledge", "extend_history", "refresh_now"},
        "schedules": {"refresh", "reread", "snapshot"},
        "sensors": {"checks_of_slices", "discover_accounts", "marts_and_exports", "requested_loads"},
    }
    assert {kind: names - alone[kind] for kind, names in extended.items()} == {
        "assets": {"platform/coverage", "platform/sample"},
        "jobs": {"read_orders_today"},
        "schedules": {"orders_today", "sample"},
        "sensors": {"coverage"},
    }
    for chosen in ({"accounts": ["A"]}, {"connections": ["default"]}):  # it does not speak for all accounts
        names = _names(_definitions(datasets=["orders", "sample"], alerts=False, **chosen))
        assert "sample" not in names["schedules"]
    for dataset in DATASETS:
        needed = [dataset.name, "inventory"] if dataset.name == "cost_periods" else [dataset.name]
        assert f"seller/{dataset.name}" in _keys(_definitions(datasets=needed))


@pytest.mark.needs("alerts")
def test_what_a_component_does_not_say_the_project_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("seller_platform.toml").write_text("""
        datasets = ["orders", "coverage"]
        accounts = ["us-1"]
        owners = ["team:books"]
        alerts = false
        schedules = { refresh = { cron = "0 6 * * *" }, reread = { enabled = false } }
    """)

    own: dict[str, Any] = {"datasets": ["inventory"], "schedules": True, "owners": ["team:own"], "alerts": True}
    by_file, by_attributes = (
        SellerPlatformComponent(history_start=HISTORY_START, **attributes).definitions() for attributes in ({}, own)
    )
    crons = [
        {each.name: each.cron_schedule for each in definitions.get_repository_def().schedule_defs}
        for definitions in (by_file, by_attributes)
    ]

    assert {"seller/accounts", "seller/orders", "platform/coverage"} <= _keys(by_file)
    assert _keys(by_attributes).isdisjoint({"seller/orders", "platform/coverage"})
    assert (crons[0]["refresh"], crons[1]["refresh"]) == ("0 6 * * *", "0 11,12,14,18 * * *")
    assert _running(by_file.get_repository_def()).isdisjoint({"reread", "alerts"})
    assert _running(by_attributes.get_repository_def()) >= {"refresh", "alerts"}
    owners = [
        {owner for spec in each.resolve_all_asset_specs() for owner in spec.owners} for each in (by_file, by_attributes)
    ]
    assert owners == [{"team:books"}, {"team:own"}]
    Path("seller_platform.toml").write_text('schedules = { refresh = { corn = "0 6 * * *" } }')
    with pytest.raises(SettingsError, match=r"schedules: refresh\.corn: .*project file"):
        SellerPlatformComponent(history_start=HISTORY_START).definitions()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"datasets": ["order"]}, r"datasets: there is no dataset 'order'; choose of accounts, orders, .*defs\.yaml"),
        ({"datasets": ["inventory", "orders_today"]}, "datasets: orders_today reads orders; add orders"),
        (
            {"schedules": {"reread": {"datasets": ["inventory"]}}},
            "schedules: reread reads no dataset 'inventory'; choose",
        ),
        ({"datasets": ["cost_periods"]}, "datasets: cost_periods are read for each SKU of inventory; add inventory"),
        (
            {"translation": lambda spec, _: spec.replace_attributes(key="mine")},
            "translation: the key of .* cannot be changed; set key_prefix instead",
        ),
    ],
)
def test_attributes_that_cannot_be_used_are_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        _definitions(**attributes)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"history_start": "2025-13-01"}, "history_start: '2025-13-01' is not a day as YYYY-MM-DD"),
        ({"key_prefix": ["a b"]}, "'a b' is no part of a key; use letters, digits and underscores"),
        ({"schedules": {"sample": {"datasets": ["orders"]}}}, "schedules"),
        ({"owners": ["shop"]}, "'shop' is no owner; write an e-mail address or team:NAME"),
    ],
)
def test_attributes_of_another_form_are_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        SellerPlatformComponent.from_attributes_dict(attributes=attributes)


def test_components_of_a_project_share_resources_and_have_their_own_pools() -> None:
    def facts(definitions: dg.Definitions, *key: str) -> tuple[str | None, str | None]:
        op = definitions.resolve_assets_def(dg.AssetKey([*key, "seller", "orders"])).op
        return op.pool, op.tags.get("seller_platform/connection")

    components = [
        _definitions(key_prefix=[name], connections=[of]) for name, of in (("eu", "eu"), ("jp", "東京 ストア"))
    ]
    repository = dg.Definitions.merge(*components).get_repository_def()

    assert {"eu_checks_of_slices", "jp_checks_of_slices"} <= {each.name for each in repository.sensor_defs}
    assert [facts(each, name) for each, name in zip(components, ("eu", "jp"), strict=True)] == [
        ("seller_api_eu", "eu"),
        ("seller_api_東京_ストア", "東京 ストア"),
    ]
    assert facts(_definitions(connections=["eu", "us"])) == ("seller_api", None)


@pytest.mark.needs("sampling", "marts", "lake", "reports")
def test_steps_that_call_the_api_are_in_the_pool_and_others_are_not(plain: dg.Definitions) -> None:
    graph = plain.resolve_asset_graph()
    pools = {key: graph.get(key).pools for key in graph.materializable_asset_keys}

    of_api = {key.path[0] for key, names in pools.items() if names == {"seller_api"} and key.path[-1] != "sample"}
    assert (of_api, pools[dg.AssetKey(["platform", "sample"])]) == ({"seller"}, {"seller_api"})
    assert {key.path[0] for key, names in pools.items() if not names} - {"export"} == {"marts", "platform"}
    jobs = {job.name: job for job in plain.get_repository_def().get_all_jobs()}
    for name in {"request_reports", "write_costs"} & jobs.keys():  # of capabilities, which may be removed
        assert {node.definition.pool for node in jobs[name].graph.nodes} == {"seller_api"}  # type: ignore[attr-defined]


def test_dagster_yaml_limits_the_runs_of_the_pool_and_of_an_account(tmp_path: Path) -> None:
    _, _, limits = (TOP / "dagster.yaml").read_text().partition("run_queue:")
    (tmp_path / "dagster.yaml").write_text(f"run_queue:{limits}")

    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        config = instance.get_concurrency_config()

    pool, queue = config.pool_config, config.run_queue_config
    assert (pool.pool_granularity, pool.default_pool_limit) == (PoolGranularity.RUN, 4)
    assert queue is not None
    assert queue.max_concurrent_runs == 5
    assert queue.tag_concurrency_limits == [
        {"key": "seller_platform/account", "value": {"applyLimitPerUniqueValue": True}, "limit": 1}
    ]


def test_a_mart_depends_on_the_same_account_and_month_of_its_inputs(plain: dg.Definitions) -> None:
    graph = plain.resolve_asset_graph()

    with dg.DagsterInstance.ephemeral() as instance:
        add_accounts(instance, ["A", "B"])

        def inputs(mart: str, dataset: str, partition: str) -> set[str]:
            with dg.partition_loading_context(datetime(2026, 2, 9, tzinfo=UTC), instance):
                keys = graph.get_parent_partition_keys_for_child(
                    partition, asset_key(dataset_named(dataset)), asset_key(mart_named(mart))
                )
                return set(keys.partitions_subset.get_partition_keys())

        of_account = {str(partition_key("A", month)) for month in MONTHS[:2]}
        of_month = str(partition_key("A", MONTHS[0]))
        assert inputs("account_profit_daily", "transactions", of_month) == {of_month}
        assert inputs("account_profit_daily", "cost_periods", of_month) == {"A"}
        assert inputs("restock_plan", "inventory", "A") == {"A"}
        assert inputs("restock_plan", "daily_product_sales", "A") == of_account


def _materialize(
    platform: Platform, definitions: dg.Definitions, keys: list[str], partition: str = ""
) -> dg.ExecuteInProcessResult:
    ends = {f"dagster/asset_partition_range_{end}": partition for end in ("start", "end") if partition}
    return dg.materialize(
        [each for each in definitions.assets or () if isinstance(each, dg.AssetsDefinition)],
        selection=dg.AssetSelection.assets(*(dg.AssetKey([*PREFIX, *key.split("/")]) for key in keys)),
        instance=platform.instance,
        resources=platform.resources,
        tags=ends,
        raise_on_error=False,
    )


_SUBCLASS = """
import dagster as dg
from seller_platform.dagster import SellerPlatformComponent, WarehouseResource


class OurSellers(SellerPlatformComponent):
    @property
    def resources(self):
        return {**super().resources, "warehouse": WarehouseResource(database_url="postgresql://ours/sellers")}

    def get_asset_spec(self, spec):
        return super().get_asset_spec(spec).merge_attributes(tags={"table": spec.key.path[-1]})

    def execute(self, context, dataset, warehouse, seller_api):
        for event in super().execute(context, dataset, warehouse, seller_api):
            is_load = isinstance(event, dg.AssetMaterialization)
            yield event.with_metadata({**event.metadata, "read_by": "us"}) if is_load else event
"""


@pytest.mark.filterwarnings("ignore:.parse_obj_as. is deprecated")  # in Dagster
def test_a_project_overrides_specs_execution_and_resources_in_a_subclass(platform: Platform) -> None:
    attributes = f"""
attributes:
  key_prefix: {PREFIX}
  history_start: 2026-01-01
  datasets: [orders]
  schedules: false
  translation:
    tags: {{source: "{{{{ spec.key.path[-1] }}}}"}}
    metadata: {{team: shop}}
"""
    platform.discover()
    with create_defs_folder_sandbox(project_name="foreign_subclass") as sandbox:
        folder = sandbox.defs_folder_path / "market"
        folder.mkdir()
        (folder.parent.parent / "sellers.py").write_text(_SUBCLASS)
        (folder / "defs.yaml").write_text(f"type: foreign_subclass.sellers.OurSellers{attributes}")
        with sandbox.load_component_and_build_defs(defs_path=folder) as (component, definitions):
            add_accounts(platform.instance, KEYS)
            result = _materialize(platform, definitions, ["seller/orders"], partition_key(KEYS[0], MONTHS[0]))
            spec = definitions.resolve_asset_graph().get(dg.AssetKey([*PREFIX, "seller", "orders"]))

    (event,) = result.get_asset_materialization_events()
    assert (event.materialization.metadata["read_by"].value, event.materialization.metadata["verdict"].value) == (
        "us",
        "match",
    )
    assert (spec.tags["table"], spec.tags["source"], spec.metadata["team"]) == ("orders", "orders", "shop")
    assert isinstance(component, SellerPlatformComponent)
    assert component.history_start == date(2026, 1, 1)
    assert "2026-01-01" in str(spec.partitions_def)
    warehouse = (definitions.resources or {})["warehouse"]
    assert warehouse.database_url == "postgresql://ours/sellers"


def test_a_component_of_a_connection_discovers_and_judges_no_other(platform: Platform) -> None:
    save_connection(platform.database, KnownConnection("other", "http://127.0.0.1:1", "http://127.0.0.1:1", "client"))
    component = SellerPlatformComponent(key_prefix=PREFIX, connections=["default"], history_start=HISTORY_START)
    definitions = component.definitions()

    discovered = _materialize(platform, definitions, ["seller/accounts"])
    platform.upstream.accounts = []
    held = _materialize(platform, definitions, ["seller/accounts"])

    (event,) = discovered.get_asset_materialization_events()
    assert (event.asset_key, discovered.success) == (dg.AssetKey([*PREFIX, "seller", "accounts"]), True)
    assert event.materialization.metadata["connection"].value == "default"
    assert "other" not in str([each.description for each in held.get_asset_check_evaluations()])
    checks = newest_checks(platform.instance, dataset_named("accounts"), Placement(key_prefix=tuple(PREFIX)))
    assert [name for name, each in checks.items() if not each.passed] == ["reading_is_plausible"]
    (failure,) = (each.step_failure_data.user_failure_data for each in held.get_step_failure_events())
    for shown in (checks["reading_is_plausible"].description, failure and failure.description):
        assert "publish it with the job shop_market_accept_held of load" in str(shown)
    assert newest_checks(platform.instance, dataset_named("accounts")) == {}


@pytest.mark.needs("lake", "marts")
def test_only_chosen_accounts_are_read_judged_and_scheduled(
    loaded: Platform, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    orders, month = dg.AssetKey([*PREFIX, "seller", "orders"]), partition_key(KEYS[1], MONTHS[1])
    component = SellerPlatformComponent(
        key_prefix=PREFIX, accounts=[KEYS[1]], datasets=["orders", "coverage"], history_start=HISTORY_START
    )
    definitions = component.definitions(_settings(export_dir=str(tmp_path / "files")))
    resources = {"warehouse": loaded.resources["warehouse"]}

    with dg.build_schedule_context(
        instance, scheduled_execution_time=datetime(2026, 4, 10, 11, tzinfo=UTC), resources=resources
    ) as context:
        add_accounts(instance, KEYS, "shop_market_selected_accounts")
        tick = definitions.resolve_schedule_def("shop_market_refresh").evaluate_tick(context)
    steps = {"seller/accounts": "", "seller/orders": month, "export/orders": month, "platform/coverage": ""}
    for name, partition in steps.items():
        result = _materialize(loaded, definitions, [name], partition)
        (event,) = result.get_asset_materialization_events()
        assert (result.success, event.asset_key) == (True, dg.AssetKey([*PREFIX, *name.split("/")]))
    assert event.materialization.metadata["accounts"].value == 1
    alone = dg.Definitions(assets=definitions.assets, asset_checks=definitions.asset_checks, resources=loaded.resources)
    job = alone.resolve_implicit_global_asset_job_def().get_subset(
        asset_selection=set(), asset_check_selection={dg.AssetCheckKey(orders, ROW_COUNT)}
    )
    (executed,) = job.execute_in_process(instance=loaded.instance).get_asset_check_evaluations()

    requests = tick.run_requests or []
    assert {(str(each.asset_selection), each.tags["seller_platform/account"]) for each in requests} == {
        (str([orders]), KEYS[1])
    }
    assert loaded.instance.get_dynamic_partitions("shop_market_selected_accounts") == [KEYS[1]]
    reported = newest_checks(loaded.instance, dataset_named("orders"), Placement(key_prefix=tuple(PREFIX)))
    assert (executed.partition, executed.metadata["slices"].value) == (None, len(MONTHS))
    assert reported[ROW_COUNT].metadata["slices"].value == len(MONTHS)
