"""Cost periods: the costs of a product between two days, and the arithmetic of amounts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal
from operator import attrgetter

SKU, DATA, DATES = "sku", "data", "dates"
FROM_DATE, TO_DATE, COST_ELEMENTS = "from_date", "to_date", "cost_elements"
COST_ELEMENT, AMOUNT, CURRENCY, PROVIDER, NOTES = "cost_element", "amount", "currency", "provider", "notes"
TOTAL_AMOUNT, UNITS, CONVERSION_RATE = "total_amount", "units", "conversion_rate"

ELEMENT_FIELDS = frozenset({
    COST_ELEMENT, AMOUNT, CURRENCY, PROVIDER, NOTES, TOTAL_AMOUNT, UNITS, CONVERSION_RATE,
})  # fmt: skip
LARGEST_AMOUNT = Decimal(10) ** 12
MOST_DECIMALS = 10

_CENT = Decimal("0.01")
_WIDE = Context(prec=200)  # so that products and roundings of amounts within the bounds are exact


@dataclass(frozen=True)
class CostElement:
    """One part of the cost of one unit of a product.

    Attributes:
        amount: The cost of one unit, in `currency`. Where `total_amount` is given it is computed, and the upstream
            computes its own.
        total_amount: The cost of `units` units, in the currency that `conversion_rate` converts from.
        total_currency: That currency; None where it is `currency`.
    """

    cost_element: str
    amount: Decimal
    currency: str
    provider: str | None = None
    notes: str | None = None
    total_amount: Decimal | None = None
    units: Decimal | None = None
    conversion_rate: Decimal | None = None
    total_currency: str | None = None

    def agrees_with(self, other: "CostElement") -> bool:
        """Whether both are equal to the cent; an empty text equals a missing one."""
        return self._texts == other._texts and in_cents(self.amount) == in_cents(other.amount)

    @classmethod
    def read(cls, sent: Mapping[str, object]) -> "CostElement | None":
        """Return an element that an upstream sends; None where it lacks its name, its amount or its currency."""
        name, amount, currency = sent.get(COST_ELEMENT), sent.get(AMOUNT), sent.get(CURRENCY)
        if not isinstance(name, str) or not isinstance(amount, Decimal) or not isinstance(currency, str):
            return None
        provider, notes = (text if isinstance(text := sent.get(key), str) else None for key in (PROVIDER, NOTES))
        return cls(name, with_cents(amount), currency, provider, notes)

    @property
    def sent(self) -> dict[str, object]:
        """The element as it is sent, without empty fields. The upstream computes the amount from a total."""
        sent = {
            COST_ELEMENT: self.cost_element,
            PROVIDER: self.provider,
            NOTES: self.notes,
            CURRENCY: self.total_currency or self.currency,
            TOTAL_AMOUNT: self.total_amount,
            UNITS: self.units,
            CONVERSION_RATE: None if self.conversion_rate is None else format(self.conversion_rate, "f"),
            AMOUNT: self.amount if self.total_amount is None else None,
        }
        return {name: value for name, value in sent.items() if value is not None}

    @property
    def is_converted(self) -> bool:
        """Whether the amount is in the account's currency, into which the rate converts."""
        return self.conversion_rate is not None and self.conversion_rate != 1

    @property
    def _texts(self) -> tuple[str, ...]:
        return (self.cost_element, self.currency, self.provider or "", self.notes or "")


@dataclass(frozen=True)
class CostPeriod:
    """The costs of a product from one day to another, both inclusive.

    Attributes:
        to_date: None where the upstream sends no last day; such a period can be read, but not written.
    """

    from_date: date
    to_date: date | None
    cost_elements: tuple[CostElement, ...]

    def __str__(self) -> str:
        return f"{self.from_date}..{self.to_date or ''}"

    @property
    def dates(self) -> tuple[date, date | None]:
        return (self.from_date, self.to_date)

    @property
    def sent(self) -> dict[str, object]:
        """The period as it is sent."""
        dates = {FROM_DATE: str(self.from_date), TO_DATE: str(self.to_date) if self.to_date else None}
        return {DATES: dates, COST_ELEMENTS: [element.sent for element in self.cost_elements]}

    @property
    def amounts(self) -> dict[str, Decimal]:
        """The cost of one unit in all, by currency."""
        sums: dict[str, Decimal] = {}
        for element in self.cost_elements:
            sums[element.currency] = _WIDE.add(sums.get(element.currency, Decimal(0)), element.amount)
        return dict(sorted(sums.items()))

    def agrees_with(self, other: "CostPeriod") -> bool:
        """Whether both have the same days and agreeing elements."""
        if self.dates != other.dates or len(self.cost_elements) != len(other.cost_elements):
            return False
        # Upstreams send elements in any order.
        ordered = (sorted(each.cost_elements, key=attrgetter("_texts", "amount")) for each in (self, other))
        return all(element.agrees_with(twin) for element, twin in zip(*ordered, strict=True))

    def overlaps(self, other: "CostPeriod") -> bool:
        """Whether the two have a day in common."""
        return self.from_date <= (other.to_date or date.max) and other.from_date <= (self.to_date or date.max)


Periods = tuple[CostPeriod, ...]


def periods_agree(one: Periods, other: Periods) -> bool:
    """Whether two lists hold the same periods, in any order."""
    if len(one) != len(other):
        return False
    return all(period.agrees_with(twin) for period, twin in zip(in_order(one), in_order(other), strict=True))


def in_order(periods: Periods) -> Periods:
    """Return the periods in the order of their days."""
    return tuple(sorted(periods, key=lambda period: (period.from_date, period.to_date or date.max)))


def unit_amount(total_amount: Decimal, conversion_rate: Decimal, units: Decimal) -> Decimal:
    """Return the cost of one unit, rounded to the cent."""
    return in_cents(Context(prec=60).divide(_WIDE.multiply(total_amount, conversion_rate), units))


def with_cents(amount: Decimal) -> Decimal:
    """Return the same amount with two decimals, or with all that it has."""
    return amount.quantize(Decimal(1).scaleb(-max(2, decimals_of(amount))), context=_WIDE)


def in_cents(amount: Decimal) -> Decimal:
    """Return the amount rounded to the cent."""
    return amount.quantize(_CENT, ROUND_HALF_UP, _WIDE)


def decimals_of(number: Decimal) -> int:
    """Return the decimals that a finite number needs, without trailing zeros."""
    if not number:
        return 0
    digits, exponent = number.as_tuple().digits, int(number.as_tuple().exponent)
    for digit in reversed(digits):
        if digit or exponent >= 0:
            break
        exponent += 1
    return max(0, -exponent)
