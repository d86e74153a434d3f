"""Tests profit formulas: their files, the line of each entry, and that nothing is lost or counted twice."""

from collections.abc import Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from seller_platform.errors import SettingsError
from seller_platform.marts.profit_bridge_monthly import bridge_of
from seller_platform.marts.rules.files import EntryPattern
from seller_platform.marts.rules.formulas import BESIDE, OTHER, STANDARD, Formula, FormulaLine, Part, read_formula
from seller_platform_tests.support.shop import Shop, mart_named

CASH = """\
formula: cash
beside: [product_cost]
lines:
  - line: payments
    counts: yes
    entries:
      - {type: Order}
  - line: bank
    counts: no
    entries: [{type: "Transfer*"}]
  - line: ads
    counts: yes
    entries:
      - {type: Advertising}
      - {type: Fee, description: "*100% ads_*"}
  - line: unnamed
    counts: no
    entries: [{type: "", description: ""}]
"""
PROFIT, PRODUCTS = mart_named("account_profit_daily"), mart_named("product_performance_monthly")


def _written(folder: Path, text: str) -> Path:
    path = folder / "formula.yaml"
    path.write_text(text)
    return path


def _lines(shop: Shop, formula: str) -> dict[str, tuple[str, Decimal | None, int]]:
    rows = shop.rows(
        "SELECT line, part, amount, entries FROM marts.profit_bridge_monthly WHERE formula = :formula ORDER BY place",
        formula=formula,
    )
    return {line: (part, amount, entries) for line, part, amount, entries in rows}


def test_a_file_is_read_as_a_formula(tmp_path: Path) -> None:
    formula = read_formula(_written(tmp_path, CASH))

    assert (formula.name, formula.other) == ("cash", Part.COUNTED)
    assert {name for name, part in formula.beside.items() if part is Part.COUNTED} == {"product_cost"}
    assert [line.name for line in formula.lines] == ["payments", "bank", "ads", "unnamed"]
    assert formula.lines[2] == FormulaLine(
        "ads", Part.COUNTED, (EntryPattern("Advertising"), EntryPattern("Fee", "*100% ads_*"))
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("formula: cash", "formula: Cash", r"line 1: formula is 'Cash'; use lower-case letters"),
        ("formula: cash", "formula: standard", r"line 1: formula is 'standard', which has another meaning"),
        ("formula: cash", "formule: cash", r"line 1: the file has the key 'formule'; its keys are formula, beside"),
        ("formula: cash\n", "", r"line 1: the file has no key 'formula'"),
        ("[product_cost]", "[cost]", r"line 2: beside has 'cost'; it takes product_sales, taxes"),
        ("[product_cost]", "product_cost", r"line 2: beside is no list"),
        ("line: ads", "line: bank", r"line 11: line is 'bank', which has another meaning"),
        ("line: ads", "line: other", r"line 11: line is 'other', which has another meaning"),
        ("counts: no", "counts: maybe", r"line 9: counts is 'maybe'; write yes or no"),
        ("{type: Advertising}", "{kind: Advertising}", r"line 14: an entry has the key 'kind'; its keys are type, des"),
        ("{type: Advertising}", "{}", r"line 14: an entry names nothing; give type, description or both"),
        ("{type: Advertising}", "Advertising", r"line 14: an entry is no mapping; its keys are type, description"),
        ("{type: Advertising}", "{type: [a]}", r"line 14: type is no text"),
        ('[{type: "Transfer*"}]', "[]", r"line 10: line 'bank' names no entries"),
        ("    counts: no\n", "", r"line 8: a line has no key 'counts'"),
        ("counts: yes", "counts: yes\n    counts: no", r"line 6: a line has the key 'counts' twice"),
        ("formula: cash", "formula: [", r"is not YAML: .* line \d+"),
        ("Advertising", "A" * 300, r"line 14: type has 300 characters; at most 200 are allowed"),
    ],
)
def test_errors_of_a_file_name_line_value_and_what_is_allowed(tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = _written(tmp_path, CASH.replace(old, new, 1))

    with pytest.raises(SettingsError, match=rf"^SELLER_PLATFORM_PROFIT_FORMULA: .*formula\.yaml.*{problem}"):
        read_formula(path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"a: \0", b"x" * 300_000, b"[" * 5_000, b"--- 1\n--- 2"])
def test_a_file_that_is_no_formula_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "formula.yaml"
    path.write_bytes(content)

    with pytest.raises(SettingsError, match=r"formula\.yaml"):
        read_formula(path)
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read_formula(tmp_path / "formula.yml")


def test_a_device_is_refused_before_it_is_read() -> None:
    with pytest.raises(SettingsError, match="is no regular file"):
        read_formula(Path("/dev/zero"))


def test_each_entry_is_in_the_first_line_that_names_it(shop: Shop, tmp_path: Path) -> None:
    own = read_formula(_written(tmp_path, CASH))
    shop.sell("2026-03-02", "A", 2, "30.00")
    entries = [
        ("Order", "Sale", "50.00"),
        ("Transfer to bank", None, "-20.00"),
        ("Fee", "May: 100% ads_x", "-1.00"),
        ("Fee", "May: 100 percent adsx", "-2.00"),
        ("Fee", "Storage", "-3.00"),
        ("Advertising", None, "-4.00"),
        ("advertising", "clicks", "-8.00"),
        (None, None, "0.50"),
        (None, "What \\ is % this?", "0.25"),
        ("Reimbursement", None, None),
    ]
    shop.insert(
        "transactions",
        *(
            ("2026-03-02T12:00:00-08:00", kind, None, None, description, None, amount, "USD", None, "2026-03-02")
            for kind, description, amount in entries
        ),
    )

    build = shop.build(bridge_of(STANDARD, own))
    unknown = shop.rows("SELECT kinds FROM marts.profit_bridge_monthly WHERE formula = 'cash' AND line = 'other'")

    assert [result.check.name for result in build.check_results if not result.passed] == ["every_entry_is_named"]
    beside = {"product_sales": "30.00", "taxes": "0.10", "shipping_credits": "0.20", "rebates": "-0.05"}
    counted = {"payments": ("counted", "50.00", 1), "bank": ("not counted", "-20.00", 1), "ads": ("counted", "-5", 2)}
    assert _lines(shop, "cash") == {
        **{line: ("not counted", Decimal(amount), 0) for line, amount in beside.items()},
        "product_cost": ("counted", None, 0),
        **{line: (part, Decimal(amount), entries) for line, (part, amount, entries) in counted.items()},
        "unnamed": ("not counted", Decimal("0.50"), 1),
        "other": ("counted", Decimal("-12.75"), 5),
    }
    assert set(unknown[0][0].splitlines()) == {
        "Fee: May: 100 percent adsx",
        "Fee: Storage",
        "advertising: clicks",
        "no type: What \\ is % this?",
        "Reimbursement",
    }
    standard = _lines(shop, "standard")
    assert {line: amount for line, (part, amount, _) in standard.items() if part == "step"} == {
        "shipping_credits": Decimal("0.20"),
        "rebates": Decimal("-0.05"),
        "reimbursements": Decimal(0),
        "advertising": Decimal("-12.00"),
        "other": Decimal("0.75"),
    }
    assert standard["storage_fees"] == ("profit", Decimal("-3.00"), 1)
    assert standard["selling_fees"] == ("profit", Decimal("-3.00"), 2)


_TYPES = (
    *("Order", "Fee", "Refund", "Advertising", "Transfer", "Reimbursement", "Storage fee", "Tax", "fee", "%", "", None),
)
_TEXTS = (
    *("Commission", "Storage", "Subscription", "Advertising", "a_b", "a\\b*", "100 %", "Reimbursement of Ads"),
    *("", None),
)
_CENTS = st.integers(-(10**13), 10**13).map(lambda cents: Decimal(cents).scaleb(-2))
_ENTRIES = st.lists(
    st.tuples(
        st.integers(1, 31),
        st.sampled_from(_TYPES),
        st.sampled_from(_TEXTS),
        st.none() | _CENTS,
        st.sampled_from(("USD", "EUR", None)),
        st.sampled_from(("A", "B", None)),
    ),
    max_size=40,
)
_SALES = st.lists(st.tuples(st.integers(1, 31), st.sampled_from("AB"), _CENTS, _CENTS, _CENTS, _CENTS), max_size=8)
_PATTERNS = st.sampled_from(("*", "Fee", "*e*", "Order", "", "*torage*", "%", "a_b", "*\\*", "100 *"))
_PARTS = st.sampled_from((Part.COUNTED, Part.NOT_COUNTED))
_FORMULAS = st.lists(st.tuples(_PARTS, st.lists(st.tuples(_PATTERNS, _PATTERNS), min_size=1, max_size=2)), max_size=5)


def _formula(lines: Sequence[tuple[Part, Sequence[tuple[str, str]]]]) -> Formula:
    named = (
        FormulaLine(f"line_{number}", part, tuple(EntryPattern(*pattern) for pattern in patterns))
        for number, (part, patterns) in enumerate(lines)
    )
    return Formula("own", dict.fromkeys(BESIDE, Part.NOT_COUNTED), tuple(named), Part.COUNTED)


def _line_of(formula: Formula, kind: str | None, description: str | None) -> str:
    for line in formula.lines:
        for pattern in line.entries:
            # fnmatch has more wildcards, which its brackets take literally.
            types, texts = (it.replace("[", "[[]").replace("?", "[?]") for it in (pattern.type, pattern.description))
            if fnmatchcase(kind or "", types) and fnmatchcase(description or "", texts):
                return line.name
    return OTHER


@settings(
    max_examples=12,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # each example builds marts: shrinking would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(entries=_ENTRIES, sales=_SALES, own=_FORMULAS.map(_formula))
def test_the_lines_of_every_formula_add_up_to_the_ledger_to_the_cent(
    shop: Shop, entries: Sequence[tuple[Any, ...]], sales: Sequence[tuple[Any, ...]], own: Formula
) -> None:
    shop.database.execute(text("TRUNCATE seller.transactions, seller.daily_product_sales"))
    days = [f"2026-03-{entry[0]:02}" for entry in entries]
    shop.insert(
        "transactions",
        *(
            (f"{day}T12:00:00-08:00", kind, None, sku, description, None, amount, currency, None, day)
            for day, (_, kind, description, amount, currency, sku) in zip(days, entries, strict=True)
        ),
    )
    shop.insert(
        "daily_product_sales",
        *((f"2026-03-{day:02}", sku, None, None, 1, *amounts, f"2026-03-{day:02}") for day, sku, *amounts in sales),
    )
    shop.cost("A", "2026-01-01", None, '[{"cost_element": "Goods", "amount": 1.25, "currency": "USD"}]')

    builds = [shop.build(mart) for mart in (bridge_of(STANDARD, own), PROFIT, PRODUCTS)]

    failed = {result.check.name for build in builds for result in build.check_results if not result.passed}
    assert failed <= {"every_entry_is_named"}
    for formula in (STANDARD, own):
        expected: dict[tuple[str, str], Decimal] = {}
        for _, kind, description, amount, currency, _ in entries:
            key = (currency or "USD", _line_of(formula, kind, description))
            expected[key] = expected.get(key, Decimal(0)) + (amount or 0)
        found = shop.rows(
            "SELECT currency, line, amount FROM marts.profit_bridge_monthly WHERE formula = :formula AND entries > 0",
            formula=formula.name,
        )
        assert {(currency, line): amount for currency, line, amount in found} == expected
    bridged = (
        "profit + shipping_credits - rebates - refunds - advertising - storage - subscriptions + reimbursements "
        "+ other_entries"
    )
    for mart in (PROFIT, PRODUCTS):
        assert shop.rows(f"SELECT * FROM {mart.table} WHERE net_profit IS DISTINCT FROM {bridged}") == []
    by_day = shop.rows(
        "SELECT currency, sum(product_sales - coalesce(product_cost, 0) - platform_fees + net_profit - profit) "
        "FROM marts.account_profit_daily WHERE net_profit IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    if not any(sku == "B" for _, sku, *_ in sales):
        assert by_day == shop.rows(
            "SELECT currency, sum(amount) FROM marts.profit_bridge_monthly "
            "WHERE formula = 'standard' AND part <> 'not counted' GROUP BY 1 ORDER BY 1"
        )
