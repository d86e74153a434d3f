"""Tests that no SKU loses its costs with failing or unusual upstreams."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Any

import httpx
import pytest

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Account
from seller_platform.contract.cost_periods import CostElement, CostPeriod
from seller_platform.costs.applying import Applied, Patience, apply_plan
from seller_platform.costs.planning import make_plan, plan_undo
from seller_platform.costs.plans import CostPlan, CostWrite, WriteState, plan_of
from seller_platform.errors import RequestError
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import FakeTime
from seller_platform_tests.support.stored_rows import connect_accounts

ACCOUNT = Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "DE", "S1")
OLD = {"2026-01-01..2026-06-30": "1.00", "2026-07-01..2026-12-31": "2.00"}
NEW = {"2026-01-01..2026-03-31": "3.00", "2026-04-01..2026-12-31": "4.00"}

Costs = dict[str, str]
Fault = Callable[[httpx.Request], httpx.Response | None]


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Shop:
    """An upstream that keeps the amount of each period of each SKU.

    Attributes:
        replaces_all: A POST replaces all periods of the SKU. Otherwise it replaces those of the same days, and an
            overlap with others is refused.
        reads_until_applied: How many reads return the old costs after a change.
        deletes: Whether it has DELETE; `everything`: it ignores the dates.
        faults: One is called before each request; its result is the answer, unless it is None.
    """

    costs: dict[str, Costs] = field(default_factory=lambda: {"A": dict(OLD)})
    replaces_all: bool = False
    reads_until_applied: int = 0
    deletes: str = "by date"
    faults: dict[str, list[Fault | None]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    _outdated: dict[str, Costs] = field(default_factory=dict)
    _reads_left: int = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request.method)
        waiting = self.faults.get(request.method, [])
        fault = waiting.pop(0) if waiting else None
        if fault is not None and (answer := fault(request)) is not None:
            return answer
        return getattr(self, f"_{request.method.lower()}")(request)  # type: ignore[no-any-return]  # by its name

    def _get(self, request: httpx.Request) -> httpx.Response:
        sku = request.url.params["sku"]
        listed = self.costs
        if self._reads_left:
            self._reads_left, listed = self._reads_left - 1, self._outdated
        periods = [
            {
                "dates": dict(zip(("from_date", "to_date"), days.split(".."), strict=True)),
                "cost_elements": [{"cost_element": "Freight", "amount": amount, "currency": "EUR", "notes": ""}],
            }
            for days, amount in listed.get(sku, {}).items()
        ]
        return httpx.Response(200, json=periods)

    def _post(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content, parse_float=str, parse_int=str)
        sent = {"..".join(period["dates"].values()): period["cost_elements"][0]["amount"] for period in body["data"]}
        stored = {} if self.replaces_all else dict(self.costs.get(body["sku"], {}))
        overlaps = [days for days in stored for other in sent if days != other and _overlap(days, other)]
        if overlaps:
            return httpx.Response(422, json={"message": "overlap"})
        self._change()
        self.costs[body["sku"]] = stored | sent
        return httpx.Response(200, json={"status": "success"})

    def _delete(self, request: httpx.Request) -> httpx.Response:
        query = request.url.params
        if self.deletes == "not":
            return httpx.Response(405, json={"message": "no such method"})
        stored = self.costs.get(query["sku"], {})
        days = f"{query.get('from_date')}..{query.get('to_date')}"
        gone = [days] if days in stored else [] if "from_date" in query and self.deletes == "by date" else list(stored)
        if not gone:
            return httpx.Response(404, json={"message": "nothing"})
        self._change()
        self.costs[query["sku"]] = {each: amount for each, amount in stored.items() if each not in gone}
        return httpx.Response(204)

    def _change(self) -> None:
        if self.reads_until_applied and not self._reads_left:
            self._outdated = {sku: dict(costs) for sku, costs in self.costs.items()}
            self._reads_left = self.reads_until_applied


def _overlap(one: str, other: str) -> bool:
    (first, last), (start, end) = one.split(".."), other.split("..")
    return first <= end and start <= last


def refuse(request: httpx.Request) -> httpx.Response:
    return httpx.Response(422, json={"message": "not today"})


def break_down(request: httpx.Request) -> httpx.Response:
    return httpx.Response(500)


def hang_up(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("reset")


def kill(request: httpx.Request) -> httpx.Response:
    raise Killed


@dataclass
class Planner:
    """Makes and applies plans with the upstream of a test."""

    database: Database
    shop: Shop
    api: SellerApi
    time: FakeTime

    def plan(self, **target: Costs) -> CostPlan:
        periods = {
            ("de-1", sku): tuple(
                CostPeriod(
                    date.fromisoformat(days[:10]),
                    date.fromisoformat(days[-10:]),
                    (CostElement("Freight", Decimal(amount), "EUR"),),
                )
                for days, amount in costs.items()
            )
            for sku, costs in target.items()
        }
        planned = make_plan(lambda _: self.api, self.database, periods, source="a test", made_by="ann")
        assert planned.plan is not None
        self.shop.requests.clear()
        return planned.plan

    def apply(self, plan: CostPlan, *, seconds: float = 60) -> Applied:
        patience = Patience(seconds, lambda: self.time.seconds, self.time.sleep, self.time.now)
        return apply_plan(lambda _: self.api, self.database, plan.id, by="ann", patience=patience)

    def writes(self, plan: CostPlan) -> dict[str, CostWrite]:
        return {write.sku: write for write in plan_of(self.database, plan.id).writes}


@pytest.fixture
def planner(database: Database) -> Iterator[Planner]:
    connect_accounts(database, [(ACCOUNT.key, ACCOUNT)])
    shop = Shop()
    with SellerApi("http://upstream", transport=httpx.MockTransport(shop), attempts=1) as api:
        yield Planner(database, shop, api, FakeTime())


@pytest.mark.parametrize("deletes", ["by date", "everything", "not"])
@pytest.mark.parametrize("reads_until_applied", [0, 5])
def test_costs_hold_where_periods_are_replaced_later(planner: Planner, deletes: str, reads_until_applied: int) -> None:
    planner.shop.replaces_all, planner.shop.deletes = True, deletes
    plan = planner.plan(A=NEW)
    planner.shop.reads_until_applied = reads_until_applied

    applied = planner.apply(plan)

    assert applied.problem is None
    assert planner.shop.costs == {"A": NEW}
    assert planner.time.pauses == sorted(planner.time.pauses)
    assert len(planner.time.pauses) == reads_until_applied


def test_costs_that_never_arrive_are_unconfirmed_until_applied_again(planner: Planner) -> None:
    plan = planner.plan(A=NEW)
    planner.shop.reads_until_applied = 1_000

    applied = planner.apply(plan, seconds=90)
    (write,) = applied.plan.writes
    planner.shop._reads_left = 0
    later = planner.apply(plan)

    assert write.state is WriteState.UNCONFIRMED
    assert write.problem == "it was written, but after 90 s the upstream still lists other costs"
    assert write.read_back == write.before
    assert applied.problem is not None
    assert applied.problem.exit_code == 5
    assert sum(planner.time.pauses) == pytest.approx(90)
    assert later.problem is None
    assert planner.shop.costs == {"A": NEW}


@pytest.mark.parametrize("fault", [refuse, break_down, hang_up])
def test_the_old_costs_are_restored_where_the_new_ones_are_not_stored(planner: Planner, fault: Fault) -> None:
    planner.shop.costs["B"] = dict(OLD)
    plan = planner.plan(A=NEW, B=NEW)
    planner.shop.faults["POST"] = [fault]

    applied = planner.apply(plan)

    first, second = planner.writes(plan)["A"], planner.writes(plan)["B"]
    assert first.state is WriteState.RESTORED
    assert first.problem is not None
    assert first.problem.endswith("(the former costs were written back)")
    assert first.read_back == first.before
    assert applied.problem is not None
    assert applied.problem.exit_code == 4
    assert f"costs apply {plan.id}" in str(applied.problem)
    went_on = fault is refuse
    assert second.state is (WriteState.HOLDS if went_on else WriteState.PLANNED)
    assert planner.shop.costs == {"A": OLD, "B": NEW if went_on else OLD}


def test_costs_that_were_stored_though_the_answer_was_lost_hold(planner: Planner) -> None:
    plan = planner.plan(A=NEW)
    planner.shop.faults["POST"] = [lambda request: [planner.shop._post(request), hang_up(request)][1]]

    applied = planner.apply(plan)

    assert applied.problem is None
    assert planner.shop.costs == {"A": NEW}
    assert planner.shop.requests == ["GET", "DELETE", "DELETE", "POST", "GET"]


def test_a_refusal_before_anything_was_changed_leaves_everything_as_it_was(planner: Planner) -> None:
    plan = planner.plan(A=NEW)
    planner.shop.faults["DELETE"] = [refuse]

    applied = planner.apply(plan)

    (write,) = applied.plan.writes
    assert (write.state, write.written_at, write.written_by) == (WriteState.PLANNED, None, None)
    assert write.problem is not None
    assert write.problem.endswith("(nothing was changed)")
    assert f"costs apply {plan.id}` continues" in str(applied.problem)
    with pytest.raises(RequestError, match="nothing of it was written, so there is nothing to undo"):
        plan_undo(lambda _: planner.api, planner.database, applied.plan, made_by="ann")
    assert planner.shop.requests == ["GET", "DELETE"]
    assert planner.shop.costs == {"A": OLD}


def test_costs_that_cannot_be_restored_are_reported_and_kept_in_the_plan(planner: Planner) -> None:
    plan = planner.plan(A=NEW)
    planner.shop.faults["POST"] = [refuse, break_down]

    applied = planner.apply(plan)
    (write,) = applied.plan.writes
    lost = dict(planner.shop.costs)
    again = planner.apply(plan)

    assert lost == {"A": {}}
    assert write.state is WriteState.LOST
    assert "are kept in the plan" in str(applied.problem)
    assert again.problem is None
    assert planner.shop.costs == {"A": NEW}


@pytest.mark.parametrize("survived", range(5))
@pytest.mark.parametrize("method", ["DELETE", "POST", "GET"])
def test_a_plan_continues_after_a_process_was_killed_anywhere(planner: Planner, method: str, survived: int) -> None:
    planner.shop.costs |= {"B": dict(OLD), "C": {}}
    plan = planner.plan(A=NEW, B=NEW, C=NEW)
    planner.shop.faults[method] = [*[None] * survived, kill]

    was_killed = True
    with suppress(Killed):
        planner.apply(plan)
        was_killed = False
    planner.shop.faults.clear()
    applied = planner.apply(plan)

    assert was_killed == (survived < {"DELETE": 4, "POST": 3, "GET": 6}[method])
    assert applied.problem is None
    assert planner.shop.costs == {"A": NEW, "B": NEW, "C": NEW}
    assert all(write.read_back is not None for write in applied.plan.writes)


def test_an_interrupted_plan_does_not_overwrite_costs_of_others(planner: Planner) -> None:
    plan = planner.plan(A=NEW)
    planner.shop.faults["POST"] = [kill]
    with pytest.raises(Killed):
        planner.apply(plan)
    planner.shop.costs["A"] = {"2026-08-01..2026-08-31": "7.00"}

    with pytest.raises(RequestError, match=r"'A' of de-1"):
        planner.apply(plan)

    assert planner.shop.costs == {"A": {"2026-08-01..2026-08-31": "7.00"}}


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_request_whose_answer_is_lost_is_sent_again(planner: Planner, method: str) -> None:
    plan = planner.plan(A=NEW)
    planner.shop.faults[method] = [hang_up]

    with SellerApi("http://upstream", transport=httpx.MockTransport(planner.shop), attempts=2) as patient:
        applied = replace(planner, api=patient).apply(plan)

    assert applied.problem is None
    assert planner.shop.requests.count(method) == {"POST": 2, "DELETE": 3}[method]


def test_amounts_are_sent_as_exact_numbers(planner: Planner) -> None:
    sent: list[Any] = []
    plan = planner.plan(Ä={"2026-01-01..2026-01-31": "1234567.0000000001"})
    planner.shop.faults["POST"] = [lambda request: sent.append(request.content.decode())]

    planner.apply(plan)

    assert '"amount":1234567.0000000001,' in sent[0] or '"amount":1234567.0000000001}' in sent[0]
    assert json.loads(sent[0])["sku"] == "Ä"
