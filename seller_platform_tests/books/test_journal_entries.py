"""Tests journal entries of months that are not closed, and the accounts to which they are posted."""

import re
from contextlib import suppress
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from psycopg import sql
from sqlalchemy import text

from seller_platform.books.journal_accounts import DEFAULT_ACCOUNTS, accounts_of
from seller_platform.books.journal_entries import PENDING, journal_of, rows_of_ledger
from seller_platform.cli.pages import PAGES
from seller_platform.contract import Window
from seller_platform.errors import SettingsError
from seller_platform.settings import read_settings
from seller_platform.warehouse.derived.builds import Build
from seller_platform.warehouse.derived.registry import MARTS, marts_with
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform_tests.support.shop import MARCH, MONTHS, Shop, mart_named

JOURNAL = mart_named("journal_entries")
OWN = """\
balance: {name: Owed by the market, code: "1100"}
tax_rate: No VAT
lines:
  - line: payouts
    name: Bank in transit
    entries: [{type: "Transfer*"}]
  - line: everything
    name: Turnover
    code: "200"
    tax_rate: 20% (VAT on Income)
    entries: [{type: "*"}]
"""


def _lines(shop: Shop) -> list[tuple[object, ...]]:
    return shop.rows(
        "SELECT number, entry_date::text, kind, line, account_name, debit - credit, rows FROM marts.journal_entries "
        "ORDER BY entry_date, number, line"
    )


def _failed(build: Build) -> list[str]:
    return [result.check.name for result in build.check_results if not result.passed]


def _written(folder: Path, text: str) -> Path:
    path = folder / "accounts.yaml"
    path.write_text(text)
    return path


def test_the_statements_of_the_page_are_executed(shop: Shop) -> None:
    (text,) = [page.text for page in PAGES if page.name == "month-end"]
    statements = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)

    assert len(statements) == 2
    assert [shop.rows(statement) for statement in statements] == [[], []]


def test_a_month_is_split_by_payouts_and_the_rest_is_carried_forward(shop: Shop) -> None:
    shop.post("2026-03-02", "Order", "100.00")
    shop.post("2026-03-03", "Fee", "-15.00")
    shop.post("2026-03-04", "Transfer", "-80.00")
    shop.post("2026-03-20", "Order", "50.00")
    shop.post("2026-03-21", "Refund", "-20.00")
    shop.post("2026-04-01", "Transfer", "-35.00")

    march, april = shop.build(JOURNAL), shop.build(JOURNAL, MONTHS[3])

    assert _lines(shop) == [
        ("1-260304PUSD", "2026-03-04", "payout", "balance", "Marketplace balance", Decimal("5.00"), 3),
        ("1-260304PUSD", "2026-03-04", "payout", "payments", "Marketplace sales", Decimal("-100.00"), 1),
        ("1-260304PUSD", "2026-03-04", "payout", "payouts", "Marketplace payouts", Decimal("80.00"), 1),
        ("1-260304PUSD", "2026-03-04", "payout", "selling_fees", "Selling fees", Decimal("15.00"), 1),
        ("1-260331CUSD", "2026-03-31", "month end", "balance", "Marketplace balance", Decimal("30.00"), 2),
        ("1-260331CUSD", "2026-03-31", "month end", "payments", "Marketplace sales", Decimal("-50.00"), 1),
        ("1-260331CUSD", "2026-03-31", "month end", "refunds", "Marketplace refunds", Decimal("20.00"), 1),
        ("1-260401PUSD", "2026-04-01", "payout", "balance", "Marketplace balance", Decimal("-35.00"), 1),
        ("1-260401PUSD", "2026-04-01", "payout", "payouts", "Marketplace payouts", Decimal("35.00"), 1),
    ]
    assert (_failed(march), _failed(april)) == ([], [])
    assert march.window == Window(date(2026, 3, 1), date(2026, 4, 1))
    assert {row["label"]: row["Credit less debit"] for row in april.chart_rows} == {
        "Marketplace balance": 35,
        "Marketplace payouts": -35,
    }
    for month, other in ((MONTHS[3], MONTHS[2]), (MONTHS[2], MONTHS[3])):  # lines of other months are not checked
        wrong = f"UPDATE marts.journal_entries SET debit = debit + 1 WHERE ledger_month = '{other.start}'"
        shop.database.execute(text(wrong))
        assert _failed(shop.build(JOURNAL, month)) == []


def test_each_currency_has_entries_of_its_own_in_its_minor_unit(shop: Shop) -> None:
    shop.post("2026-03-02", "Order", "10.005")
    shop.post("2026-03-02", "Order", "1000.4", currency="JPY")
    shop.post("2026-03-02", "Fee", "-1.2345", currency="KWD")
    shop.post("2026-03-04", "Transfer", "-500", currency="JPY")

    build = shop.build(JOURNAL)

    assert shop.rows(
        "SELECT number, line, debit, credit FROM marts.journal_entries WHERE line <> 'payouts' ORDER BY number, line"
    ) == [
        ("1-260304PJPY", "balance", Decimal(500), Decimal(0)),
        ("1-260304PJPY", "payments", Decimal(0), Decimal(1000)),
        ("1-260331CKWD", "balance", Decimal(0), Decimal("1.235")),
        ("1-260331CKWD", "selling_fees", Decimal("1.235"), Decimal(0)),
        ("1-260331CUSD", "balance", Decimal("10.01"), Decimal(0)),
        ("1-260331CUSD", "payments", Decimal(0), Decimal("10.01")),
    ]
    assert _failed(build) == []


def test_an_entry_without_account_amount_or_currency_fails_a_check(shop: Shop) -> None:
    shop.post("2026-03-02", "Mystery", "-3.00")
    shop.post("2026-03-02", "Order", None)
    shop.post("2026-03-03", None, "-1.00")  # type: ignore[arg-type]  # as the upstream may send it

    build = shop.build(JOURNAL)

    (result,) = (each for each in build.check_results if not each.passed)
    described = result.described(JOURNAL)
    assert result.check.name == "every_entry_has_an_account"
    assert [each["problem"] for each in result.examples] == ["no account", "no amount", "no account"]
    assert "SELLER_PLATFORM_JOURNAL_ACCOUNTS" in described["next_step"]
    assert "transaction_type Mystery" in described["next_step"]
    assert ("unmapped", "Unmapped", Decimal("4.00")) in [(line[3], line[4], line[5]) for line in _lines(shop)]
    with shop.database.begin() as connection:
        connection.execute(text("UPDATE seller.transactions SET transaction_type = 'Order', amount = 1"))
        connection.execute(text("UPDATE seller.transactions SET currency = NULL"))
        connection.execute(text("UPDATE platform.accounts SET currency_code = NULL"))
    (result,) = (each for each in shop.build(JOURNAL).check_results if not each.passed)
    assert [each["problem"] for each in result.examples] == ["no currency"] * 3


def test_a_file_says_to_which_accounts_the_ledger_is_posted(shop: Shop, tmp_path: Path) -> None:
    path = _written(tmp_path, OWN)
    shop.post("2026-03-02", "Order", "100.00")
    shop.post("2026-03-04", "Transfer", "-80.00")

    marts = {mart.name: mart for mart in marts_with(read_settings().model_copy(update={"journal_accounts": path}))}
    build = shop.build(marts["journal_entries"])

    assert shop.rows(
        "SELECT line, account_name, account_code, tax_rate, debit - credit FROM marts.journal_entries ORDER BY line"
    ) == [
        ("balance", "Owed by the market", "1100", "No VAT", Decimal("20.00")),
        ("everything", "Turnover", "200", "20% (VAT on Income)", Decimal("-100.00")),
        ("payouts", "Bank in transit", "", "No VAT", Decimal("80.00")),
    ]
    assert _failed(build) == []


_FORMULA = (
    "formula: own  # a -- b\nbeside: [product_cost]\nlines:\n  - {line: a, counts: yes, entries: [{type: 'A  -- B'}]}\n"
)
_ACCOUNTS = (
    "balance: {name: 'Marketplace -- clearing', code: '200'}\n"
    "lines:\n  - {line: payouts, name: A  B, entries: [{type: 'Transfer*'}]}\n"
)


@pytest.mark.parametrize(("name", "content"), [("profit_bridge_monthly", _FORMULA), ("journal_entries", _ACCOUNTS)])
def test_rules_that_differ_in_a_byte_make_another_mart(tmp_path: Path, name: str, content: str) -> None:
    path, versions, others, files = tmp_path / "rules.yaml", set[str](), set[tuple[str, ...]](), 0
    texts = {content, *(content[:at] + added + content[at:] for at in range(len(content) + 1) for added in " 9\n")}
    for each in texts:
        path.write_text(each)
        with suppress(SettingsError):
            setting = "profit_formula" if content is _FORMULA else "journal_accounts"
            marts = marts_with(read_settings().model_copy(update={setting: path}))
            versions.add(next(mart.version for mart in marts if mart.name == name))
            others.add(tuple(mart.version for mart in marts if mart.name != name))
            files += 1

    assert len(versions) == files > 40
    assert others == {tuple(mart.version for mart in MARTS if mart.name != name)}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("line: payouts", "line: transfers", "line 4: no line is 'payouts'; add the one of transfers"),
        ("line: everything", "line: balance", "line 7: line is 'balance', which has another meaning"),
        ("name: Turnover", 'name: ""', "line 8: name is ''; write one line of text"),
        ("name: Turnover", f"name: {'T' * 101}", "line 8: name has 101 characters; at most 100 are allowed"),
        ('code: "200"', 'code: "20000000000"', "line 9: code has 11 characters; at most 10 are allowed"),
        ("balance:", "ballance:", "line 1: the file has the key 'ballance'; its keys are balance, tax_rate, lines"),
        ("    name: Turnover\n", "", "line 7: a line has no key 'name'"),
    ],
)
def test_an_error_of_a_file_of_accounts_names_its_line(tmp_path: Path, old: str, new: str, problem: str) -> None:
    path = _written(tmp_path, OWN.replace(old, new, 1))

    with pytest.raises(SettingsError, match=rf"^SELLER_PLATFORM_JOURNAL_ACCOUNTS: .*accounts\.yaml, {problem}"):
        accounts_of(path)


@pytest.mark.parametrize(
    "kind", ['Mystery \'n "Co"', "Balance", "返金調整", "payouts", "%", "", pytest.param("Mystery" * 20, id="long")]
)
def test_the_line_to_paste_names_what_no_line_named(shop: Shop, tmp_path: Path, kind: str) -> None:
    (default,) = re.findall(
        r"```yaml\n(.*?)```", next(page.text for page in PAGES if page.name == "month-end"), re.DOTALL
    )
    shop.post("2026-03-02", kind, "-3.00")
    for _ in range(5):
        shop.post("2026-03-01", "Another", "-4.00")
    (refused,) = (each for each in shop.build(JOURNAL).check_results if not each.passed)
    pasted = re.findall("`(- [^`]*)`", str(refused.described(JOURNAL)["next_step"]))

    path = _written(tmp_path, default + "".join(f"  {each}\n" for each in pasted))
    build = shop.build(journal_of(accounts_of(path)))

    assert len(pasted) == 2
    assert _failed(build) == []
    assert {row[4:] for row in _lines(shop) if row[3] != "balance"} == {
        ("Other marketplace entries", Decimal("20.00"), 5),
        ("Other marketplace entries", Decimal("3.00"), 1),
    }


_PARTS = {
    ("Order", "Principal"): "payments",
    ("Order", "Relaxing taxi shipping gift wrap, reserved"): "payments",  # the name of a product
    ("Order", "Tax"): "taxes",
    ("Order", "Shipping"): "shipping",
    ("Order", "ShippingTax"): "taxes",
    ("Order", "Gift wrap credits"): "gift_wrap",
    ("Order", "Promotional rebates"): "promotions",
    ("Order", "MarketplaceFacilitatorTax-Principal"): "taxes_withheld",
    ("Refund", "Tax"): "taxes",
    ("Refund", "Mug"): "refunds",
    ("Fee", "Tax"): "selling_fees",
    ("Fee", "Storage"): "storage_fees",
    ("Tax withheld", None): "taxes_withheld",
    ("Withholding tax", None): "taxes_withheld",
    ("Sales tax", None): "taxes",
    ("Adjustment", "Balance correction"): "adjustments",
    ("Adjustment", "FBA Inventory Reimbursement - Damaged"): "reimbursements",
    ("Adjustment", "ReserveCredit"): "reserves_released",
    ("other-transaction", "Previous Reserve Amount Balance"): "reserves_released",
    ("other-transaction", "Current Reserve Amount"): "reserves_held",
    ("Reserve release", None): "reserves_released",
    ("Reserve hold", None): "reserves_held",
    ("Liquidations", "Storage box"): "liquidations",
    ("Liquidations Adjustments", None): "liquidations",
    ("Service Fee", "Cost of Advertising"): "advertising",
    ("Service Fee", "Subscription"): "subscriptions",
    ("FBA Inventory Fee", "FBA storage fee"): "storage",
    ("FBA Inventory Fee", "Removal order"): "other_fees",
    ("Shipping Services", "Label"): "other_fees",
    ("Chargeback Refund", None): "claims",
    ("A-to-z Guarantee Claim", None): "claims",
    ("Loan repayment", None): "loans",
    ("Debt", "Card"): "debts",
    ("Transfer", "To your account"): "payouts",
}


def test_each_kind_that_marketplaces_post_has_a_line_by_default(shop: Shop) -> None:
    for day, (kind, description) in enumerate(_PARTS):
        moment = f"2026-03-{1 + day % 28:02}T12:00:00-08:00"
        shop.insert("transactions", (moment, kind, None, None, description, 1, f"{day}.01", "USD", None, moment[:10]))

    build = shop.build(JOURNAL)

    query = sql.SQL(
        "WITH span AS (SELECT -1::bigint AS after, {}::bigint AS upto), {} SELECT type, says, line FROM posted"
    )
    days = {"account": "us-1", "first_day": MARCH.start, "end_day": MARCH.end}
    with shop.database.begin() as connection:
        statement = query.format(sql.Literal(PENDING), rows_of_ledger(DEFAULT_ACCOUNTS))
        lines = {(kind, says): line for kind, says, line in driver_of(connection).execute(statement, days)}
    assert _failed(build) == []
    assert lines == {(kind, says or ""): line for (kind, says), line in _PARTS.items()}
    assert {*lines.values()} == {line.name for line in DEFAULT_ACCOUNTS.lines} - {
        "subscription_fees",
        "advertising_fees",
    }


def test_by_default_each_line_has_a_name_and_a_code() -> None:
    accounts = [DEFAULT_ACCOUNTS.balance, *(line.account for line in DEFAULT_ACCOUNTS.lines)]

    assert all(each.name and each.code.isdigit() for each in accounts)
    assert len({each.name for each in accounts}) == len({each.code for each in accounts})
