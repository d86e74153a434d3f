"""Applies a cost plan: sends its writes and reads them back until they are stored.

A product never stays without its costs: where the new costs cannot be stored, the former ones are written back. A plan
is only applied while the upstream's costs are those that it was made from. An application that was interrupted
continues where it stopped.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from seller_platform.clocks import Clock, utc_now
from seller_platform.contract.cost_periods import CostPeriod, Periods, periods_agree
from seller_platform.costs.endpoints import Apis, CostUpstream
from seller_platform.costs.plans import CostPlan, CostWrite, WriteState, hold_costs, note_writes, plan_of
from seller_platform.costs.sheets import Product
from seller_platform.errors import (
    PartsFailedError,
    ReauthorizationRequiredError,
    RequestError,
    RequestRefusedError,
    RetryableError,
    SellerPlatformError,
    first_few,
)
from seller_platform.warehouse.postgres.database import Database

WAIT_SECONDS = 120.0
"""How long the upstream may take to list the costs that were written."""

_FIRST_PAUSE_SECONDS, _GROWTH, _LONGEST_PAUSE_SECONDS = 0.5, 1.6, 20.0

_UNFINISHED = {
    WriteState.PLANNED: "it was not written, because one before it failed",
    WriteState.BEGUN: "it was written, and not read back yet",
}

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """How long, and by which clock, to wait until written costs can be read back."""

    seconds: float = WAIT_SECONDS
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now: Clock = utc_now


@dataclass(frozen=True)
class Applied:
    """The result of applying a plan.

    Attributes:
        plan: The plan with the states of its writes.
        was_applied: Whether all writes had been read back before; then no request was sent.
        failures: The errors that ended writes, by account and SKU.
    """

    plan: CostPlan
    was_applied: bool = False
    failures: Mapping[Product, SellerPlatformError] = field(default_factory=dict)

    @property
    def problem(self) -> SellerPlatformError | None:
        """The error that lists the unfinished writes; None where all are read back."""
        open_writes = [write for write in self.plan.writes if write.state is not WriteState.HOLDS]
        if not open_writes:
            return None
        problems = {str(write): write.problem or _UNFINISHED[write.state] for write in open_writes}
        codes = [error.exit_code for error in self.failures.values()]
        done = f"written by cost plan {self.plan.id}, which `seller-platform costs apply {self.plan.id}` continues"
        any_done = len(open_writes) < len(self.plan.writes)
        return PartsFailedError(problems, "SKU", done, exit_code=max(codes, default=5), any_done=any_done)


def apply_plan(
    apis: Apis, database: Database, number: int, *, by: str, run_id: str | None = None, patience: Patience = Patience()
) -> Applied:
    """Write a plan's costs, SKU by SKU, and read them back until they agree.

    The proof of each SKU is stored when it is read back. A SKU that cannot be written gets its former costs back; the
    others are written nevertheless, unless the upstream does not answer.

    Raises:
        RequestError: The upstream's costs have changed since the plan was made. Nothing was written.
        SellerPlatformError: Another process is writing costs of these accounts. Nothing was written.
        SellerPlatformError: The products' costs could not be read. Nothing was written.
    """
    accounts = {write.account for write in plan_of(database, number).writes}
    with hold_costs(database, sorted(accounts)):
        plan = plan_of(database, number)
        pending = [write for write in plan.writes if write.state is not WriteState.HOLDS]
        if not pending:
            return Applied(plan, was_applied=True)
        application = _Application(CostUpstream(apis, database), database, plan, by, run_id, patience)
        failures = application.run(pending)
        return Applied(plan_of(database, number), failures=failures)


@dataclass(frozen=True)
class _Application:
    """One application of a plan."""

    upstream: CostUpstream
    database: Database
    plan: CostPlan
    by: str
    run_id: str | None
    patience: Patience

    def run(self, pending: Sequence[CostWrite]) -> dict[Product, SellerPlatformError]:
        """Send the pending writes, read them back until they agree or time runs out, and return the errors."""
        read = self.upstream.read(write.product for write in pending)
        current = {product: product_read.periods for product, product_read in read.items()}
        changed = [str(write) for write in pending if not _is_current(write, current[write.product])]
        if changed:
            raise RequestError(
                f"cost plan {self.plan.id}: the upstream's costs have changed since it was made, of SKU "
                f"{first_few(changed)}. Nothing was written",
                code="OutdatedCostPlanError",
                step="Run `seller-platform costs plan SHEET` again and review the difference.",
            )
        failures: dict[Product, SellerPlatformError] = {}
        written = []
        for write in pending:
            periods = current[write.product]
            if periods_agree(periods, write.wanted):
                self._note(self._holding(write, periods))
                continue
            begun = replace(
                write,
                state=WriteState.BEGUN,
                problem=None,
                read_back=None,
                read_back_at=None,
                written_at=self.patience.now(),
                written_by=self.by,
                run_id=self.run_id,
            )
            self._note(begun)
            try:
                self._write(begun, periods)
                written.append(begun)
            except SellerPlatformError as error:
                failures[write.product] = error
                if isinstance(error, RetryableError | ReauthorizationRequiredError):
                    return failures
        waiting: Sequence[CostWrite] = written
        for last_look in self._looks():
            waiting = self._read_round(waiting, last_look=last_look)
            if not waiting:
                break
        return failures

    def _write(self, write: CostWrite, current: Periods) -> None:
        """Replace a product's costs upstream; on an error, write the former ones back.

        Surplus periods are deleted first, because an upstream may refuse a period that overlaps them. The full set
        follows, because an upstream may replace all periods by those it receives.
        """
        deleted = False
        try:
            if not write.wanted:
                self.upstream.delete(write.product)
                return
            kept = {period.dates for period in write.wanted}
            for period in current:
                if period.dates not in kept:
                    deleted |= self._delete_if_offered(write, period)
            self.upstream.store(write.product, write.wanted)
        except SellerPlatformError as error:
            was_refused = isinstance(error, RequestRefusedError | ReauthorizationRequiredError)
            untouched = was_refused and not deleted and periods_agree(current, write.before)
            self._note(self._recovered(write, error, untouched=untouched))
            raise

    def _delete_if_offered(self, write: CostWrite, period: CostPeriod) -> bool:
        """Delete a period upstream. Where the upstream has no such request, the next write may replace the period."""
        try:
            return self.upstream.delete(write.product, period)
        except RequestRefusedError as error:
            if error.status not in (405, 501):
                raise
            return False

    def _recovered(self, write: CostWrite, error: SellerPlatformError, *, untouched: bool) -> CostWrite:
        """Write a product's former costs back if they are missing, and return the result.

        They are not written where the product has them or the new ones.
        """
        if untouched:
            problem = f"{error} (nothing was changed)"
            return replace(
                write, state=WriteState.PLANNED, problem=problem, written_at=None, written_by=None, run_id=None
            )
        read, because = write, "the upstream still lists other costs"
        try:
            had = {period.dates for period in write.before}
            current = self.upstream.read_one(write.product)
            if periods_agree(current, write.wanted):
                return self._holding(write, current)
            for period in current:
                if period.dates not in had:
                    self._delete_if_offered(write, period)
            if write.before:
                self.upstream.store(write.product, write.before)
            for _ in self._looks():
                current = self.upstream.read_one(write.product)
                if periods_agree(current, write.before):
                    break
            read = self._read(write, current)
        except SellerPlatformError as second:
            because = str(second)
        if read.read_back is not None and periods_agree(read.read_back, write.before):
            problem = f"{error} (the former costs were written back)"
            return replace(read, state=WriteState.RESTORED, problem=problem)
        problem = (
            f"{error} (it may lack costs; the former ones are kept in the plan, but could not be written back: "
            f"{because})"
        )
        return replace(read, state=WriteState.LOST, problem=problem)

    def _looks(self) -> Iterator[bool]:
        """Yield whenever it is time to read again, and whether that is the last time."""
        clock, pause = self.patience, _FIRST_PAUSE_SECONDS
        began = clock.monotonic()
        while (passed := clock.monotonic() - began) < clock.seconds:
            yield False
            clock.sleep(min(pause, clock.seconds - passed))
            pause = min(pause * _GROWTH, _LONGEST_PAUSE_SECONDS)
        yield True

    def _read_round(self, waiting: Sequence[CostWrite], *, last_look: bool) -> list[CostWrite]:
        """Read once, store the writes that agree, and return the others. The last round stores all writes."""
        try:
            read = self.upstream.read(write.product for write in waiting)
        except RetryableError as error:
            _LOG.info("%s", error)
            problem = f"it was written, but could not be read back: {error}"
            if last_look:
                self._note(*(replace(write, state=WriteState.UNCONFIRMED, problem=problem) for write in waiting))
            return list(waiting)
        missing = []
        for write in waiting:
            current = read[write.product].periods
            if periods_agree(current, write.wanted):
                self._note(self._holding(write, current))
            elif last_look:
                problem = f"it was written, but after {self.patience.seconds:g} s the upstream still lists other costs"
                self._note(replace(self._read(write, current), state=WriteState.UNCONFIRMED, problem=problem))
            else:
                missing.append(write)
        return missing

    def _holding(self, write: CostWrite, current: Periods) -> CostWrite:
        return replace(self._read(write, current), state=WriteState.HOLDS, problem=None)

    def _read(self, write: CostWrite, current: Periods) -> CostWrite:
        return replace(write, read_back=current, read_back_at=self.patience.now())

    def _note(self, *writes: CostWrite) -> None:
        note_writes(self.database, self.plan, writes)


def _is_current(write: CostWrite, current: Periods) -> bool:
    if periods_agree(current, write.before) or periods_agree(current, write.wanted):
        return True
    if write.state is WriteState.PLANNED:
        return False
    allowed = (*write.before, *write.wanted)
    return all(any(period.agrees_with(planned) for planned in allowed) for period in current)
