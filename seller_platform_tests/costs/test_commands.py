"""`seller-platform costs` against our own service."""

import json
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.cost_shop import DE, GB, SKUS, US, Shop, open_shop, period
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import document

pytestmark = pytest.mark.slow

HEADER = "account,sku,from_date,to_date,cost_element,amount,currency,provider,notes"
TEA = SKUS[2].replace('"', '""')


@pytest.fixture
def shop(databases: Databases, tmp_path: Path) -> Iterator[Shop]:
    with open_shop(databases, tmp_path) as opened:
        opened.write(period("2026-01-01", "2026-01-31"), period("2026-02-01", "2026-02-28", 4))
        yield opened


@pytest.fixture
def sheet(shop: Shop) -> Path:
    """What is wanted in three accounts of two connections: SKU-1 changed, another added, a third removed."""
    shop.write(period("2026-01-01", "2026-01-31", 7, currency="GBP"), sku=SKUS[1], account=GB)
    file = shop.home / "costs.csv"
    lines = [
        f"{HEADER},remove",
        f"{US},SKU-1,2026-01-01,2026-01-31,Manufacturing,1234.50,USD,,,",
        f"{US},SKU-1,2026-03-01,2026-03-31,Freight,0.125,USD,Möller,,",
        f'{DE},"{TEA}",2026-01-01,2026-12-31,Tee 茶,2,EUR,,"a\nb",',
        "Bob's,SKU-2,,,,,,,,yes",
        f"{US},SKU-2,,,,,,,,",
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def _costs(shop: Shop, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_here(["costs", *arguments], shop.variables)


def _refused(result: subprocess.CompletedProcess[str], code: int) -> dict[str, Any]:
    assert result.returncode == code, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert found["exit_code"] == code
    return dict(found)


def test_a_plan_is_shown_applied_and_taken_back(shop: Shop, sheet: Path) -> None:
    before = shop.read()
    file = shop.home / "plan.json"

    planned = _costs(shop, "plan", str(sheet), "--out", str(file))
    untouched = shop.read()
    applied = _costs(shop, "apply", str(file))
    after = {key: shop.sums(*key) for key in ((SKUS[0], US), (SKUS[2], DE), (SKUS[1], GB))}
    undone = _costs(shop, "undo", "1")
    restored = _costs(shop, "apply", "2")

    assert [each.returncode for each in (planned, applied, undone, restored)] == [0, 0, 0, 0], planned.stderr
    assert untouched == before
    assert after == {
        (SKUS[0], US): {"2026-01-01..2026-01-31": Decimal("1234.50"), "2026-03-01..2026-03-31": Decimal("0.13")},
        (SKUS[2], DE): {"2026-01-01..2026-12-31": Decimal("2.00")},
        (SKUS[1], GB): {},
    }
    assert shop.read() == before
    assert shop.sums(SKUS[1], GB) == {"2026-01-01..2026-01-31": Decimal("7.00")}
    for word in ("3 SKUs", "2 added, 1 changed, 2 removed", "3.00 USD", "1,234.50 USD", SKUS[2], "7.00 GBP"):
        assert word in planned.stdout, planned.stdout
    assert "Next: `seller-platform costs apply 1`" in planned.stderr
    assert "3 of 3 SKUs hold" in applied.stdout
    assert "costs undo 1" in applied.stderr


def test_programs_read_plans_and_proofs(shop: Shop, sheet: Path) -> None:
    planned = document(_costs(shop, "plan", str(sheet), "--json"))
    applied = document(_costs(shop, "apply", "1", "--json"))
    again = document(_costs(shop, "apply", "1", "--json"))
    shown = document(_costs(shop, "show", "1", "--json"))
    nothing = document(_costs(shop, "plan", str(sheet), "--json"))

    assert (planned["plan_id"], planned["unchanged"], planned["unknown"]) == (1, [], [])
    first = next(change for change in planned["changes"] if change["account"] == US)
    assert [each["change"] for each in first["periods"]] == ["changed", "removed", "added"]
    assert first["periods"][0]["before"] == {"USD": "3.00"}
    assert first["periods"][0]["after"] == {"USD": "1234.50"}
    assert {change["state"] for change in planned["changes"]} == {"planned"}
    assert {change["state"] for change in applied["changes"]} == {"holds"}
    assert all(change["written_by"] and change["read_back_at"] for change in applied["changes"])
    proof = next(change for change in applied["changes"] if change["account"] == DE)
    assert proof["read_back"] == proof["wanted"]
    assert proof["wanted"][0]["cost_elements"] == [
        {"cost_element": "Tee 茶", "amount": "2.00", "currency": "EUR", "notes": "a\nb"}
    ]
    assert (applied["was_applied"], again["was_applied"]) == (False, True)
    assert shown["changes"] == applied["changes"] == again["changes"]
    assert (nothing["plan_id"], nothing["changes"], len(nothing["unchanged"])) == (None, [], 3)


def test_what_cannot_be_done_says_why_and_with_which_code(shop: Shop, sheet: Path) -> None:
    wrong = shop.home / "wrong.csv"
    wrong.write_text(f"{HEADER}\n{US},SKU-1,2026-01-01,2026-01-31,Freight,1,EURO,,\n")
    _costs(shop, "plan", str(sheet))
    misspelt = shop.home / "misspelt.csv"
    misspelt.write_text(f"{HEADER}\n{US},PARTY-🎉,2026-01-01,2026-01-31,Freight,1,EUR,,\n", encoding="utf-8")
    unknown = _costs(shop, "plan", str(misspelt))
    shop.write(period("2026-05-01", "2026-05-31", 1))

    assert "line 2, column currency" in _refused(_costs(shop, "plan", str(wrong), "--json"), 2)["message"]
    assert "have changed since" in _refused(_costs(shop, "apply", "1", "--json"), 2)["message"]
    assert "no cost plan 9" in _refused(_costs(shop, "apply", "9", "--json"), 2)["message"]
    assert "nothing to undo" in _refused(_costs(shop, "undo", "1", "--json"), 2)["message"]
    assert "The upstream does not know SKU 'PARTY-🎉' of us-1" in unknown.stderr
    refused = _refused(_costs(shop, "apply", "2", "--json"), 4)
    assert (refused["changes"][0]["state"], refused["changes"][0]["written_at"]) == ("planned", None)
    assert "no product with sku 'PARTY-🎉'" in refused["message"]
    assert "1 SKU was not written by cost plan 2, which `seller-platform costs apply 2` continues" in refused["message"]
    assert _costs(shop, "apply", "1", "--timeout", "-1").returncode == 2
