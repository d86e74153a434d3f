"""Loads exchange rates and products, which no list contains, from CSV files of an operator."""

from collections.abc import Collection, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from seller_platform.contract.currencies import CURRENCIES
from seller_platform.csv_files import Line, Problems, column_problems, csv_lines, day_in, number_in
from seller_platform.warehouse.postgres.database import Database, driver_of

DAY, CURRENCY, PER_EURO = "day", "currency", "per_euro"
_OF_RATES = (DAY, CURRENCY, PER_EURO)
_MOST_PROBLEMS = 1000

_REPLACE_RATES = """
INSERT INTO service.exchange_rates (day, currency, per_euro)
SELECT * FROM unnest(%s::date[], %s::text[], %s::numeric[])
ON CONFLICT (day, currency) DO UPDATE SET per_euro = excluded.per_euro
"""

ACCOUNT, SKU, ASIN, PARENT_ASIN, PRODUCT_NAME = "account", "sku", "asin", "parent_asin", "product_name"
BUYBOX_PRICE, SALES_RANK, LEAD_TIME_DAYS = "buybox_price", "sales_rank", "lead_time_days"
_OF_PRODUCTS = (ACCOUNT, SKU, ASIN, PARENT_ASIN, PRODUCT_NAME, BUYBOX_PRICE, SALES_RANK, LEAD_TIME_DAYS)

_LARGEST_PRICE = Decimal(10) ** 12
_LARGEST_COUNTS = {SALES_RANK: Decimal(10) ** 12, LEAD_TIME_DAYS: Decimal(10_000)}

# The newest name that the rows have: of the stock first, then of the sales.
_STORED = """
WITH sent AS (SELECT DISTINCT * FROM unnest(%s::text[], %s::text[]) AS sent (account, sku)),
named AS (
    SELECT account, sku, asin, product_name, 1 AS choice, local_day FROM sent JOIN seller.inventory USING (account, sku)
    UNION ALL
    SELECT account, sku, asin, product_name, 2, local_day
    FROM sent JOIN seller.daily_product_sales USING (account, sku)
)
SELECT account, sku, (array_agg(asin ORDER BY choice, local_day DESC) FILTER (WHERE asin IS NOT NULL))[1],
       (array_agg(product_name ORDER BY choice, local_day DESC) FILTER (WHERE product_name IS NOT NULL))[1]
FROM named
GROUP BY account, sku
"""

_REPLACE_PRODUCTS = """
INSERT INTO service.products
    (account, sku, asin, parent_asin, product_name, buybox_price, sales_rank, lead_time_days)
SELECT * FROM unnest(
    %(account)s::text[], %(sku)s::text[], %(asin)s::text[], %(parent_asin)s::text[], %(product_name)s::text[],
    %(buybox_price)s::numeric[], %(sales_rank)s::bigint[], %(lead_time_days)s::bigint[]
)
ON CONFLICT (account, sku) DO UPDATE SET
    asin = excluded.asin, parent_asin = excluded.parent_asin, product_name = excluded.product_name,
    buybox_price = excluded.buybox_price, sales_rank = excluded.sales_rank, lead_time_days = excluded.lead_time_days
"""

_Product = Mapping[str, Any]
_Names = Mapping[tuple[str, str], tuple[str | None, str | None]]  # the ASIN and the name by account and SKU


class LoadedRates(msgspec.Struct, frozen=True):
    """The exchange rates that were loaded."""

    rates: int
    currencies: list[str]
    first_day: date
    last_day: date


def load_rates(database: Database, path: Path) -> LoadedRates:
    """Store the exchange rates of a CSV file; a rate of the same day and currency is replaced.

    Raises:
        SheetError: The file has errors. Nothing was stored.
    """
    problems = Problems(str(path), most=_MOST_PROBLEMS)
    rates: dict[tuple[date, str], Decimal] = {}
    position_of: dict[tuple[date, str], str] = {}
    for line in csv_lines(path, lambda names: column_problems(names, allowed=_OF_RATES, required=_OF_RATES), problems):
        day, currency, shown = day_in(line, DAY, problems), line[CURRENCY].strip(), repr(line[PER_EURO])
        before = len(problems.lines)
        per_euro = number_in(line, PER_EURO, problems, limit=Decimal(10) ** 13, most_decimals=20)
        if not per_euro and len(problems.lines) == before:
            problems.add_cell(line, PER_EURO, f"{shown} is not more than 0: units of the currency for one euro")
        elif per_euro and currency == "EUR" and per_euro != 1:
            problems.add_cell(line, PER_EURO, f"{shown} is not 1, which it must be for EUR")
        if currency not in CURRENCIES:
            problems.add_cell(line, CURRENCY, f"{currency!r} is not an ISO 4217 code such as USD")
        elif day is not None and per_euro:
            key = (day, currency)
            if key in rates:
                problems.add(f"{line.position}: the rate of {currency} on {day} stands in {position_of[key]}; keep one")
            rates[key], position_of[key] = per_euro, line.position
    if not rates and not problems.lines:
        problems.add("it has no lines")
    problems.check()
    days, currencies = [day for day, _ in rates], [currency for _, currency in rates]
    with database.begin() as connection:
        driver_of(connection).execute(_REPLACE_RATES, (days, currencies, list(rates.values())))
    return LoadedRates(len(rates), sorted(set(currencies)), min(days), max(days))


class LoadedProducts(msgspec.Struct, frozen=True):
    """The products that were loaded, and the accounts that they are of."""

    products: int
    with_parent: int
    accounts: list[str]


def load_products(database: Database, path: Path) -> LoadedProducts:
    """Store the products of a CSV file; one of the same account and SKU is replaced.

    An ASIN or a name that the file does not have is taken from the stored rows.

    Raises:
        SheetError: The file has errors. Nothing was stored.
    """
    problems = Problems(str(path), most=_MOST_PROBLEMS)
    lines = list(
        csv_lines(path, lambda names: column_problems(names, allowed=_OF_PRODUCTS, required=(ACCOUNT, SKU)), problems)
    )
    if not lines and not problems.lines:
        problems.add("it has no lines")
    with database.begin() as connection:
        driver = driver_of(connection)
        accounts = [account for (account,) in driver.execute("SELECT DISTINCT account FROM seller.accounts ORDER BY 1")]
        products: dict[tuple[str, str], _Product] = {}
        position_of: dict[tuple[str, str], str] = {}
        # The ASIN and the name that stored rows have for products, where the file lacks one of them.
        lacking = [line for line in lines if not (line[ASIN].strip() and line[PRODUCT_NAME].strip())]
        keys = [(line[ACCOUNT].strip(), line[SKU]) for line in lacking if "\0" not in line[ACCOUNT] + line[SKU]]
        rows = driver.execute(_STORED, ([account for account, _ in keys], [sku for _, sku in keys]))
        stored: _Names = {(account, sku): (asin, name) for account, sku, asin, name in rows}
        for line in lines:
            product = _product(line, accounts, stored, problems)
            key = (product[ACCOUNT], product[SKU])
            if key in products:
                problems.add(f"{line.position}: SKU {key[1]!r} of {key[0]} stands in {position_of[key]}; keep one")
            products[key], position_of[key] = product, line.position
        problems.check()
        driver.execute(
            _REPLACE_PRODUCTS, {name: [product[name] for product in products.values()] for name in _OF_PRODUCTS}
        )
    with_parent = sum(product[PARENT_ASIN] is not None for product in products.values())
    return LoadedProducts(len(products), with_parent, sorted({account for account, _ in products}))


def _product(line: Line, accounts: Collection[str], stored: _Names, problems: Problems) -> _Product:
    """Return the values of a line, and add what is wrong with it to `problems`."""
    account, sku = line[ACCOUNT].strip(), line[SKU]
    if account not in accounts:
        listed = ", ".join(accounts) or "none yet"
        problems.add_cell(line, ACCOUNT, f"{account!r} is not the key of an account; they are: {listed}")
    if not sku.strip():
        problems.add_cell(line, SKU, f"{sku!r} is not a SKU")
    for column in (SKU, ASIN, PARENT_ASIN, PRODUCT_NAME):
        if "\0" in line[column]:
            problems.add_cell(line, column, f"{line[column]!r} holds a NUL character")
    values: dict[str, Any] = {ACCOUNT: account, SKU: sku, PARENT_ASIN: line[PARENT_ASIN].strip() or None}
    for column, known in zip((ASIN, PRODUCT_NAME), stored.get((account, sku), (None, None)), strict=True):
        values[column] = line[column].strip() or known
        if values[column] is None and account in accounts:
            problems.add_cell(line, column, f"{line[column]!r} is empty, and no stored row of SKU {sku!r} has one")
    values[BUYBOX_PRICE] = number_in(line, BUYBOX_PRICE, problems, limit=_LARGEST_PRICE, most_decimals=10)
    for column, limit in _LARGEST_COUNTS.items():
        count = number_in(line, column, problems, limit=limit, most_decimals=0)
        values[column] = None if count is None else int(count)
    return values
