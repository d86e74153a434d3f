"""Tests cost plans with the service: review, writes, reads and files, and the job that writes one."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from seller_platform.client.http.api import SellerApi
from seller_platform.contract.cost_periods import CostElement, CostPeriod, Periods
from seller_platform.costs.applying import Applied, Patience, apply_plan
from seller_platform.costs.endpoints import read_periods
from seller_platform.costs.jobs import cost_job
from seller_platform.costs.planning import Planned, make_plan
from seller_platform.costs.plans import CostPlan, WriteState, hold_costs, plan_document, read_plan
from seller_platform.costs.sheets import Product
from seller_platform.errors import ContractViolationError, RequestError, SellerPlatformError
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.cost_shop import DE, SKUS, US, Shop, open_shop, period
from seller_platform_tests.support.platform import failure_of, resources_of
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.stored_rows import execute

SKU = SKUS[0]
JANUARY, YEAR = (date(2026, 1, 1), date(2026, 1, 31)), (date(2026, 1, 1), date(2026, 12, 31))


def costs(dates: tuple[date, date], *amounts: str, currency: str = "USD", **element: Any) -> CostPeriod:
    named = zip(("Manufacturing", "Freight", "Packaging"), amounts, strict=False)
    elements = (CostElement(name, Decimal(amount), currency, **element) for name, amount in named)
    return CostPeriod(*dates, tuple(elements))


class Planner:
    """Makes and applies plans with the service."""

    def __init__(self, shop: Shop, apis: dict[str, SellerApi]) -> None:
        self.shop, self._apis = shop, apis

    def api(self, connection: str) -> SellerApi:
        return self._apis[connection]

    def plan(self, target: dict[Product, Periods]) -> Planned:
        return make_plan(self.api, self.shop.warehouse, target, source="costs.csv", made_by="ann")

    def planned(self, target: dict[Product, Periods]) -> CostPlan:
        plan = self.plan(target).plan
        assert plan is not None
        return plan

    def apply(self, plan: CostPlan) -> Applied:
        return apply_plan(self.api, self.shop.warehouse, plan.id, by="ann", patience=Patience(seconds=0))


@pytest.fixture
def shop(databases: Databases, tmp_path: Path) -> Iterator[Shop]:
    with open_shop(databases, tmp_path) as opened:
        yield opened


@pytest.fixture
def planner(shop: Shop) -> Iterator[Planner]:
    with ExitStack() as stack:
        yield Planner(shop, {name: stack.enter_context(shop.api(name)) for name in ("default", "bob")})


def test_amounts_computed_upstream_are_sent_as_given_and_agree_to_the_cent(planner: Planner) -> None:
    element = CostElement(
        "Freight",
        Decimal("3.6666666667"),
        "USD",
        total_amount=Decimal("100"),
        units=Decimal(30),
        conversion_rate=Decimal("1.1"),
    )
    plan = planner.planned({(US, SKU): (CostPeriod(*YEAR, (element,)),)})

    applied = planner.apply(plan)

    assert applied.problem is None
    assert planner.shop.sums() == {"2026-01-01..2026-12-31": Decimal("3.67")}
    assert applied.plan.writes[0].wanted[0].cost_elements == (element,)


def test_costs_that_were_written_meanwhile_need_no_write(planner: Planner) -> None:
    plan = planner.planned({(US, SKU): (costs(JANUARY, "5"),)})
    planner.shop.write(period("2026-01-01", "2026-01-31", 5))

    applied = planner.apply(plan)

    (write,) = applied.plan.writes
    assert (write.state, write.written_at) == (WriteState.HOLDS, None)


def test_a_period_without_a_last_day_is_not_replaced(planner: Planner) -> None:
    planner.shop.write(period("2026-01-01", "2026-01-31"))
    execute(planner.shop.service.database, "UPDATE seller.cost_periods SET to_date = NULL")

    with pytest.raises(RequestError, match=r"without a last day for SKU 'SKU-1' of us-1"):
        planner.plan({(US, SKU): (costs(JANUARY, "5"),)})


def test_two_processes_do_not_write_the_same_account_at_once(planner: Planner) -> None:
    plan = planner.planned({(US, SKU): (costs(JANUARY, "5"),), (DE, SKU): (costs(JANUARY, "5", currency="EUR"),)})

    with (
        hold_costs(planner.shop.warehouse, [US]),
        pytest.raises(SellerPlatformError, check=lambda error: error.code == "CostWritesBusyError", match=r"'us-1'"),
    ):
        planner.apply(plan)
    assert planner.shop.read() == []
    applied = planner.apply(plan)

    assert applied.problem is None


def test_a_plan_is_applied_anywhere_but_not_if_edited(planner: Planner, tmp_path: Path, database: Database) -> None:
    plan = planner.planned({(US, SKUS[2]): (costs(JANUARY, "5.10", notes='"ü"'),), (US, SKU): (costs(JANUARY, "5"),)})
    file = tmp_path / "plan.json"
    document = plan_document(plan)
    file.write_text(json.dumps(document))

    here, there = read_plan(planner.shop.warehouse, str(file)), read_plan(database, str(file))
    again = read_plan(database, str(file))
    document["writes"][0]["wanted"][0]["cost_elements"][0]["amount"] = "50"
    file.write_text(json.dumps(document))

    assert here == plan
    assert (there.uid, there.writes) == (plan.uid, plan.writes)
    assert again.id == there.id
    with pytest.raises(RequestError, match=f"differs from plan {plan.id}"):
        read_plan(planner.shop.warehouse, str(file))


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"format": "seller-platform cost plan, version 1"}', "3"])
def test_a_file_that_is_no_plan_is_refused(database: Database, tmp_path: Path, content: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(content)

    with pytest.raises(RequestError, match="costs plan"):
        read_plan(database, str(file))


def test_a_period_without_its_first_day_cannot_be_written_again() -> None:
    rows = [("A", None, "2026-01-31", "[]", "2026-03-01")]

    with pytest.raises(ContractViolationError, match="cost_periods of SKU 'A': a period lacks its from_date"):
        read_periods("A", rows)


def test_the_job_writes_a_reviewed_plan_and_fails_where_a_cost_is_refused(
    planner: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    resources = resources_of(planner.shop.warehouse.url, planner.shop.upstream)

    def write(*skus: str) -> tuple[int, dg.ExecuteInProcessResult]:
        plan = planner.planned({(US, sku): (costs(YEAR, "2.50"),) for sku in skus}).id
        config = {"ops": {"write": {"config": {"plan": plan, "wait_seconds": 0}}}}
        with dg.DagsterInstance.ephemeral() as instance:
            return plan, cost_job().execute_in_process(config, instance, resources=resources, raise_on_error=False)

    refused, reasons = failure_of(write(SKU, "misspelt")[1])
    plan, written = write(*SKUS)

    assert written.success
    assert planner.shop.sums(SKUS[2]) == {"2026-01-01..2026-12-31": Decimal("2.50")}
    (output,) = (event for event in written.all_events if event.is_successful_output)
    metadata = output.step_output_data.metadata
    assert (metadata["plan"].value, metadata["skus"].value, metadata["holding"].value) == (plan, 2, 2)
    of_plan = f"SELECT DISTINCT state, written_by, run_id FROM platform.cost_writes WHERE plan = {plan}"
    assert planner.shop.query(of_plan) == [("holds", "dagster", written.run_id)]
    assert "'misspelt' of us-1" in refused
    assert reasons["holding"] == 1
