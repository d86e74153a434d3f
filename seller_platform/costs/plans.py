"""Plans of costs to write, and for each SKU the proof of what was written.

A stored plan never changes. The outcome of each write is stored by itself, so that a process that ends in the middle
leaves behind how far it came.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

import msgspec
from sqlalchemy import func, insert, select, text, update

from seller_platform.contract.cost_periods import Periods
from seller_platform.costs.tables import COST_PLANS, COST_WRITES
from seller_platform.errors import RequestError, SellerPlatformError
from seller_platform.warehouse.postgres.advisory_locks import releasing, try_hold
from seller_platform.warehouse.postgres.database import Database

_Format = Literal["seller-platform cost plan, version 1"]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]

_STORED = text("""
    SELECT slice.account, sku,
           CAST(jsonb_agg(jsonb_build_object('from_date', from_date, 'to_date', to_date,
                                             'cost_elements', coalesce(cost_elements, '[]'))) AS text) AS periods
    FROM platform.slices AS slice
    JOIN seller.cost_periods AS period ON period.account = slice.account AND local_day = newest_day
    WHERE slice.dataset = 'cost_periods' AND slice.account = ANY (:accounts) AND slice.load_id IS NOT NULL
    GROUP BY 1, 2
""")


class WriteState(Enum):
    """How far a write is.

    `planned`: nothing was written. `begun`: requests were sent; their outcome is not known. `holds`: the upstream was
    read and has the planned periods. `unconfirmed`: they were written, but the upstream did not show them in time.
    `restored`: they could not be written, and the state before is back. `lost`: neither state could be written.
    """

    PLANNED = "planned"
    BEGUN = "begun"
    HOLDS = "holds"
    UNCONFIRMED = "unconfirmed"
    RESTORED = "restored"
    LOST = "lost"


class ChangeKind(Enum):
    """How a plan changes a period."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class ChangedPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """How a plan changes a period of a product.

    Attributes:
        before: The cost of one unit by currency; null without such a period.
        after: Likewise.
    """

    change: ChangeKind
    from_date: date
    to_date: date | None
    before: dict[str, Decimal] | None
    after: dict[str, Decimal] | None


def changes_of(before: Periods, after: Periods) -> tuple[ChangedPeriod, ...]:
    """Return how each period changes, in the order of their days."""
    old, new = ({period.dates: period for period in periods} for periods in (before, after))
    changes = []
    for dates in sorted({*old, *new}, key=lambda dates: (dates[0], dates[1] or date.max)):
        was, becomes = old.get(dates), new.get(dates)
        if was is not None and becomes is not None and was.agrees_with(becomes):
            continue
        change = ChangeKind.ADDED if was is None else ChangeKind.REMOVED if becomes is None else ChangeKind.CHANGED
        amounts = {"before": was.amounts if was else None, "after": becomes.amounts if becomes else None}
        changes.append(ChangedPeriod(change=change, from_date=dates[0], to_date=dates[1], **amounts))
    return tuple(changes)


class PlannedCosts(msgspec.Struct, frozen=True):
    """The cost periods of one product when a plan is made, and those that it is to have."""

    account: str
    sku: str
    before: Periods
    wanted: Periods


class WriteOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How far the write of a product's costs is."""

    account: str
    sku: str
    state: WriteState
    problem: str | None
    read_back_at: _Moment | None
    written_at: _Moment | None
    written_by: str | None
    run_id: str | None

    def __str__(self) -> str:
        return f"{self.sku!r} of {self.account}"

    @property
    def product(self) -> tuple[str, str]:
        return (self.account, self.sku)


class CostWrite(WriteOutcome, frozen=True, kw_only=True):
    """The replacement of all cost periods of one product, as `platform.cost_writes` keeps it."""

    before: Periods
    wanted: Periods
    read_back: Periods | None

    @property
    def changes(self) -> tuple[ChangedPeriod, ...]:
        return changes_of(self.before, self.wanted)


class CostPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, as `platform.cost_plans` keeps it, with its writes by account and SKU."""

    id: int
    uid: UUID
    made_at: datetime
    made_by: str
    source: str
    undo_of: int | None
    writes: tuple[CostWrite, ...]


def save_plan(
    database: Database,
    costs: Sequence[PlannedCosts],
    *,
    uid: UUID,
    made_at: datetime,
    made_by: str,
    source: str,
    undo_of: int | None = None,
) -> CostPlan:
    """Store a plan and return it, or the stored one that has its UUID."""
    values = {"uid": uid, "made_at": made_at, "made_by": made_by, "source": source, "undo_of": undo_of}
    with database.begin() as connection:
        number = connection.execute(select(COST_PLANS.c.id).where(COST_PLANS.c.uid == uid)).scalar_one_or_none()
        if number is None:
            number = connection.execute(insert(COST_PLANS).values(values).returning(COST_PLANS.c.id)).scalar_one()
            rows = [
                {
                    "plan": number,
                    "account": each.account,
                    "sku": each.sku,
                    "before": periods_document(each.before),
                    "wanted": periods_document(each.wanted),
                    "state": WriteState.PLANNED.value,
                }
                for each in costs
            ]
            connection.execute(insert(COST_WRITES), rows)
    return plan_of(database, number)


def plan_of(database: Database, number: int) -> CostPlan:
    """Return the plan of that number, with its writes as they are now.

    Raises:
        RequestError: There is none.
    """
    with database.begin() as connection:
        plan = connection.execute(select(COST_PLANS).where(COST_PLANS.c.id == number)).mappings().one_or_none()
        if plan is None:
            raise RequestError(
                f"there is no cost plan {number}",
                code="UnknownCostPlanError",
                step="Make one with `seller-platform costs plan SHEET`, which prints its id.",
            )
        order = (func.convert_to(COST_WRITES.c[name], "UTF8") for name in ("account", "sku"))
        statement = select(COST_WRITES).where(COST_WRITES.c.plan == number).order_by(*order)
        writes = msgspec.convert(connection.execute(statement).all(), tuple[CostWrite, ...], from_attributes=True)
    return CostPlan(**plan, writes=writes)


def note_writes(database: Database, plan: CostPlan, writes: Sequence[CostWrite]) -> None:
    """Store the outcomes of some of a plan's writes."""
    columns, stored_as_is = COST_WRITES.c, ("problem", "read_back_at", "written_at", "written_by", "run_id")
    with database.begin() as connection:
        for write in writes:
            key = (columns.plan == plan.id, columns.account == write.account, columns.sku == write.sku)
            outcome = {
                "state": write.state.value,
                "read_back": write.read_back and periods_document(write.read_back),
                **{name: getattr(write, name) for name in stored_as_is},
            }
            connection.execute(update(COST_WRITES).where(*key).values(outcome))


def stored_costs(database: Database, accounts: Sequence[str]) -> dict[tuple[str, str], Periods]:
    """Return the newest stored periods by account and SKU."""
    rows = database.execute(_STORED, {"accounts": accounts}).all()
    return {(row.account, row.sku): msgspec.json.decode(row.periods, type=Periods) for row in rows if row.sku}


@contextmanager
def hold_costs(database: Database, accounts: Sequence[str]) -> Iterator[None]:
    """Let only this process write costs of these accounts, until the block or process ends.

    Raises:
        SellerPlatformError: Another process writes costs of one of them.
    """
    with database.connect() as connection, releasing(connection):
        for account in sorted(accounts):
            if not try_hold(connection, f"cost writes of {account}"):
                raise SellerPlatformError(
                    f"another process is writing costs of account {account!r}; nothing was written here",
                    code="CostWritesBusyError",
                    step="Run `seller-platform costs apply PLAN` again when it is done.",
                )
        connection.commit()
        yield


def periods_document(periods: Periods) -> list[dict[str, Any]]:
    """Return periods as JSON. Amounts are text, which no reader turns into floats."""
    documents: list[dict[str, Any]] = msgspec.to_builtins(list(periods), builtin_types=(Decimal,))
    for period in documents:
        period["cost_elements"] = [
            {
                name: format(value, "f") if isinstance(value, Decimal) else value
                for name, value in element.items()
                if value is not None
            }
            for element in period["cost_elements"]
        ]
    return documents


class _PlanFile(msgspec.Struct):
    """A cost plan as its file has it, without the number that another warehouse gave it."""

    format: _Format
    uid: UUID
    made_at: datetime
    made_by: str
    source: str
    writes: tuple[PlannedCosts, ...]


def plan_document(plan: CostPlan) -> dict[str, Any]:
    """Return a plan as the JSON document that its file holds."""
    return {
        "format": get_args(_Format)[0],
        "uid": str(plan.uid),
        "id": plan.id,
        "made_at": plan.made_at.isoformat(),
        "made_by": plan.made_by,
        "source": plan.source,
        "undo_of": plan.undo_of,
        "writes": [
            {"account": each.account, "sku": each.sku}
            | {"before": periods_document(each.before), "wanted": periods_document(each.wanted)}
            for each in plan.writes
        ],
    }


def invalid_cost_plan(plan: str, problem: str) -> RequestError:
    """Return the error of a cost plan that cannot be read, applied or undone."""
    return RequestError(
        f"cost plan {plan}: {problem}",
        code="InvalidCostPlanError",
        step="Make another with `seller-platform costs plan SHEET`.",
    )


def read_plan(database: Database, named: str) -> CostPlan:
    """Return the plan with an id, or of a file.

    The plan of a file that was made in another warehouse is stored here.

    Raises:
        RequestError: There is no such plan; or the file is none, or was edited after the plan was made.
    """
    if named.isascii() and named.isdigit() and len(named) < 19:
        return plan_of(database, int(named))
    try:
        file = msgspec.json.decode(Path(named).read_bytes(), type=_PlanFile)
    except OSError as error:
        raise invalid_cost_plan(named, f"it is neither an id nor a file: {error.strerror or error}") from error
    except msgspec.ValidationError as error:
        raise invalid_cost_plan(named, "the file is not one that `--out` wrote") from error
    except msgspec.DecodeError as error:
        raise invalid_cost_plan(named, "the file is not JSON") from error
    stored = save_plan(
        database, file.writes, uid=file.uid, made_at=file.made_at, made_by=file.made_by, source=file.source
    )
    if {PlannedCosts(*each.product, each.before, each.wanted) for each in stored.writes} != {*file.writes}:
        raise invalid_cost_plan(named, f"the file differs from plan {stored.id}, which it was written from")
    return stored
