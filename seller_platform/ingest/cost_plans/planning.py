"""Cost plans: what is wanted compared with what the upstream says, reviewed, written, and read back until it holds.

A product never stays without its costs: where the new ones cannot be stored, those from before are put back. A plan
is only applied while the upstream still says what it said when the plan was made; one whose application broke off is
taken up where it ended.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from seller_platform.client.endpoints.cost_periods import (
    CostLookup,
    at_once,
    delete_periods,
    read_periods,
    write_periods,
)
from seller_platform.client.http.api import SellerApi
from seller_platform.clocks import Clock, utc_now
from seller_platform.contract.cost_periods import CostPeriod, Periods, periods_agree
from seller_platform.errors import (
    CostsNotWrittenError,
    InvalidCostPlanError,
    OpenCostPeriodError,
    OutdatedCostPlanError,
    ReauthorizationRequiredError,
    RequestRefusedError,
    RetryableError,
    SellerPlatformError,
)
from seller_platform.ingest.cost_plans.sheets import Product, Wanted
from seller_platform.warehouse.connections.accounts import KnownAccount, account_of
from seller_platform.warehouse.jobs.cost_plans import (
    CostPlan,
    CostWrite,
    WriteState,
    hold_costs,
    note_writes,
    periods_document,
    periods_of_document,
    plan_of,
    plan_with_uid,
    save_plan,
)
from seller_platform.warehouse.postgres.database import Database

WAIT_SECONDS = 120.0
"""How long the upstream may take until it says what was written."""

_FORMAT = "seller-platform cost plan, version 1"
_FIRST_PAUSE_SECONDS, _GROWTH, _LONGEST_PAUSE_SECONDS = 0.5, 1.6, 20.0

_NOT_OFFERED = (405, 501)

_UNFINISHED = {
    WriteState.PLANNED: "it was not written, because one before it failed",
    WriteState.BEGUN: "it was written, and not read back yet",
}

_LOG = logging.getLogger(__name__)

Apis = Callable[[str], SellerApi]
"""Gives the API of a connection."""


@dataclass(frozen=True)
class Patience:
    """How long, and by which clock, one waits for what was written to hold."""

    seconds: float = WAIT_SECONDS
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now: Clock = utc_now


class What(Enum):
    """What a plan does to a period."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True)
class Change:
    """What a plan does to one period of a product; None where there is no such period."""

    what: What
    before: CostPeriod | None
    after: CostPeriod | None

    @property
    def period(self) -> CostPeriod:
        found = self.after or self.before
        assert found is not None
        return found


@dataclass(frozen=True)
class Planned:
    """What came of planning.

    Attributes:
        plan: None where the upstream says already what is wanted.
        unchanged: Products that have the wanted costs already.
        unknown: Products that the upstream does not know; writing them may be refused.
    """

    plan: CostPlan | None
    unchanged: tuple[Product, ...]
    unknown: tuple[Product, ...]


@dataclass(frozen=True)
class Applied:
    """What came of applying a plan.

    Attributes:
        plan: With its writes as they ended.
        was_applied: Whether all of them had been read back before; then nothing was asked of the upstream.
        failures: The errors that ended writes, by account and SKU.
    """

    plan: CostPlan
    was_applied: bool = False
    failures: Mapping[Product, SellerPlatformError] = field(default_factory=dict)

    @property
    def problem(self) -> SellerPlatformError | None:
        """What a person must know; None where everything holds."""
        open_writes = [write for write in self.plan.writes if write.state is not WriteState.HOLDS]
        if not open_writes:
            return None
        told = {str(write): write.problem or _UNFINISHED[write.state] for write in open_writes}
        codes = [error.exit_code for error in self.failures.values()]
        return CostsNotWrittenError(self.plan.id, told, planned=len(self.plan.writes), exit_code=max(codes, default=5))


def make_plan(
    apis: Apis, database: Database, wanted: Wanted, *, source: str, made_by: str, undo_of: int | None = None
) -> Planned:
    """Compare what is wanted with what the upstream says now, and store the difference as a plan.

    Nothing is written upstream.

    Raises:
        OpenCostPeriodError: A period would have to go that the API could not put back.
        UnknownAccountError: An account is not known.
        SellerPlatformError: The upstream did not say what a product has.
    """
    now, upstream = datetime.now(UTC), _Upstream(apis, database)
    found = upstream.read(wanted)
    writes, unchanged, open_periods = [], [], []
    for (account, sku), periods in wanted.items():
        before = found[account, sku].periods
        write = CostWrite(account, sku, before, periods)
        if periods_agree(before, periods):
            unchanged.append((account, sku))
        elif any(period.to_date is None for period in before):
            open_periods.append(str(write))
        else:
            writes.append(write)
    if open_periods:
        raise OpenCostPeriodError(open_periods)
    unknown = tuple(product for product in wanted if not found[product].is_known)
    plan = None
    if writes:
        plan = save_plan(database, writes, uid=uuid4(), made_at=now, made_by=made_by, source=source, undo_of=undo_of)
    return Planned(plan, tuple(unchanged), unknown)


def plan_undo(apis: Apis, database: Database, plan: CostPlan, *, made_by: str) -> Planned:
    """Make the plan that brings back what the products of a plan had before it.

    Raises:
        InvalidCostPlanError: Nothing of the plan was written.
    """
    written = [write for write in plan.writes if write.written_at is not None]
    if not written:
        raise InvalidCostPlanError(str(plan.id), "nothing of it was written, so there is nothing to take back")
    wanted = {(write.account, write.sku): write.before for write in written}
    return make_plan(apis, database, wanted, source=f"undo of plan {plan.id}", made_by=made_by, undo_of=plan.id)


def changes_of(write: CostWrite) -> tuple[Change, ...]:
    """Return what a write does, by the days of the periods."""
    before, after = ({period.dates: period for period in periods} for periods in (write.before, write.wanted))
    changes = []
    for dates in sorted({*before, *after}, key=lambda dates: (dates[0], dates[1] or date.max)):
        old, new = before.get(dates), after.get(dates)
        if old is None or new is None:
            changes.append(Change(What.ADDED if old is None else What.REMOVED, old, new))
        elif not old.agrees_with(new):
            changes.append(Change(What.CHANGED, old, new))
    return tuple(changes)


def apply_plan(
    apis: Apis,
    database: Database,
    number: int,
    *,
    applied_by: str,
    run_id: str | None = None,
    patience: Patience = Patience(),
) -> Applied:
    """Write what a plan wants, SKU by SKU, and read it back until it holds or the time is up.

    The proof of each SKU is stored as it comes. A SKU that cannot be written gets back what it had; the others are
    written all the same, unless the upstream is away.

    Raises:
        OutdatedCostPlanError: The upstream says something else than when the plan was made. Nothing was written.
        CostWritesBusyError: Somebody else is writing costs of these accounts. Nothing was written.
        SellerPlatformError: The upstream did not say what the products have. Nothing was written.
    """
    accounts = {write.account for write in plan_of(database, number).writes}
    with hold_costs(database, sorted(accounts)):
        plan = plan_of(database, number)
        pending = [write for write in plan.writes if write.state is not WriteState.HOLDS]
        if not pending:
            return Applied(plan, was_applied=True)
        application = _Application(_Upstream(apis, database), database, plan, applied_by, run_id, patience)
        failures = application.run(pending)
        return Applied(plan_of(database, number), failures=failures)


def plan_document(plan: CostPlan) -> dict[str, Any]:
    """Return a plan as the JSON document that its file holds."""
    return {
        "format": _FORMAT,
        "uid": str(plan.uid),
        "id": plan.id,
        "made_at": plan.made_at.isoformat(),
        "made_by": plan.made_by,
        "source": plan.source,
        "undo_of": plan.undo_of,
        "writes": [
            {
                "account": write.account,
                "sku": write.sku,
                "before": periods_document(write.before),
                "wanted": periods_document(write.wanted),
            }
            for write in plan.writes
        ],
    }


def read_plan(database: Database, named: str) -> CostPlan:
    """Return the plan that an id or the path of its file names; one made in another warehouse is stored here.

    Raises:
        UnknownCostPlanError: There is no plan of that id.
        InvalidCostPlanError: The file is none of a plan, or was edited after the plan was made.
    """
    if named.isascii() and named.isdigit() and len(named) < 19:
        return plan_of(database, int(named))
    try:
        document = json.loads(Path(named).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidCostPlanError(named, f"it is neither an id nor a file: {error.strerror or error}") from error
    except ValueError as error:
        raise InvalidCostPlanError(named, "the file is not JSON") from error
    try:
        if document["format"] != _FORMAT:
            raise ValueError
        uid, made_at = UUID(document["uid"]), datetime.fromisoformat(document["made_at"])
        writes = [_write_of_document(each) for each in document["writes"]]
        made_by, source = str(document["made_by"]), str(document["source"])
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise InvalidCostPlanError(named, "the file is not one that `--out` wrote") from error
    stored = plan_with_uid(database, uid)
    if stored is None:
        return save_plan(database, writes, uid=uid, made_at=made_at, made_by=made_by, source=source)
    if plan_document(stored)["writes"] != document["writes"]:
        raise InvalidCostPlanError(named, f"the file differs from plan {stored.id}, which it was written from")
    return stored


def _write_of_document(document: Mapping[str, Any]) -> CostWrite:
    before, wanted = (periods_of_document(document[name]) for name in ("before", "wanted"))
    return CostWrite(str(document["account"]), str(document["sku"]), before, wanted)


@dataclass(frozen=True)
class _ReadPeriods:
    periods: Periods
    is_known: bool


class _Upstream:
    """The upstreams of a plan's accounts, asked and told by account and SKU."""

    def __init__(self, apis: Apis, database: Database) -> None:
        self._apis, self._database = apis, database
        self._known: dict[str, KnownAccount] = {}

    def read(self, products: Iterable[Product]) -> dict[Product, _ReadPeriods]:
        """Return what the products have now."""
        asked = list(products)
        lookups = {}
        for account in {account for account, _ in asked}:
            known = self._account(account)
            lookups[account] = CostLookup(self._apis(known.connection), known.account, date.min)

        def find(product: Product) -> _ReadPeriods:
            account, sku = product
            found = lookups[account].find(sku)
            return _ReadPeriods(read_periods(found), found.is_known)

        return dict(zip(asked, at_once(find, asked), strict=True))

    def read_one(self, write: CostWrite) -> Periods:
        """Return what a product has now."""
        product = (write.account, write.sku)
        return self.read([product])[product].periods

    def store(self, write: CostWrite, periods: Periods) -> None:
        """Have a product's periods stored."""
        known = self._account(write.account)
        write_periods(self._apis(known.connection), known.account, write.sku, periods)

    def delete(self, write: CostWrite, period: CostPeriod | None = None) -> bool:
        """Have one period of a product deleted, or all; False where nothing was."""
        known = self._account(write.account)
        return delete_periods(self._apis(known.connection), known.account, write.sku, period)

    def _account(self, key: str) -> KnownAccount:
        if key not in self._known:
            self._known[key] = account_of(self._database, key)
        return self._known[key]


@dataclass(frozen=True)
class _Application:
    """One application of a plan."""

    upstream: _Upstream
    database: Database
    plan: CostPlan
    applied_by: str
    run_id: str | None
    patience: Patience

    def run(self, pending: Sequence[CostWrite]) -> dict[Product, SellerPlatformError]:
        """Write what is pending and read it back; return the errors that ended writes."""
        found = self.upstream.read((write.account, write.sku) for write in pending)
        current = {product: each.periods for product, each in found.items()}
        self._check_is_current(pending, current)
        failures: dict[Product, SellerPlatformError] = {}
        written = []
        for write in pending:
            product = (write.account, write.sku)
            if periods_agree(current[product], write.wanted):
                self._note(self._holding(write, current[product]))
                continue
            begun = self._begun(write)
            self._note(begun)
            try:
                self._write(begun, current[product])
                written.append(begun)
            except SellerPlatformError as error:
                failures[product] = error
                if isinstance(error, RetryableError | ReauthorizationRequiredError):
                    return failures
        self._read_back(written)
        return failures

    def _check_is_current(self, pending: Sequence[CostWrite], current: Mapping[Product, Periods]) -> None:
        """Return if every product has what it had before, or what a broken-off application left of it.

        Raises:
            OutdatedCostPlanError: Somebody has changed one since.
        """
        changed = [str(write) for write in pending if not _is_current(write, current[write.account, write.sku])]
        if changed:
            raise OutdatedCostPlanError(self.plan.id, changed)

    def _write(self, write: CostWrite, current: Periods) -> None:
        """Have the upstream store what is wanted in place of what it has; if it does not, put back what was before.

        Periods that are to go are deleted first, for an upstream may refuse one that overlaps them; the full set
        follows, for another upstream may replace all periods by what it is sent.
        """
        deleted = False
        try:
            if not write.wanted:
                self.upstream.delete(write)
                return
            kept = {period.dates for period in write.wanted}
            for period in current:
                if period.dates not in kept:
                    deleted |= self._delete_if_offered(write, period)
            self.upstream.store(write, write.wanted)
        except SellerPlatformError as error:
            was_refused = isinstance(error, RequestRefusedError | ReauthorizationRequiredError)
            untouched = was_refused and not deleted and periods_agree(current, write.before)
            self._note(self._recovered(write, error, untouched=untouched))
            raise

    def _delete_if_offered(self, write: CostWrite, period: CostPeriod) -> bool:
        """Have a period deleted; where the upstream has no such request, what is stored next may replace it."""
        try:
            return self.upstream.delete(write, period)
        except RequestRefusedError as error:
            if error.status not in _NOT_OFFERED:
                raise
            return False

    def _recovered(self, write: CostWrite, error: SellerPlatformError, *, untouched: bool) -> CostWrite:
        """Put back what a product had before, unless it has that still or what is wanted; return what came of it."""
        if untouched:
            problem = f"{error} (nothing was changed)"
            return replace(write, state=WriteState.RESTORED, problem=problem)
        read, because = write, "the upstream still says otherwise"
        try:
            had = {period.dates for period in write.before}
            current = self.upstream.read_one(write)
            if periods_agree(current, write.wanted):
                return self._holding(write, current)
            for period in current:
                if period.dates not in had:
                    self._delete_if_offered(write, period)
            if write.before:
                self.upstream.store(write, write.before)
            read = self._read(write, self._awaited(write, write.before))
        except SellerPlatformError as second:
            because = str(second)
        if read.read_back is not None and periods_agree(read.read_back, write.before):
            problem = f"{error} (the costs from before were put back)"
            return replace(read, state=WriteState.RESTORED, problem=problem)
        problem = (
            f"{error} (it may lack costs; those from before are kept in the plan, but could not be put back: {because})"
        )
        return replace(read, state=WriteState.LOST, problem=problem)

    def _awaited(self, write: CostWrite, expected: Periods) -> Periods:
        """Return what a product has, once that is what is expected or the time is up."""
        for _ in self._looks():
            current = self.upstream.read_one(write)
            if periods_agree(current, expected):
                break
        return current

    def _looks(self) -> Iterator[bool]:
        """Yield whenever it is time to look again, and whether that is the last time."""
        clock, pause = self.patience, _FIRST_PAUSE_SECONDS
        began = clock.monotonic()
        while (passed := clock.monotonic() - began) < clock.seconds:
            yield False
            clock.sleep(min(pause, clock.seconds - passed))
            pause = min(pause * _GROWTH, _LONGEST_PAUSE_SECONDS)
        yield True

    def _read_back(self, written: Sequence[CostWrite]) -> None:
        """Read until everything written holds or the time is up, and note what was read."""
        waiting = list(written)
        for last_look in self._looks():
            waiting = self._read_round(waiting, last_look=last_look)
            if not waiting:
                return

    def _read_round(self, waiting: Sequence[CostWrite], *, last_look: bool) -> list[CostWrite]:
        """Read once, note what holds, and return what does not; at the last look all of it is noted."""
        try:
            found = self.upstream.read((write.account, write.sku) for write in waiting)
        except RetryableError as error:
            _LOG.info("%s", error)
            problem = f"it was written, but could not be read back: {error}"
            if last_look:
                self._note(*(replace(write, state=WriteState.UNCONFIRMED, problem=problem) for write in waiting))
            return list(waiting)
        missing = []
        for write in waiting:
            current = found[write.account, write.sku].periods
            if periods_agree(current, write.wanted):
                self._note(self._holding(write, current))
            elif last_look:
                problem = f"it was written, but after {self.patience.seconds:g} s the upstream still says otherwise"
                self._note(replace(self._read(write, current), state=WriteState.UNCONFIRMED, problem=problem))
            else:
                missing.append(write)
        return missing

    def _begun(self, write: CostWrite) -> CostWrite:
        return replace(
            write,
            state=WriteState.BEGUN,
            problem=None,
            read_back=None,
            read_back_at=None,
            written_at=self.patience.now(),
            written_by=self.applied_by,
            run_id=self.run_id,
        )

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
    ours = (*write.before, *write.wanted)
    return all(any(period.agrees_with(each) for each in ours) for period in current)
