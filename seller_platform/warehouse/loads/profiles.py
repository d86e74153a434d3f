"""Profiles of slices: how many rows each day has, and the sums of amounts."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import psycopg
from psycopg import sql

from seller_platform.contract import Dataset
from seller_platform.warehouse.schema.tables import SELLER

Sums = Mapping[str, Decimal]
"""Amounts by column and currency, such as `order_total USD`; `rows` counts the rows."""

ROWS = "rows"
_ZERO = Decimal(0)


@dataclass(frozen=True)
class Profile:
    """What the rows of one slice add up to.

    Attributes:
        days: Rows by local day; of `seller.accounts` by connection.
        sums: The rows, and the sum of each money column by currency.
        amounts: The sum of the first money column by local day.
    """

    days: Mapping[Any, int]
    sums: Sums
    amounts: Mapping[Any, Decimal]

    @property
    def rows(self) -> int:
        return int(self.sums.get(ROWS, 0))

    @classmethod
    def of(cls, dataset: Dataset, groups: Iterable[tuple[Any, ...]]) -> Self:
        """Return the profile of rows, from the result of `profile_query`."""
        currencies = _currencies(dataset)
        days: dict[Any, int] = defaultdict(int)
        sums: dict[str, Decimal] = defaultdict(Decimal)
        amounts: dict[Any, Decimal] = defaultdict(Decimal)
        for day, rows, *values in groups:
            days[day] += rows
            sums[ROWS] += rows
            codes = dict(zip(currencies, values, strict=False))
            for column, amount in zip(dataset.money, values[len(currencies) :], strict=True):
                code = codes[column.currency] if column.currency else None
                sums[f"{column.name} {code}" if code else column.name] += amount or 0
            if dataset.money:
                amounts[day] += values[len(currencies)] or 0
        return cls(dict(days), dict(sums), dict(amounts))


NO_ROWS = Profile({}, {}, {})


def profile_query(dataset: Dataset, source: sql.Composable, condition: sql.Composable) -> sql.Composed:
    """Return the query of a profile: rows and amounts by day and currency, in one scan."""
    groups = [sql.Identifier(name) for name in (dataset.slice_column, *_currencies(dataset))]
    sums = [sql.SQL("sum({})").format(sql.Identifier(column.name)) for column in dataset.money]
    selected = sql.SQL(", ").join([groups[0], sql.SQL("count(*)"), *groups[1:], *sums])
    query = sql.SQL("SELECT {} FROM {} WHERE {} GROUP BY {}")
    return query.format(selected, source, condition, sql.SQL(", ").join(groups))


def stored_profile(cursor: psycopg.Cursor[Any], dataset: Dataset, inside: sql.Composable) -> Profile:
    """Return the profile of the stored rows that meet a condition."""
    query = profile_query(dataset, sql.Identifier(SELLER, dataset.name), inside)
    return Profile.of(dataset, cursor.execute(query).fetchall())


def combined(before: Sums, *, gone: Sums, new: Sums) -> dict[str, Decimal]:
    """Return the sums of a slice after rows went and came."""
    names = {*before, *gone, *new}
    return {name: before.get(name, _ZERO) - gone.get(name, _ZERO) + new.get(name, _ZERO) for name in names}


def changed_days(*, gone: Profile, new: Profile) -> dict[str, list[object]]:
    """Return rows that came, rows that went, and the change of the first amount, by local day."""
    days = sorted({*new.days, *gone.days})
    amounts = {day: new.amounts.get(day, _ZERO) - gone.amounts.get(day, _ZERO) for day in days}
    return {str(day): [new.days.get(day, 0), gone.days.get(day, 0), str(amounts[day])] for day in days}


def restatement(before: Sums, after: Sums) -> dict[str, object]:
    """Return what differs, as `{"rows": {...}, "order_total USD": {"before": "1.00", "after": "2.00"}}`."""
    return {
        name: {"before": str(before.get(name, 0)), "after": str(after.get(name, 0))}
        for name in sorted({*before, *after})
        if before.get(name, _ZERO) != after.get(name, _ZERO)
    }


def _currencies(dataset: Dataset) -> list[str]:
    """Return the columns that name the currency of an amount."""
    return sorted({column.currency for column in dataset.money if column.currency})
