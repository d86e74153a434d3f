"""Tests the costs that are read from sheets, and the problems of invalid sheets."""

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.contract import Account
from seller_platform.contract.cost_periods import CostElement, CostPeriod
from seller_platform.costs.sheets import COLUMNS, ProductCosts, read_costs
from seller_platform.errors import RequestError, SheetError
from seller_platform.warehouse.postgres.database import Database

ACCOUNTS = {
    "us-1": Account(1, "North Pine US", "US", "USD", "America/New_York", "US", "S1"),
    "de-2": Account(2, "Twin", "DE", "EUR", "Europe/Berlin", "DE", "S1"),
    "xx-1": Account(3, "Twin", "XX", None, "", "XX", "S1"),
}
HEADER = "account,sku,from_date,to_date,cost_element,amount,currency"
LINE = "us-1,A,2026-01-01,2026-01-31,Freight,1.50,USD"


def _read(database: Database, folder: Path, *lines: str, header: str = HEADER) -> ProductCosts:
    file = folder / "costs.csv"
    file.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return read_costs(database, str(file), ACCOUNTS)


def _problems(database: Database, folder: Path, *lines: str, header: str = HEADER) -> list[str]:
    with pytest.raises(SheetError) as caught:
        _read(database, folder, *lines, header=header)
    assert str(caught.value).startswith(f"{folder / 'costs.csv'} cannot be used:")
    assert str(caught.value).endswith("and run the command again")
    return list(caught.value.problems)


def test_the_lines_of_a_sku_are_its_periods_and_their_elements(database: Database, tmp_path: Path) -> None:
    read = _read(
        database,
        tmp_path,
        "us-1,A,2026-02-01,2026-02-28,Freight,0.1234567891,USD",
        LINE,
        "us-1,A,2026-01-01,2026-01-31,Packaging,2,USD",
        "de-2,A,2026-01-01,2026-01-01,Freight,0,EUR",
    )

    january, february = (date(2026, 1, 1), date(2026, 1, 31)), (date(2026, 2, 1), date(2026, 2, 28))
    assert read == {
        ("us-1", "A"): (
            CostPeriod(
                *january,
                (CostElement("Freight", Decimal("1.50"), "USD"), CostElement("Packaging", Decimal("2.00"), "USD")),
            ),
            CostPeriod(*february, (CostElement("Freight", Decimal("0.1234567891"), "USD"),)),
        ),
        ("de-2", "A"): (
            CostPeriod(date(2026, 1, 1), date(2026, 1, 1), (CostElement("Freight", Decimal("0.00"), "EUR"),)),
        ),
    }


def test_optional_columns_may_stand_in_any_order_and_texts_hold_anything(database: Database, tmp_path: Path) -> None:
    header = f"\ufeffnotes,provider,{HEADER},units,total_amount,conversion_rate"
    line = '"a, ""b""\nc",Möller & Søn 椿,us-1," Ä/1% ",2026-01-01,2026-01-31,Freight,,USD,3,100.00,1.1'

    read = _read(database, tmp_path, line, header=header)

    ((product, (period,)),) = read.items()
    assert product == ("us-1", " Ä/1% ")
    assert period.cost_elements == (
        CostElement(
            "Freight",
            Decimal("36.67"),
            "USD",
            "Möller & Søn 椿",
            'a, "b"\nc',
            total_amount=Decimal("100.00"),
            units=Decimal(3),
            conversion_rate=Decimal("1.1"),
            total_currency="USD",
        ),
    )


def test_a_converted_amount_is_in_the_currency_of_the_account(database: Database, tmp_path: Path) -> None:
    header = f"{HEADER},total_amount,conversion_rate"
    lines = ["us-1,A,2026-01-01,2026-01-31,Freight,,EUR,100,1.1", "de-2,A,2026-01-01,2026-01-31,Freight,,EUR,100,1.0"]

    read = _read(database, tmp_path, *lines, header=header)
    unknown = _problems(database, tmp_path, lines[0].replace("us-1", "xx-1"), header=header)

    elements = [period.cost_elements[0] for (period,) in read.values()]
    assert [(each.amount, each.currency, each.total_currency) for each in elements] == [
        (Decimal("110.00"), "USD", "EUR"),
        (Decimal("100.00"), "EUR", None),
    ]
    assert unknown == [
        "line 2, column conversion_rate: the currency of the account, to which it converts, is not known"
    ]


@pytest.mark.parametrize(
    ("line", "costs"),
    [("us-1,A,,,,,,yes", {("us-1", "A"): ()}), ("us-1,A,,,,,,TRUE", {("us-1", "A"): ()}), ("us-1,A,, ,,,,", {})],
)
def test_a_sku_is_removed_by_its_mark_and_not_by_a_line_nobody_filled(
    database: Database, tmp_path: Path, line: str, costs: ProductCosts
) -> None:
    assert _read(database, tmp_path, line, header=f"{HEADER},remove") == costs


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("us-1", "fr-1", "account: there is no account 'fr-1'; the accounts are: de-2, us-1, xx-1"),
        ("us-1", "twin", "account: several accounts are named 'twin': de-2 (Twin), xx-1 (Twin)"),
        (",A,", ",,", "sku: '' is not a SKU"),
        ("2026-01-01", "2026-1-1", "from_date: '2026-1-1' is not a day, written as 2026-03-31"),
        ("2026-01-31", "2026-02-29", "to_date: '2026-02-29' is not a day, written as 2026-03-31"),
        ("2026-01-31", "", "to_date: '' is not a day, written as 2026-03-31"),
        ("2026-01-01", "2026-02-01", "from_date: 2026-02-01 lies after to_date 2026-01-31"),
        ("Freight", " ", "cost_element: it is empty; name the part of the costs, such as Freight"),
        (
            "1.50",
            '"1,50"',
            "amount: '1,50' is not a number from 0 to less than 1000000000000 with at most 10 decimals, ",
        ),
        *(
            ("1.50", amount, f"amount: '{amount}' is not a number")
            for amount in ("-1", "NaN", "1e3", "1.12345678901", "1000000000000")
        ),
        ("1.50", "", "amount: it is empty, and so is total_amount"),
        ("USD", "usd", "currency: 'usd' is not an ISO 4217 code such as EUR"),
    ],
)
def test_a_problem_is_reported_by_line_column_and_value(
    database: Database, tmp_path: Path, old: str, new: str, message: str
) -> None:
    (problem,) = _problems(database, tmp_path, LINE.replace(old, new))
    (short,) = _problems(database, tmp_path, LINE.removesuffix(",USD"))

    assert problem.startswith(f"line 2, column {message}")
    assert short.startswith("line 2: 'us-1,A,2026-01-01,2026-01-31,Freight,1.50' has 6 cells")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("1,,2,,", "column units: it goes with total_amount, which is empty"),
        (",10,0,,", "column units: it must be more than 0"),
        (",10,,0.0,", "column conversion_rate: it must be more than 0"),
        ("3,10,3,,", "column amount: total_amount * conversion_rate / units is 3.33"),
        (",999999999999,,2,", "column amount: total_amount * conversion_rate / units is 1999999999998.00"),
        ("1,,,,yes", "column remove: the SKU is to have no costs, but from_date"),
        ("1,,,,perhaps", "column remove: 'perhaps' is not yes or no"),
    ],
)
def test_optional_columns_are_checked_too(database: Database, tmp_path: Path, cells: str, message: str) -> None:
    header = "account,sku,from_date,to_date,cost_element,currency,amount,total_amount,units,conversion_rate,remove"

    problems = _problems(database, tmp_path, f"us-1,A,2026-01-01,2026-01-31,Freight,USD,{cells}", header=header)

    assert problems[0].startswith(f"line 2, {message}"), problems


def test_duplicates_and_overlaps_are_reported_by_their_lines(database: Database, tmp_path: Path) -> None:
    problems = _problems(
        database,
        tmp_path,
        LINE,
        "",
        "us-1,A,2026-01-01,2026-01-31,Freight,9,USD",
        "us-1,B,2026-01-01,2026-12-31,Freight,1,USD",
        "us-1,B,2027-01-01,2027-12-31,Freight,1,USD",
        "us-1,B,2026-12-31,2027-01-01,Freight,1,USD",
        "de-2,B,2026-12-31,2027-01-01,Freight,1,EUR",
    )

    assert problems == [
        "line 4: the same element of the same period stands in line 2; keep one",
        "line 7: the period 2026-12-31..2027-01-01 overlaps 2026-01-01..2026-12-31 of line 5; let one end before",
        "line 6: the period 2027-01-01..2027-12-31 overlaps 2026-12-31..2027-01-01 of line 7; let one end before",
    ]


def test_a_sku_that_is_removed_and_has_costs_is_contradictory(database: Database, tmp_path: Path) -> None:
    (problem,) = _problems(database, tmp_path, f"{LINE},", "us-1,A,,,,,,yes", header=f"{HEADER},remove")

    assert problem == "line 3: the SKU is to have no costs, but it has some in line 2"


def test_at_most_twenty_problems_are_listed(database: Database, tmp_path: Path) -> None:
    problems = _problems(database, tmp_path, *["us-1,A,x,2026-02-28,Freight,1,USD"] * 100)

    assert len(problems) == 21
    assert problems[-1] == "and perhaps more"


@pytest.mark.parametrize(
    ("header", "messages"),
    [
        (HEADER.replace("sku", "SKU"), ["column 'SKU' is not one of account, sku,", "column sku is missing"]),
        (HEADER.replace(",", ";"), ["its columns are separated by semicolons; separate them by commas"]),
        (HEADER.replace(",amount", ""), ["column amount is missing, or total_amount in its place"]),
        (f"{HEADER},amount", ["column amount occurs twice"]),
    ],
)
def test_an_unusable_header_is_reported(database: Database, tmp_path: Path, header: str, messages: list[str]) -> None:
    problems = _problems(database, tmp_path, LINE, header=header)

    assert all(problem.startswith(start) for problem, start in zip(problems, messages, strict=True)), problems


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "column account is missing"),
        (HEADER.encode(), "it has no lines"),
        (HEADER.encode() + b"\nus-1,\xe4,", "line 2 is not UTF-8"),
        (HEADER.encode() + b'\nus-1,"A"x,', "line 2: it is not CSV"),
        (
            HEADER.encode() + b"\nus-1,A\0,2026-01-01,2026-01-31,Freight,1,USD",
            "line 2, column sku: 'A\\x00' is not a SKU",
        ),
    ],
)
def test_a_file_that_is_no_sheet_is_reported(database: Database, tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "costs.csv"
    file.write_bytes(content)

    with pytest.raises(SheetError) as caught:
        read_costs(database, str(file), ACCOUNTS)

    assert caught.value.problems[0].startswith(message)


def test_a_file_or_table_that_is_not_there_is_named(database: Database, tmp_path: Path) -> None:
    with pytest.raises(SheetError, match="No such file"):
        read_costs(database, str(tmp_path / "none.csv"), ACCOUNTS)
    with pytest.raises(RequestError, check=lambda error: error.code == "UnknownTableError", match=r"'marts\.none'"):
        read_costs(database, "marts.none", ACCOUNTS)


def _table(database: Database, *statements: str) -> None:
    for statement in statements:
        database.execute(text(statement))


def test_a_view_of_the_warehouse_is_read_like_a_file(database: Database) -> None:
    _table(
        database,
        "CREATE SCHEMA purchasing",
        "CREATE TABLE purchasing.costs "
        "(account text, sku text, first date, price numeric, currency char(3), gone bool)",
        "INSERT INTO purchasing.costs VALUES ('us-1', 'A', '2026-01-01', 1.500, 'USD', false), "
        "('us-1', 'B', NULL, NULL, NULL, true)",
        "CREATE VIEW purchasing.wanted AS SELECT account, sku, first AS from_date, first + 30 AS to_date, "
        "CASE WHEN NOT gone THEN 'Freight' END AS cost_element, price AS amount, currency, gone AS remove "
        "FROM purchasing.costs",
    )

    read = read_costs(database, "purchasing.wanted", ACCOUNTS)

    freight = CostElement("Freight", Decimal("1.50"), "USD")
    assert read == {("us-1", "A"): (CostPeriod(date(2026, 1, 1), date(2026, 1, 31), (freight,)),), ("us-1", "B"): ()}


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("double precision", "1.5", "row 1, column amount: 1.5 is a binary floating-point number"),
        ("numeric", "'NaN'", "row 1, column amount: 'NaN' is not a number"),
        ("timestamp", "'2026-01-01 10:00'", "row 1, column amount: '2026-01-01T10:00:00' is not a number"),
    ],
)
def test_a_problem_in_a_table_names_its_row_and_column(database: Database, kind: str, value: str, message: str) -> None:
    columns: dict[str, Any] = dict.fromkeys(COLUMNS[:6], "text") | {"amount": kind}
    listed = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
    _table(
        database,
        f"CREATE TABLE public.costs ({listed})",
        f"INSERT INTO public.costs VALUES ('us-1', 'A', '2026-01-01', '2026-01-31', 'Freight', 'USD', {value})",
    )

    with pytest.raises(SheetError) as caught:
        read_costs(database, "public.costs", ACCOUNTS)

    assert caught.value.problems[0].startswith(message)
