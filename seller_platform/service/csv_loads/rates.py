"""Loads exchange rates from a CSV file into `service.exchange_rates`."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import msgspec

from seller_platform.contract.currencies import CURRENCIES
from seller_platform.csv_files import Line, Problems, column_problems, csv_lines, day_in, number_in
from seller_platform.errors import RateFileError
from seller_platform.warehouse.postgres.database import Database, driver_of

DAY, CURRENCY, PER_EURO = "day", "currency", "per_euro"
COLUMNS = (DAY, CURRENCY, PER_EURO)

_EURO = "EUR"
_LIMIT = Decimal(10) ** 13
_MOST_PROBLEMS = 1000
_MOST_DECIMALS = 20

_REPLACE = """
INSERT INTO service.exchange_rates (day, currency, per_euro)
SELECT * FROM unnest(%s::date[], %s::text[], %s::numeric[])
ON CONFLICT (day, currency) DO UPDATE SET per_euro = excluded.per_euro
"""


class LoadedRates(msgspec.Struct, frozen=True):
    """The exchange rates that were loaded."""

    rates: int
    currencies: list[str]
    first_day: date
    last_day: date


def load_rates(database: Database, path: Path) -> LoadedRates:
    """Store the exchange rates of a CSV file; a rate of the same day and currency is replaced.

    Raises:
        RateFileError: The file has errors. Nothing was stored.
    """
    problems = Problems(str(path), RateFileError, most=_MOST_PROBLEMS)
    rates: dict[tuple[date, str], Decimal] = {}
    position_of: dict[tuple[date, str], str] = {}
    for line in csv_lines(path, lambda names: column_problems(names, allowed=COLUMNS, required=COLUMNS), problems):
        day, currency, per_euro = day_in(line, DAY, problems), line[CURRENCY].strip(), _rate(line, problems)
        if currency not in CURRENCIES:
            problems.add_cell(line, CURRENCY, f"{currency!r} is not an ISO 4217 code such as USD")
        elif day is not None and per_euro is not None:
            key = (day, currency)
            if key in rates:
                problems.add(f"{line.position}: the rate of {currency} on {day} stands in {position_of[key]}; keep one")
            rates[key], position_of[key] = per_euro, line.position
    if not rates and not problems.lines:
        problems.add("it has no lines")
    problems.check()
    days, currencies = [day for day, _ in rates], [currency for _, currency in rates]
    with database.begin() as connection:
        driver_of(connection).execute(_REPLACE, (days, currencies, list(rates.values())))
    return LoadedRates(len(rates), sorted(set(currencies)), min(days), max(days))


def _rate(line: Line, problems: Problems) -> Decimal | None:
    before = len(problems.lines)
    per_euro = number_in(line, PER_EURO, problems, limit=_LIMIT, most_decimals=_MOST_DECIMALS)
    if not per_euro and len(problems.lines) == before:
        problems.add_cell(line, PER_EURO, f"{line[PER_EURO]!r} is not more than 0: units of the currency for one euro")
    elif per_euro and line[CURRENCY].strip() == _EURO and per_euro != 1:
        problems.add_cell(line, PER_EURO, f"{line[PER_EURO]!r} is not 1, which it must be for {_EURO}")
    return per_euro or None
