"""Exchange rates that depend on the day only."""

import math
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal

_PER_EURO = {
    "USD": 1.09, "GBP": 0.85, "JPY": 163.0, "AUD": 1.65, "CAD": 1.48, "SEK": 11.3, "INR": 91.0, "MXN": 19.8,
    "PLN": 4.29, "SGD": 1.45, "BRL": 5.9, "CHF": 0.95, "CZK": 24.9, "DKK": 7.46, "NOK": 11.6, "CNY": 7.85,
    "TRY": 38.0, "AED": 4.0,
}  # fmt: skip
_SWING = 0.03
_WIGGLE = 0.004


def rates(first: date, last: date) -> Iterator[tuple[date, str, Decimal]]:
    """Yield day, currency and units of the currency for one euro, both days included."""
    for offset in range((last - first).days + 1):
        day = first + timedelta(days=offset)
        yield day, "EUR", Decimal(1)
        for number, (currency, middle) in enumerate(_PER_EURO.items()):
            turn = day.toordinal() + 37 * number
            wave = _SWING * math.sin(turn / 61) + _WIGGLE * math.sin(turn * 1.7)
            yield day, currency, Decimal(f"{middle * (1 + wave):.6f}")
