"""Tests the asset of costs over an independent upstream, and the job that writes them."""

from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import dataset_named
from seller_platform.contract.cost_periods import CostElement, CostPeriod
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.costs.jobs import cost_job
from seller_platform.costs.planning import make_plan
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.partitions import ACCOUNT_PARTITIONS, asset_key
from seller_platform_tests.support.cost_shop import SKUS, US, Shop, open_shop
from seller_platform_tests.support.dagster_instance import newest_metadata
from seller_platform_tests.support.platform import (
    HISTORY_START,
    KEYS,
    Platform,
    failure_of,
    newest_checks,
    reported_partitions,
    resources_of,
)
from seller_platform_tests.support.postgres import Databases

INVENTORY = dataset_named("inventory")
NOTHING = dg.ResourceDefinition.none_resource()
Page = Callable[[str, dict[str, str]], Any]


def _with_costs(page: Page) -> Page:
    """Return the answers of the upstream with costs, but without costs of odd products.

    Their days are in an object, and their amounts are texts.
    """

    def answer(path: str, query: dict[str, str]) -> Any:
        if path != COST_PERIODS.path:
            return page(path, query)
        if int(query["sku"].removeprefix("SKU ")) % 2:
            return None
        dates = {"from_date": "2026-01-01", "to_date": "2026-12-31"}
        element = {"cost_element": "Freight", "amount": "1,234.50", "currency": "EUR"}
        return [{"dates": dates, "cost_elements": [element]}]

    return answer


def test_costs_follow_inventory_and_are_told_by_account(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform.upstream, "page", _with_costs(platform.upstream.page))
    platform.assets[COST_PERIODS.name] = asset_for(COST_PERIODS, HISTORY_START)
    platform.discover()
    platform.run([INVENTORY], KEYS[1], KEYS[1])

    of_one = platform.run([COST_PERIODS], KEYS[0], KEYS[-1])
    platform.run([INVENTORY], KEYS[0], KEYS[0])
    of_both = platform.run([COST_PERIODS], KEYS[0], KEYS[-1])

    _, reasons = failure_of(of_one)
    assert (reported_partitions(of_one), set(reasons)) == ({KEYS[1]}, {KEYS[0]})
    assert "Load its inventory first: *Materialize*" in reasons[KEYS[0]]
    assert (of_both.success, platform.materialized(COST_PERIODS)) == (True, set(KEYS))
    for key in KEYS:
        metadata = newest_metadata(platform.instance, asset_key(COST_PERIODS), key)
        assert (metadata["rows"], metadata["verdict"], metadata["announced_total"]) == (23, "unverifiable", None)
        assert metadata["notes"] == {"products": 45, "unknown_products": 22}
        assert metadata["upstream"] == f"{platform.upstream.url}/api"
    assert all(each.passed for each in newest_checks(platform.instance, COST_PERIODS).values())
    amount = "sum((cost_elements -> 0 ->> 'amount')::numeric)"
    statement = f"SELECT account, count(*), {amount} FROM seller.cost_periods GROUP BY 1 ORDER BY 1"
    sums = platform.database.execute(text(statement)).all()
    assert [tuple(row) for row in sums] == [(key, 23, Decimal("28393.50")) for key in KEYS]
    asset = asset_for(COST_PERIODS, HISTORY_START)
    assert asset.dependency_keys == {asset_key(INVENTORY)}
    assert asset.partitions_def == ACCOUNT_PARTITIONS


@pytest.fixture
def cost_shop(databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop of the platform's service, whose costs can be written."""
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    with open_shop(databases, tmp_path) as opened:
        yield opened


def _write(shop: Shop, plan: int) -> dg.ExecuteInProcessResult:
    job = cost_job()
    with dg.DagsterInstance.ephemeral() as instance:
        return job.execute_in_process(
            instance=instance,
            resources=resources_of(shop.warehouse.url, shop.upstream),
            run_config={"ops": {"write": {"config": {"plan": plan, "wait_seconds": 0}}}},
            raise_on_error=False,
        )


def _plan(shop: Shop, *skus: str) -> int:
    period = CostPeriod(date(2026, 1, 1), date(2026, 12, 31), (CostElement("Freight", Decimal("2.50"), "USD"),))
    with shop.api() as api:
        planned = make_plan(
            lambda _: api, shop.warehouse, {(US, sku): (period,) for sku in skus}, source="a test", made_by="ann"
        )
    assert planned.plan is not None
    return planned.plan.id


def test_the_job_writes_a_reviewed_plan_and_fails_where_a_cost_is_refused(cost_shop: Shop) -> None:
    refused, reasons = failure_of(_write(cost_shop, _plan(cost_shop, SKUS[0], "misspelt")))
    plan = _plan(cost_shop, *SKUS)
    written = _write(cost_shop, plan)
    of_plan = f"SELECT DISTINCT state, written_by, run_id FROM platform.cost_writes WHERE plan = {plan}"
    states = cost_shop.query(of_plan)

    assert written.success
    assert cost_shop.sums(SKUS[2]) == {"2026-01-01..2026-12-31": Decimal("2.50")}
    (output,) = (event for event in written.all_events if event.is_successful_output)
    metadata = output.step_output_data.metadata
    assert (metadata["plan"].value, metadata["skus"].value, metadata["holding"].value) == (plan, 2, 2)
    writes = metadata["writes"]
    assert isinstance(writes, dg.TableMetadataValue)
    assert all(str(each.data["title"]).endswith(", US, USD") for each in writes.records)
    assert states == [("holds", "dagster", written.run_id)]
    assert "'misspelt' of us-1" in refused
    assert reasons["holding"] == 1


def test_the_job_needs_a_plan() -> None:
    job = cost_job()

    with pytest.raises(dg.DagsterInvalidConfigError, match="plan"):
        job.execute_in_process(resources={"warehouse": NOTHING, "seller_api": NOTHING}, run_config={})
