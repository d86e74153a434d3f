"""The ledger: payments, fees, refunds and monthly charges of the marketplace.

Orders outside the marketplace have no entries.
"""

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

from seller_platform.sandbox.demand import Demand
from seller_platform.sandbox.local_days import DAY_SECONDS, LocalDay, stamps
from seller_platform.sandbox.marketplaces import Marketplace
from seller_platform.sandbox.orders import Sales, Texts
from seller_platform.sandbox.random_numbers import Ints, amounts, share
from seller_platform.warehouse.loads.copy_format import Row

_COMMISSION = 1_500
_REFUNDED = 0.04
_QUICKEST_REFUND_DAYS, _SLOWEST_REFUND_DAYS = 3, 25
_SUBSCRIPTION_DAY, _STORAGE_DAY = 1, 7
_SUBSCRIPTION = 3_999
_STORAGE_SECOND = 4 * 3_600


class Ledger:
    """The ledger entries of one account."""

    def __init__(self, market: Marketplace, texts: Texts, demand: Demand, days: Sequence[LocalDay]) -> None:
        self._market, self._texts, self._demand, self._days = market, texts, demand, days

    def settle(self, rng: np.random.Generator, sales: Sales) -> list[Row]:
        """Return the entries of shipped orders: payments, fees and refunds.

        The fulfilment fee is an entry for each unit, so an order of two units has two equal entries.
        """
        lines = np.flatnonzero(sales.is_sale & (sales.settled < len(self._days))[sales.order])
        posted, seconds = sales.settled[sales.order[lines]], sales.settled_seconds[sales.order[lines]]
        moments = self._moments(posted, seconds)
        quantity = sales.quantity[lines]
        commission = -share(sales.product_sales[lines] - sales.rebates[lines], _COMMISSION)
        units = np.repeat(np.arange(len(lines)), quantity)
        fulfilment = -self._demand.fulfilment_fees[sales.product[lines[units]]]
        return [
            *self._rows(
                sales, lines, moments, quantity, sales.totals[lines], kind="Order", description="Payment for the order"
            ),
            *self._rows(sales, lines, moments, quantity, commission, kind="Fee", description="Commission"),
            *self._rows(
                sales,
                lines[units],
                moments[units],
                np.ones_like(units),
                fulfilment,
                kind="Fee",
                description="Fulfilment",
            ),
            *self._refunds(rng, sales),
        ]

    def monthly(self, day_number: int) -> list[Row]:
        """Return the charges of a day that belong to no order.

        Two centres with equal stock charge storage, so the ledger has two equal entries, both true.
        """
        day = self._days[day_number]
        charges: list[tuple[str, int]] = []
        if day.date.day == _SUBSCRIPTION_DAY:
            charges.append(("Subscription", _SUBSCRIPTION))
        if day.date.day == _STORAGE_DAY:
            storage = int(self._demand.fulfilment_fees.sum()) // 20 + 100
            charges += [("Storage", storage)] * 2
        return [
            (
                day.stamp(_STORAGE_SECOND),
                "Fee",
                None,
                None,
                name,
                None,
                amounts([-cents])[0],
                self._market.currency,
                self._market.domain,
                day.text,
            )
            for name, cents in charges
        ]

    def _refunds(self, rng: np.random.Generator, sales: Sales) -> list[Row]:
        """Return refunds of some lines, after the payment and no higher than it.

        Refunds are drawn for all lines, and future ones are left out. So the random numbers that follow do not depend
        on the day on which the history ends.
        """
        lines = np.flatnonzero(sales.is_sale)
        lines = lines[rng.random(len(lines)) < _REFUNDED]
        delay = rng.integers(_QUICKEST_REFUND_DAYS, _SLOWEST_REFUND_DAYS + 1, len(lines))
        seconds = rng.integers(0, DAY_SECONDS, len(lines))
        returned = rng.integers(1, sales.quantity[lines] + 1)
        posted = sales.settled[sales.order[lines]] + delay
        is_past = posted < len(self._days)
        lines, posted, seconds, returned = lines[is_past], posted[is_past], seconds[is_past], returned[is_past]
        refunded = -(sales.totals[lines] * returned // sales.quantity[lines])
        moments = self._moments(posted, seconds)
        return self._rows(sales, lines, moments, returned, refunded, kind="Refund", description="Refund to the buyer")

    def _moments(self, posted: Ints, seconds: Ints) -> npt.NDArray[np.object_]:
        """Return timestamps and days of entries, in two columns."""
        stamped = stamps(self._days, posted.tolist(), seconds.tolist())
        days = [self._days[day].text for day in posted.tolist()]
        return np.array([stamped, days], dtype=object).T

    def _rows(
        self,
        sales: Sales,
        lines: Ints,
        moments: npt.NDArray[np.object_],
        quantity: Ints,
        cents: Ints,
        *,
        kind: str,
        description: str,
    ) -> list[Row]:
        return list(
            zip(
                moments[:, 0].tolist(),
                repeat(kind),
                sales.ids[sales.order[lines]].tolist(),
                self._texts.skus[sales.product[lines]].tolist(),
                repeat(description),
                quantity.tolist(),
                amounts(cents.tolist()),
                repeat(self._market.currency),
                repeat(self._market.domain),
                moments[:, 1].tolist(),
                strict=False,
            )
        )
