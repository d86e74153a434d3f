"""Plans of costs to write, and for each SKU the proof of what was written.

A stored plan never changes. The outcome of each write is stored by itself, so that a process that ends in the middle
leaves behind how far it came.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import Result, func, insert, literal_column, select, table, text, update

from seller_platform.contract.cost_periods import CostPeriod, Periods
from seller_platform.errors import RequestError, SellerPlatformError
from seller_platform.warehouse.postgres.advisory_locks import releasing, try_hold
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import COST_PLANS, COST_WRITES

_TABLE_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_$]*)\.([A-Za-z_][A-Za-z0-9_$]*)")


_STORED = text("""
    SELECT slice.account, sku, min(read_at) AS read_at,
           CAST(jsonb_agg(jsonb_build_object('from_date', from_date, 'to_date', to_date,
                                             'cost_elements', coalesce(cost_elements, '[]'))) AS text) AS periods
    FROM platform.slices AS slice
    LEFT JOIN seller.cost_periods AS period ON period.account = slice.account AND local_day = newest_day
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


@dataclass(frozen=True)
class CostWrite:
    """The replacement of all cost periods of one product, as `platform.cost_writes` keeps it."""

    account: str
    sku: str
    before: Periods
    wanted: Periods
    state: WriteState = WriteState.PLANNED
    problem: str | None = None
    read_back: Periods | None = None
    read_back_at: datetime | None = None
    written_at: datetime | None = None
    written_by: str | None = None
    run_id: str | None = None

    def __str__(self) -> str:
        return f"{self.sku!r} of {self.account}"


class ChangeKind(Enum):
    """How a plan changes a period."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True)
class Change:
    """How a plan changes one period of a product; None stands for no period."""

    kind: ChangeKind
    before: CostPeriod | None
    after: CostPeriod | None

    @property
    def period(self) -> CostPeriod:
        period = self.after or self.before
        assert period is not None
        return period


def changes_of(write: CostWrite) -> tuple[Change, ...]:
    """Return how a write changes each period, in the order of their days."""
    before, after = ({period.dates: period for period in periods} for periods in (write.before, write.wanted))
    changes = []
    for dates in sorted({*before, *after}, key=lambda dates: (dates[0], dates[1] or date.max)):
        old, new = before.get(dates), after.get(dates)
        if old is None or new is None:
            changes.append(Change(ChangeKind.ADDED if old is None else ChangeKind.REMOVED, old, new))
        elif not old.agrees_with(new):
            changes.append(Change(ChangeKind.CHANGED, old, new))
    return tuple(changes)


@dataclass(frozen=True)
class CostPlan:
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
    writes: Sequence[CostWrite],
    *,
    uid: UUID,
    made_at: datetime,
    made_by: str,
    source: str,
    undo_of: int | None = None,
) -> CostPlan:
    """Store a plan and return it."""
    values = {"uid": uid, "made_at": made_at, "made_by": made_by, "source": source, "undo_of": undo_of}
    with database.begin() as connection:
        number = connection.execute(insert(COST_PLANS).values(values).returning(COST_PLANS.c.id)).scalar_one()
        rows = [
            {
                "plan": number,
                "account": write.account,
                "sku": write.sku,
                "before": periods_document(write.before),
                "wanted": periods_document(write.wanted),
                **_outcome(write),
            }
            for write in writes
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
                step="Make one with `seller-platform costs plan`, which prints its id.",
            )
        order = (func.convert_to(COST_WRITES.c[name], "UTF8") for name in ("account", "sku"))
        statement = select(COST_WRITES).where(COST_WRITES.c.plan == number).order_by(*order)
        writes = msgspec.convert(connection.execute(statement).all(), tuple[CostWrite, ...], from_attributes=True)
    return CostPlan(**plan, writes=writes)


def plan_with_uid(database: Database, uid: UUID) -> CostPlan | None:
    """Return the plan with that UUID; None where it was never stored here."""
    number = database.execute(select(COST_PLANS.c.id).where(COST_PLANS.c.uid == uid)).scalar_one_or_none()
    return None if number is None else plan_of(database, number)


def note_writes(database: Database, plan: CostPlan, writes: Sequence[CostWrite]) -> None:
    """Store the outcomes of some of a plan's writes."""
    columns = COST_WRITES.c
    with database.begin() as connection:
        for write in writes:
            key = (columns.plan == plan.id, columns.account == write.account, columns.sku == write.sku)
            connection.execute(update(COST_WRITES).where(*key).values(_outcome(write)))


def stored_costs(database: Database, accounts: Sequence[str]) -> tuple[dict[tuple[str, str], Periods], datetime | None]:
    """Return the newest stored periods by account and SKU, and when the oldest of them were read; None if never."""
    rows = database.execute(_STORED, {"accounts": accounts}).all()
    costs = {(row.account, row.sku): row.periods for row in rows if row.sku is not None}
    return (
        {product: msgspec.json.decode(periods, type=Periods) for product, periods in costs.items()},
        min((row.read_at for row in rows), default=None),
    )


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
                    step="Run `seller-platform costs apply` again when it is done.",
                )
        connection.commit()
        yield


def looks_like_a_table(name: str) -> bool:
    """Whether a text has the form `schema.table`."""
    return _TABLE_NAME.fullmatch(name) is not None


def read_table(database: Database, name: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the columns and the rows of a table or view, named with its schema.

    Raises:
        RequestError: There is none of that name.
    """
    parts = _TABLE_NAME.fullmatch(name)
    with database.begin() as connection:
        exists = parts and connection.execute(text("SELECT to_regclass(:name)"), {"name": name}).scalar_one()
        if not parts or not exists:
            raise RequestError(
                f"there is neither a file nor a table or view {name!r}",
                code="UnknownTableError",
                step="Name a CSV file, or a table of the warehouse as `schema.table`.",
            )
        source = table(parts[2].lower(), schema=parts[1].lower())
        result: Result[Any] = connection.execute(select(literal_column("*")).select_from(source))
        return tuple(result.keys()), [tuple(row) for row in result]


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


def periods_of_document(document: object) -> Periods:
    """Return the periods that `periods_document` wrote.

    Raises:
        ValueError: The document has another form.
    """
    return msgspec.convert(document, Periods)


def _outcome(write: CostWrite) -> dict[str, object]:
    return {
        "state": write.state.value,
        "problem": write.problem,
        "read_back": None if write.read_back is None else periods_document(write.read_back),
        "read_back_at": write.read_back_at,
        "written_at": write.written_at,
        "written_by": write.written_by,
        "run_id": write.run_id,
    }
