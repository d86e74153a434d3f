"""Reads the cost periods of a request body strictly, and names problems by their path."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import TypeVar

from seller_platform.contract.cost_periods import (
    LARGEST_AMOUNT,
    MOST_DECIMALS,
    CostElement,
    CostPeriod,
    decimals_of,
    in_cents,
    unit_amount,
)
from seller_platform.contract.currencies import CURRENCIES
from seller_platform.service.http.parameters import Query, is_storable, read_day, shown

Item = TypeVar("Item")

_LONGEST_TEXT = 1_000
_MOST_PROBLEMS = 20
_RATE = re.compile(r"[0-9]{1,12}(\.[0-9]{1,20})?")


class _TooManyProblemsError(Exception):
    """The body has so many problems that reading stops."""


def read_periods(sent: Mapping[str, object], query: Query) -> tuple[CostPeriod, ...]:
    """Return the periods of a body; problems are added to the query."""
    reader = _Reader(query)
    try:
        periods = reader.listed("data", sent.get("data"), "cost period", reader.period)
        if periods is not None:
            reader.refuse_overlaps(periods)
    except _TooManyProblemsError:
        return ()
    return periods or ()


class _Reader:
    """Reads the parts of a body.

    An invalid part is None, and its path and problem are added to the query.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._problems = 0

    def refuse(self, path: str, problem: str) -> None:
        self._query.refuse(path, problem)
        self._problems += 1
        if self._problems >= _MOST_PROBLEMS:
            raise _TooManyProblemsError

    def period(self, path: str, sent: object) -> CostPeriod | None:
        fields = self._fields(path, sent)
        if fields is None:
            return None
        dates = self._fields(f"{path}.dates", fields.get("dates")) or {}
        first, last = (self._day(f"{path}.dates.{name}", dates, name) for name in ("from_date", "to_date"))
        if first and last and first > last:
            self.refuse(f"{path}.dates.from_date", f"is {first}, after to_date {last}")
        elements = self.listed(f"{path}.cost_elements", fields.get("cost_elements"), "cost element", self._element)
        return CostPeriod(first, last, elements) if first and last and elements else None

    def refuse_overlaps(self, periods: Sequence[CostPeriod]) -> None:
        ordered = sorted(enumerate(periods), key=lambda item: (item[1].from_date, item[0]))
        latest = ordered[0]
        for position, period in ordered[1:]:
            if period.overlaps(latest[1]):
                self.refuse(f"data[{position}].dates", f"{period} overlaps data[{latest[0]}].dates {latest[1]}")
            latest = max(latest, (position, period), key=lambda item: item[1].to_date or date.max)

    def listed(
        self, path: str, sent: object, kind: str, read: Callable[[str, object], Item | None]
    ) -> tuple[Item, ...] | None:
        if not isinstance(sent, list) or not sent:
            self.refuse(path, f"must be a list of at least one {kind}")
            return None
        items = [read(f"{path}[{position}]", item) for position, item in enumerate(sent)]
        complete = tuple(item for item in items if item is not None)
        return complete if len(complete) == len(items) else None

    def _element(self, path: str, sent: object) -> CostElement | None:
        fields = self._fields(path, sent)
        if fields is None:
            return None
        name = self._text(path, fields, "cost_element", required=True)
        currency = self._text(path, fields, "currency", required=True)
        if currency and currency not in CURRENCIES:
            self.refuse(f"{path}.currency", f"must be an ISO 4217 code such as EUR; it is {shown(currency)}")
        provider, notes = self._text(path, fields, "provider"), self._text(path, fields, "notes")
        amount = self._amount(path, fields)
        if not name or not currency or amount is None:
            return None
        return CostElement(name, amount, currency, provider, notes, conversion_rate=self._rate(path, fields))

    def _amount(self, path: str, fields: Mapping[str, object]) -> Decimal | None:
        before = self._problems
        amount, total = self._number(path, fields, "amount"), self._number(path, fields, "total_amount")
        units, rate = self._number(path, fields, "units"), self._rate(path, fields)
        if units is not None and units == 0:
            self.refuse(f"{path}.units", "must be more than 0")
        if fields.get("amount") is None and fields.get("total_amount") is None:
            self.refuse(f"{path}.amount", "is required, or total_amount in its place")
        if self._problems > before:
            return None
        if total is None:
            return in_cents(amount) if amount is not None else None
        computed = unit_amount(total, rate or Decimal(1), units or Decimal(1))
        if computed >= LARGEST_AMOUNT:
            self.refuse(f"{path}.total_amount", f"times conversion_rate by units is {LARGEST_AMOUNT} or more")
            return None
        if amount is None:
            return computed
        if in_cents(amount) != computed:
            problem = f"is {amount:f}, but total_amount * conversion_rate / units is {computed:f}"
            self.refuse(f"{path}.amount", f"{problem}; they must agree to the cent")
        return in_cents(amount)

    def _number(self, path: str, fields: Mapping[str, object], name: str) -> Decimal | None:
        sent = fields.get(name)
        if sent is None:
            return None
        problem = f"must be a number from 0 to less than {LARGEST_AMOUNT} with at most {MOST_DECIMALS} decimals"
        if isinstance(sent, bool) or not isinstance(sent, int | Decimal):
            self.refuse(f"{path}.{name}", f"{problem}, not a {_KINDS.get(type(sent), 'structure')}")
            return None
        number = Decimal(sent)
        # The bounds are checked first: written out, a number such as 1e999999 would fill the memory.
        if number < 0 or number >= LARGEST_AMOUNT or decimals_of(number) > MOST_DECIMALS:
            self.refuse(f"{path}.{name}", f"{problem}; it is {shown(str(sent))}")
            return None
        return abs(number)

    def _rate(self, path: str, fields: Mapping[str, object]) -> Decimal | None:
        sent = fields.get("conversion_rate")
        if sent is None:
            return None
        rate = Decimal(sent) if isinstance(sent, str) and _RATE.fullmatch(sent) else Decimal(0)
        if rate <= 0:
            problem = 'must be a string that holds a positive decimal number, such as "1.0835"'
            self.refuse(f"{path}.conversion_rate", problem)
            return None
        return rate

    def _text(self, path: str, fields: Mapping[str, object], name: str, *, required: bool = False) -> str | None:
        sent = fields.get(name)
        if sent is None and not required:
            return None
        if not isinstance(sent, str) or (required and not sent.strip()):
            self.refuse(f"{path}.{name}", "must be a text" + (" that is not empty" if required else ""))
            return None
        if len(sent) > _LONGEST_TEXT or not is_storable(sent):
            problem = f"must be Unicode of at most {_LONGEST_TEXT} characters, without NUL and lone surrogates"
            self.refuse(f"{path}.{name}", problem)
            return None
        return sent

    def _day(self, path: str, fields: Mapping[str, object], name: str) -> date | None:
        sent = fields.get(name)
        try:
            return read_day(sent if isinstance(sent, str) else "")
        except ValueError as error:
            self.refuse(path, str(error) if isinstance(sent, str) else "must be a day, written YYYY-MM-DD")
            return None

    def _fields(self, path: str, sent: object) -> Mapping[str, object] | None:
        if isinstance(sent, dict):
            return sent
        self.refuse(path, "must be an object")
        return None


_KINDS: Mapping[type, str] = {str: "text", bool: "truth value"}
