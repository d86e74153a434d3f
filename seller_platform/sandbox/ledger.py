"""The ledger: payments, fees, refunds, reimbursements, charges of the account, and payouts.

Orders outside the marketplace have no entries.
"""

from collections.abc import Callable, Sequence
from datetime import date
from itertools import repeat

import numpy as np
from numpy.random import Generator

from seller_platform.sandbox.demand import Demand
from seller_platform.sandbox.late_changes import (
    RESTATED_BASIS_POINTS,
    RESTATED_PRODUCTS,
    SETTLED_AFTER,
    days_late,
    restated_on,
)
from seller_platform.sandbox.local_days import DAY_SECONDS, LocalDay, stamps
from seller_platform.sandbox.marketplaces import Marketplace
from seller_platform.sandbox.orders import Sales, Texts
from seller_platform.sandbox.random_numbers import Flags, Ints, amounts, money, share
from seller_platform.warehouse.loads.copy_format import Row

_REFUNDED = 0.04
_QUICKEST_REFUND_DAYS, _SLOWEST_REFUND_DAYS = 3, 25
_SUBSCRIPTION_DAY, _STORAGE_DAY = 1, 7
_SUBSCRIPTION = 3_999
_STORAGE_SECOND = 4 * 3_600
_REIMBURSED = 0.25
_REIMBURSED_BASIS_POINTS = 8_000
_QUICKEST_REIMBURSEMENT_DAYS, _SLOWEST_REIMBURSEMENT_DAYS = 14, 30
_MONDAY, _WEEK = 0, 7
_LEAST_ADVERTISING, _MOST_ADVERTISING = 300, 900
_ADVERTISING_SECOND = 6 * 3_600
_PAYOUT_DAYS, _PAYOUT_DAY = 14, 3
_PAYOUT_SECOND = 9 * 3_600

LAST_ENTRY_DAYS = len(SETTLED_AFTER) + _SLOWEST_REFUND_DAYS + _SLOWEST_REIMBURSEMENT_DAYS + 1
"""How many days after an order its last entry is posted, at most."""


class Ledger:
    """The ledger entries of one account.

    Attributes:
        today: The index of the day on which the ledger is read; it ends on the day before.
        written_from: The index of the first day whose entries are returned as rows; those before are summed only.
    """

    def __init__(self, market: Marketplace, texts: Texts, remeasured: Callable[[date], Generator]) -> None:
        """Begin without entries.

        Args:
            remeasured: Returns the random numbers of the products that are measured again on a day.
        """
        self._market, self._texts, self._remeasured = market, texts, remeasured
        self._demand: Demand
        self._days: Sequence[LocalDay] = ()
        self.today = self.written_from = 0
        # Cents by day of posting. A day's sums are complete once the orders of the days before it are settled.
        self._posted: Ints = np.zeros(0, dtype=np.int64)
        self._payments: Ints = np.zeros(0, dtype=np.int64)

    def continue_until(self, today: int, demand: Demand, days: Sequence[LocalDay]) -> None:
        """Read the ledger on a later day.

        Args:
            days: The days of the account so far, also later ones than today.
        """
        self.today, self._demand, self._days = today, demand, days
        more = len(days) - len(self._posted)
        self._posted, self._payments = np.pad(self._posted, (0, more)), np.pad(self._payments, (0, more))

    def settle(self, rng: Generator, listing: Generator, sales: Sales) -> list[Row]:
        """Return the entries of shipped orders: payments, fees, refunds and reimbursements.

        The fulfilment fee is an entry for each unit, so an order of two units has two equal entries. Entries are drawn
        for all lines, and those that are not listed today are left out: random numbers do not depend on today.

        Args:
            listing: The random numbers of fees that are listed late, and of reimbursements.
        """
        paid = np.flatnonzero(sales.is_paid)
        unit_lines = np.repeat(paid, sales.quantity[paid])
        posted = sales.settled[sales.order]
        lines = paid[posted[paid] < self.today]
        charged = paid[posted[paid] + days_late(listing, len(paid)) < self.today]
        units = unit_lines[posted[unit_lines] + days_late(listing, len(unit_lines)) < self.today]
        np.add.at(self._payments, posted[lines], sales.totals[lines])
        commission = -share(sales.product_sales - sales.rebates, self._demand.commissions[sales.product])
        fulfilment = -self._restated(
            posted[units], sales.product[units], self._demand.fulfilment_fees[sales.product[units]]
        )
        seconds = sales.settled_seconds[sales.order]

        def rows(chosen: Ints, quantity: Ints, cents: Ints, kind: str, description: str) -> list[Row]:
            moments = posted[chosen], seconds[chosen]
            return self._rows(sales, chosen, moments, quantity, cents, (kind, description))

        return [
            *rows(lines, sales.quantity[lines], sales.totals[lines], "Order", "Payment for the order"),
            *rows(charged, sales.quantity[charged], commission[charged], "Fee", "Commission"),
            *rows(units, np.ones_like(units), fulfilment, "Fee", "Fulfilment"),
            *self._refunds(rng, listing, sales),
        ]

    def charges(self, rng: Generator, day_number: int) -> list[Row]:
        """Return the entries of a day that belong to no order: charges of the account, and the payout.

        Two centres with equal stock charge storage, so the ledger has two equal entries, both true. Advertising is
        charged each week, as a share of the payments of the week. Every two weeks the marketplace pays out the balance
        of the evening before. Where that is negative, it is carried over to the next payout.
        """
        day = self._days[day_number]
        charges: list[tuple[str, str, int, int]] = []
        if day.date.day == _SUBSCRIPTION_DAY:
            charges.append(("Fee", "Subscription", _SUBSCRIPTION, _STORAGE_SECOND))
        if day.date.day == _STORAGE_DAY:
            storage = int(self._demand.fulfilment_fees.sum()) // 20 + 100
            charges += [("Fee", "Storage", storage, _STORAGE_SECOND)] * 2
        if day.date.weekday() == _MONDAY:
            payments = self._payments[max(0, day_number - _WEEK) : day_number].sum()
            spent = share(payments, int(rng.integers(_LEAST_ADVERTISING, _MOST_ADVERTISING + 1)))
            charges.append(("Advertising", "Sponsored products", int(spent), _ADVERTISING_SECOND))
        if day.date.toordinal() % _PAYOUT_DAYS == _PAYOUT_DAY:
            balance = int(self._posted[:day_number].sum())
            charges.append(("Transfer", "Payout to the bank account", balance, _PAYOUT_SECOND))
        charges = [charge for charge in charges if charge[2] > 0]
        self._posted[day_number] -= sum(cents for _, _, cents, _ in charges)
        ending = (self._market.currency, self._market.domain, day.text)
        return [
            (day.stamp(second), kind, None, None, description, None, money(-cents), *ending)
            for kind, description, cents, second in charges
        ]

    def _refunds(self, rng: Generator, reimbursing: Generator, sales: Sales) -> list[Row]:
        """Return refunds of some lines, after the payment and no higher than it, and their reimbursements.

        The marketplace reimburses a part of some refunds, because the returned units were lost.
        """
        lines = np.flatnonzero(sales.is_paid)
        lines = lines[rng.random(len(lines)) < _REFUNDED]
        delay = rng.integers(_QUICKEST_REFUND_DAYS, _SLOWEST_REFUND_DAYS + 1, len(lines))
        seconds = rng.integers(0, DAY_SECONDS, len(lines))
        returned = rng.integers(1, sales.quantity[lines] + 1)
        posted = sales.settled[sales.order[lines]] + delay
        refunded = sales.totals[lines] * returned // sales.quantity[lines]
        is_lost = reimbursing.random(len(lines)) < _REIMBURSED
        waited = reimbursing.integers(_QUICKEST_REIMBURSEMENT_DAYS, _SLOWEST_REIMBURSEMENT_DAYS + 1, len(lines))
        past = posted < self.today
        lost = is_lost & (posted + waited < self.today)
        reimbursed = share(refunded, _REIMBURSED_BASIS_POINTS)

        def rows(chosen: Flags, day_numbers: Ints, cents: Ints, kind: str, description: str) -> list[Row]:
            moments = day_numbers[chosen], seconds[chosen]
            return self._rows(sales, lines[chosen], moments, returned[chosen], cents[chosen], (kind, description))

        return [
            *rows(past, posted, -refunded, "Refund", "Refund to the buyer"),
            *rows(lost, posted + waited, reimbursed, "Reimbursement", "Returned units were lost"),
        ]

    def _restated(self, posted: Ints, products: Ints, fees: Ints) -> Ints:
        """Return the fulfilment fees of units, restated where their products were measured again since."""
        restated = fees.copy()
        for day_number in np.unique(posted).tolist():
            day = self._days[day_number].date
            on = restated_on(day)
            if on is None or day_number + (on - day).days >= self.today:
                continue
            is_measured = self._remeasured(on).random(len(self._demand.popularity)) < RESTATED_PRODUCTS
            changed = (posted == day_number) & is_measured[products]
            restated[changed] = share(fees[changed], RESTATED_BASIS_POINTS)
        return restated

    def _rows(  # noqa: PLR0917  # six facts
        self, sales: Sales, lines: Ints, moments: tuple[Ints, Ints], quantity: Ints, cents: Ints, entry: tuple[str, str]
    ) -> list[Row]:
        """Sum entries of lines, and return a row for each from the day on that rows are written for.

        Args:
            moments: The index of the day and the second of each entry.
            entry: The kind of the entries, and their description.
        """
        posted, seconds = moments
        np.add.at(self._posted, posted, cents)
        written = posted >= self.written_from
        lines, day_numbers = lines[written], posted[written].tolist()
        return list(
            zip(
                stamps(self._days, day_numbers, seconds[written].tolist()),
                repeat(entry[0]),
                sales.ids[sales.order[lines]].tolist(),
                self._texts.skus[sales.product[lines]].tolist(),
                repeat(entry[1]),
                quantity[written].tolist(),
                amounts(cents[written].tolist()),
                repeat(self._market.currency),
                repeat(self._market.domain),
                [self._days[day].text for day in day_numbers],
                strict=False,
            )
        )
