"""Cost plans as JSON files: writes the document of a plan, and reads it."""

from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args
from uuid import UUID

import msgspec

from seller_platform.costs.plans import CostPlan, PlannedCosts, periods_document, plan_of, save_plan
from seller_platform.errors import invalid_cost_plan
from seller_platform.warehouse.postgres.database import Database

_Format = Literal["seller-platform cost plan, version 1"]


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
