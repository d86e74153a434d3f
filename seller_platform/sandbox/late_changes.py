"""The law of late changes: which share of a day's rows still changes after how many days.

What a list shows of a day depends on the day on which it is read. A day has the age 1 on the day after it, when its
rows are listed for the first time. Four things change later, and nothing else:

- An order is pending until it is shipped or cancelled. It takes one to seven days: `SETTLED_AFTER`. A cancelled order
  leaves the daily product sales.
- A few fees are listed days after the day that they are posted on: `LATE_FEES` and `LISTED_AFTER`.
- On the third day of a month some products are measured again. The fulfilment fees of the ten days before the month are
  then restated: `RESTATED_DAYS`, `RESTATED_ON`, `RESTATED_PRODUCTS`.
- The amount of a payout follows from the entries before it, so it changes with them.

All of it ends within the lookback that the contract declares for each list.
"""

from datetime import date, timedelta

import numpy as np
from numpy.random import Generator

from seller_platform.sandbox.random_numbers import Ints, drawn

SETTLED_AFTER = (0.40, 0.30, 0.15, 0.08, 0.04, 0.02, 0.01)
"""The shares of orders that are shipped or cancelled after one day, two days, and so on."""

CANCELLED = 0.03
"""The share of orders that end as cancelled."""

LATE_FEES = 0.06
"""The share of commissions and fulfilment fees that are listed late."""

LISTED_AFTER = (0.35, 0.25, 0.15, 0.10, 0.06, 0.04, 0.03, 0.02)
"""The shares of late fees that are listed one day late, two days late, and so on."""

RESTATED_ON = 3
"""The day of a month on which fees of the month before are restated."""

RESTATED_DAYS = 10
"""How many days at the end of the month before are restated."""

RESTATED_PRODUCTS = 0.20
"""The share of products that are measured again at the end of a month."""

RESTATED_BASIS_POINTS = 11_500
"""What a restated fee is of the fee before, in basis points."""

LAST_CHANGE_DAYS = max(len(SETTLED_AFTER), len(LISTED_AFTER), RESTATED_ON + RESTATED_DAYS - 1) + 1
"""The greatest age at which a row of a day changes."""

LISTED_DAYS = 31
"""How many days the live sandbox compares with the stored ones: more than may change, and what velocity needs."""


def days_late(rng: Generator, count: int) -> Ints:
    """Return by how many days each of some fees is listed late; 0 for most."""
    is_late = rng.random(count) < LATE_FEES
    return np.where(is_late, drawn(rng, LISTED_AFTER, count), 0)


def restated_on(day: date) -> date | None:
    """Return the day on which the fulfilment fees of a day are restated; None for most days."""
    end = (day.replace(day=1) + timedelta(days=31)).replace(day=1)
    return end.replace(day=RESTATED_ON) if (end - day).days <= RESTATED_DAYS else None
