"""The cost periods of a request body: their types, which are documented, and the rules that no type expresses."""

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from seller_platform.contract.cost_periods import (
    LARGEST_AMOUNT,
    MOST_DECIMALS,
    CostElement,
    CostPeriod,
    Periods,
    decimals_of,
    in_cents,
    unit_amount,
)
from seller_platform.contract.currencies import CURRENCIES
from seller_platform.service.http.bodies import problem_of
from seller_platform.service.http.parameters import Query, Text, about, is_storable, shown

_MOST_PROBLEMS = 20

Note = Annotated[str, Meta(max_length=1_000)]
Amount = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "exclusiveMaximum": int(LARGEST_AMOUNT)})]
Units = Annotated[Decimal, Meta(extra_json_schema={"exclusiveMinimum": 0, "exclusiveMaximum": int(LARGEST_AMOUNT)})]
_RATE = r"(?=.*[1-9])[0-9]{1,12}(\.[0-9]{1,20})?"
Rate = Annotated[str, Meta(extra_json_schema={"pattern": f"^{_RATE}$"}, examples=["1"])]


class CostElementInput(Struct):
    """One part of the costs of a product."""

    cost_element: Annotated[Text, about("A cost category, such as Manufacturing.", "Manufacturing")]
    currency: Annotated[
        str,
        about(
            "ISO 4217 code of `total_amount`; with a `conversion_rate` of 1, also of `amount`.",
            "EUR",
            extra_json_schema={"pattern": "^[A-Z]{3}$"},
        ),
    ]
    provider: Annotated[Note | None, about("Who is paid.", "Example Pottery")] = None
    notes: Annotated[Note | None, about("Anything worth remembering.", "net of tax")] = None
    total_amount: Annotated[Amount | None, about("What all units cost; from it follows `amount`.")] = None
    conversion_rate: Annotated[
        Rate | None,
        about(
            'What `total_amount` is multiplied by: a positive decimal number; by default "1". With any '
            "other, `amount` is in the account's currency."
        ),
    ] = None
    units: Annotated[Units | None, about("How many units `total_amount` is for; by default 1.")] = None
    amount: Annotated[
        Amount | None,
        about("total_amount * conversion_rate / units, in cents; where both are sent, they must agree to the cent."),
    ] = None

    def __post_init__(self) -> None:
        """Check what no type expresses."""
        for name, text in (("cost_element", self.cost_element), ("provider", self.provider), ("notes", self.notes)):
            if text is not None and not is_storable(text):
                raise ValueError(f"`{name}` must be Unicode without NUL and lone surrogates")
        if not self.cost_element.strip():
            raise ValueError("`cost_element` must not be empty")
        if self.conversion_rate is not None and not re.fullmatch(_RATE, self.conversion_rate):
            raise ValueError('`conversion_rate` must be text that holds a positive decimal number, such as "1.0835"')
        if self.currency not in CURRENCIES:
            raise ValueError(f"`currency` must be an ISO 4217 code such as EUR; it is {shown(self.currency)}")
        for name in ("amount", "total_amount", "units"):
            number: Decimal | None = getattr(self, name)
            # The bounds are checked first: written out, a number such as 1e999999 would fill the memory.
            if number is not None and not (0 <= number < LARGEST_AMOUNT and decimals_of(number) <= MOST_DECIMALS):
                allowed = f"a number from 0 to less than {LARGEST_AMOUNT} with at most {MOST_DECIMALS} decimals"
                raise ValueError(f"`{name}` must be {allowed}; it is {shown(str(number))}")
        if self.units is not None and not self.units:
            raise ValueError("`units` must be more than 0")
        if self.amount is None and self.total_amount is None:
            raise ValueError("`amount` is required, or total_amount in its place")
        if self.total_amount is not None:
            computed = unit_amount(self.total_amount, Decimal(self.conversion_rate or 1), self.units or Decimal(1))
            if computed >= LARGEST_AMOUNT:
                raise ValueError(f"`total_amount` times conversion_rate by units is {LARGEST_AMOUNT} or more")
            if self.amount is not None and in_cents(self.amount) != computed:
                problem = f"is {self.amount:f}, but total_amount * conversion_rate / units is {computed:f}"
                raise ValueError(f"`amount` {problem}; they must agree to the cent")
            self.amount = computed

    @property
    def element(self) -> CostElement:
        amount, rate = abs(in_cents(self.amount or Decimal(0))), self.conversion_rate
        texts = (self.currency, self.provider, self.notes)
        return CostElement(self.cost_element, amount, *texts, conversion_rate=Decimal(rate) if rate else None)


class Dates(Struct):
    """The days on which the costs hold."""

    from_date: Annotated[date, about("The first of them.")]
    to_date: Annotated[date, about("The last of them, inclusive.")]

    def __post_init__(self) -> None:
        """Check the order of the days."""
        if self.from_date > self.to_date:
            raise ValueError(f"`from_date` is {self.from_date}, after to_date {self.to_date}")


class CostPeriodInput(Struct):
    """The costs of a product from one day to another."""

    dates: Dates
    cost_elements: Annotated[list[CostElementInput], about("What the costs are made of.", min_length=1)]

    @property
    def period(self) -> CostPeriod:
        elements = tuple(each.element for each in self.cost_elements)
        return CostPeriod(self.dates.from_date, self.dates.to_date, elements)


def read_periods(body: Mapping[str, object], query: Query) -> Periods:
    """Return the periods of a body; the first problem of each period is added to the query."""
    sent, problems = body.get("data"), 0
    if not isinstance(sent, list) or not sent:
        query.refuse("data", "must be a list of at least one cost period")
        return ()
    periods: list[CostPeriod] = []
    for position, each in enumerate(sent):
        try:
            periods.append(msgspec.convert(each, CostPeriodInput, builtin_types=(Decimal,)).period)
        except msgspec.ValidationError as error:
            path, problem = problem_of(error)
            query.refuse(f"data[{position}]{path}", problem)
            problems += 1
            if problems == _MOST_PROBLEMS:
                break
    if problems:
        return ()
    latest, *ordered = sorted(enumerate(periods), key=lambda item: (item[1].from_date, item[0]))
    for position, period in ordered:
        if period.overlaps(latest[1]):
            query.refuse(f"data[{position}].dates", f"{period} overlaps data[{latest[0]}].dates {latest[1]}")
        latest = max(latest, (position, period), key=lambda item: item[1].to_date or date.max)
    return tuple(periods)
