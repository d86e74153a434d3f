"""Reads cost sheets: the target costs of products, in a CSV file or a table.

A sheet has one line for each cost element. The lines of a SKU together are all its target periods. A SKU without lines
stays unchanged, as does one whose line nobody filled in. All problems are reported together, by line and column, before
a request is sent to the upstream.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import Result, literal_column, select, table, text

from seller_platform.contract import Account
from seller_platform.contract.cost_periods import (
    AMOUNT,
    CONVERSION_RATE,
    COST_ELEMENT,
    CURRENCY,
    FROM_DATE,
    LARGEST_AMOUNT,
    MOST_DECIMALS,
    NOTES,
    PROVIDER,
    SKU,
    TO_DATE,
    TOTAL_AMOUNT,
    UNITS,
    CostElement,
    CostPeriod,
    Periods,
    in_cents,
    in_order,
    unit_amount,
    with_cents,
)
from seller_platform.contract.currencies import CURRENCIES
from seller_platform.csv_files import Line, Problems, column_problems, csv_lines, day_in, number_in
from seller_platform.errors import RequestError, SheetError
from seller_platform.warehouse.connections.accounts import key_named
from seller_platform.warehouse.postgres.database import Database

ACCOUNT, REMOVE = "account", "remove"
REQUIRED = (ACCOUNT, SKU, FROM_DATE, TO_DATE, COST_ELEMENT, CURRENCY)
COLUMNS = (*REQUIRED, AMOUNT, TOTAL_AMOUNT, UNITS, CONVERSION_RATE, PROVIDER, NOTES, REMOVE)

_TABLE_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_$]*)\.([A-Za-z_][A-Za-z0-9_$]*)")
_YES, _NO = frozenset({"yes", "true", "1"}), frozenset({"", "no", "false", "0"})

Product = tuple[str, str]
ProductCosts = Mapping[Product, Periods]
"""All target cost periods of products, by account and SKU; no periods where the costs are to be removed."""


def read_costs(database: Database, source: str, accounts: Mapping[str, Account]) -> ProductCosts:
    """Return the target costs of a CSV file, or of a table or view.

    Args:
        source: The path of the file, or the name of the table with its schema.
        accounts: The accounts by their keys; a line names one as a command does.

    Raises:
        RequestError: There is no such file or table.
        SheetError: It cannot be read, or has values that cannot be written.
    """
    path, problems = Path(source), Problems(source)
    name = None if path.exists() else _TABLE_NAME.fullmatch(source)
    lines = list(csv_lines(path, _column_problems, problems) if name is None else _rows(database, *name.groups()))
    lines_of: dict[Product, list[Line]] = {}
    for line in (each for each in lines if any(each[name].strip() for name in COLUMNS[2:])):
        key, is_sku = None, bool(line[SKU].strip()) and "\0" not in line[SKU]
        try:
            key = key_named(line[ACCOUNT].strip(), accounts)
        except RequestError as error:
            problems.add_cell(line, ACCOUNT, error.problem_alone)
        if not is_sku:
            problems.add_cell(line, SKU, f"{line[SKU]!r} is not a SKU")
        if key is not None and is_sku:
            lines_of.setdefault((key, line[SKU]), []).append(line)
        else:  # the other cells of the line may be wrong, too
            _periods([line], accounts[key].currency_code if key else line[CURRENCY], problems)
    costs = {
        (key, sku): _periods(of_product, accounts[key].currency_code, problems)
        for (key, sku), of_product in lines_of.items()
    }
    if not lines and not problems.lines:
        problems.add("it has no lines")
    problems.check()
    return costs


def _column_problems(columns: Sequence[str]) -> list[str]:
    problems = column_problems(columns, allowed=COLUMNS, required=REQUIRED)
    is_separated = len(columns) != 1 or ";" not in columns[0]
    if is_separated and AMOUNT not in columns and TOTAL_AMOUNT not in columns:
        problems.append(f"column {AMOUNT} is missing, or {TOTAL_AMOUNT} in its place")
    return problems


def _rows(database: Database, schema: str, name: str) -> Iterator[Line]:
    """Yield the rows of a table or view as lines."""
    source = f"{schema}.{name}"
    with database.begin() as connection:
        if not connection.execute(text("SELECT to_regclass(:name)"), {"name": source}).scalar_one():
            raise RequestError(
                f"there is neither a file nor a table or view {source!r}",
                code="UnknownTableError",
                step="Name a CSV file, or a table of the warehouse as `schema.table`.",
            )
        relation = table(name.lower(), schema=schema.lower())
        rows: Result[Any] = connection.execute(select(literal_column("*")).select_from(relation))
        columns = tuple(rows.keys())
        if wrong := _column_problems(columns):
            raise SheetError(source, wrong)
        for number, row in enumerate(rows, 1):
            yield Line(f"row {number}", _cells(source, number, columns, row))


def _cells(source: str, number: int, columns: Sequence[str], row: Sequence[object]) -> Mapping[str, str]:
    """Return the values of a table's row as texts.

    A float is refused: it does not hold the exact amount that was entered.
    """
    cells = {}
    for name, value in zip(columns, row, strict=True):
        match value:
            case float():
                problem = f"{value!r} is a binary floating-point number, which holds no exact amount; store numeric"
                raise SheetError(source, [f"row {number}, column {name}: {problem}"])
            case None:
                cells[name] = ""
            case Decimal():
                cells[name] = format(value, "f")
            case datetime():
                cells[name] = value.isoformat()
            case _:
                cells[name] = str(value)
    return cells


def _periods(lines: Sequence[Line], account_currency: str | None, problems: Problems) -> Periods:
    """Return the periods of one product from its lines."""
    removals = [line for line in lines if _is_removal(line, problems)]
    if removals:
        kept = [line.position for line in lines if line not in removals]
        if kept:
            problems.add(
                f"{removals[0].position}: the SKU is to have no costs, but it has some in {', '.join(kept[:3])}"
            )
        return ()
    lines_of: dict[tuple[date, date], dict[tuple[object, ...], tuple[str, CostElement]]] = {}
    for line in lines:
        first, last, element = (
            day_in(line, FROM_DATE, problems),
            day_in(line, TO_DATE, problems),
            _element(line, account_currency, problems),
        )
        if first is None or last is None or element is None:
            continue
        if first > last:
            problems.add_cell(line, FROM_DATE, f"{first} lies after to_date {last}")
            continue
        key = (element.cost_element, line[CURRENCY].strip(), element.currency, element.provider, element.notes)
        same, _ = lines_of.setdefault((first, last), {}).setdefault(key, (line.position, element))
        if same != line.position:
            problems.add(f"{line.position}: the same element of the same period stands in {same}; keep one")
    periods = in_order(
        tuple(
            CostPeriod(*dates, tuple(element for _, element in of_period.values()))
            for dates, of_period in lines_of.items()
        )
    )
    for number, period in enumerate(periods):
        overlapped = next((each for each in periods[:number] if period.overlaps(each)), None)
        if overlapped is not None:
            position, other = (
                next(iter(lines_of[each.from_date, each.to_date or date.max].values()))[0]
                for each in (period, overlapped)
            )
            problems.add(f"{position}: the period {period} overlaps {overlapped} of {other}; let one end before")
    return periods


def _is_removal(line: Line, problems: Problems) -> bool:
    """Return whether a line is marked as one that removes the costs of its SKU; it has no other cell then."""
    filled = [name for name in COLUMNS[2:-1] if line[name].strip()]
    marked = line[REMOVE].strip().lower()
    if marked not in _YES | _NO:
        problems.add_cell(line, REMOVE, f"{line[REMOVE]!r} is not yes or no")
        return False
    if marked in _YES and filled:
        problems.add_cell(line, REMOVE, f"the SKU is to have no costs, but {', '.join(filled)} say some")
    return marked in _YES


def _element(line: Line, account_currency: str | None, problems: Problems) -> CostElement | None:
    """Return the element of a line; a converted amount is in the account's currency."""
    element = _element_sent(line, problems)
    if element is None or not element.is_converted:
        return element
    if account_currency is None:
        problems.add_cell(line, CONVERSION_RATE, "the currency of the account, to which it converts, is not known")
        return None
    return replace(element, currency=account_currency, total_currency=element.currency)


def _element_sent(line: Line, problems: Problems) -> CostElement | None:
    before = len(problems.lines)
    name, currency = line[COST_ELEMENT].strip(), line[CURRENCY].strip()
    if not name:
        problems.add_cell(line, COST_ELEMENT, "it is empty; name the part of the costs, such as Freight")
    if currency not in CURRENCIES:
        problems.add_cell(line, CURRENCY, f"{currency!r} is not an ISO 4217 code such as EUR")
    for column in (COST_ELEMENT, PROVIDER, NOTES):
        if "\0" in line[column]:
            problems.add_cell(line, column, "it holds a NUL character")
    amount, total = _number(line, AMOUNT, problems), _number(line, TOTAL_AMOUNT, problems)
    units, rate = _number(line, UNITS, problems), _number(line, CONVERSION_RATE, problems, most_decimals=20)
    for column, number in ((UNITS, units), (CONVERSION_RATE, rate)):
        if number == 0:
            problems.add_cell(line, column, "it must be more than 0")
        if number is not None and total is None:
            problems.add_cell(line, column, f"it goes with {TOTAL_AMOUNT}, which is empty")
    if amount is None and total is None and len(problems.lines) == before:
        problems.add_cell(line, AMOUNT, f"it is empty, and so is {TOTAL_AMOUNT}")
    if len(problems.lines) > before:
        return None
    texts = (name, currency, line[PROVIDER] or None, line[NOTES] or None)
    if total is None:
        assert amount is not None
        return CostElement(texts[0], with_cents(amount), *texts[1:])
    computed = unit_amount(total, rate or Decimal(1), units or Decimal(1))
    if computed >= LARGEST_AMOUNT or (amount is not None and in_cents(amount) != in_cents(computed)):
        computation = f"{TOTAL_AMOUNT} * {CONVERSION_RATE} / {UNITS} is {computed:f}"
        problems.add_cell(
            line, AMOUNT, f"{computation}; it must be less than {LARGEST_AMOUNT}, and agree with {AMOUNT}"
        )
        return None
    return CostElement(texts[0], computed, *texts[1:], total_amount=total, units=units, conversion_rate=rate)


def _number(line: Line, column: str, problems: Problems, *, most_decimals: int = MOST_DECIMALS) -> Decimal | None:
    return number_in(line, column, problems, limit=LARGEST_AMOUNT, most_decimals=most_decimals)
