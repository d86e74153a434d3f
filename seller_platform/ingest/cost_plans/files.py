"""Cost plans as JSON files: writes the document of a plan, and reads it."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from seller_platform.errors import invalid_cost_plan
from seller_platform.warehouse.jobs.cost_plans import (
    CostPlan,
    CostWrite,
    periods_document,
    periods_of_document,
    plan_of,
    plan_with_uid,
    save_plan,
)
from seller_platform.warehouse.postgres.database import Database

_FORMAT = "seller-platform cost plan, version 1"


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
    """Return the plan with an id, or of a file.

    The plan of a file that was made in another warehouse is stored here.

    Raises:
        RequestError: There is no plan with that id.
        RequestError: The file is not a plan, or was edited after the plan was made.
    """
    if named.isascii() and named.isdigit() and len(named) < 19:
        return plan_of(database, int(named))
    try:
        document = json.loads(Path(named).read_text(encoding="utf-8"))
    except OSError as error:
        raise invalid_cost_plan(named, f"it is neither an id nor a file: {error.strerror or error}") from error
    except ValueError as error:
        raise invalid_cost_plan(named, "the file is not JSON") from error
    try:
        if document["format"] != _FORMAT:
            raise ValueError
        uid, made_at = UUID(document["uid"]), datetime.fromisoformat(document["made_at"])
        writes = [
            CostWrite(
                str(write["account"]),
                str(write["sku"]),
                periods_of_document(write["before"]),
                periods_of_document(write["wanted"]),
            )
            for write in document["writes"]
        ]
        made_by, source = str(document["made_by"]), str(document["source"])
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise invalid_cost_plan(named, "the file is not one that `--out` wrote") from error
    stored = plan_with_uid(database, uid)
    if stored is None:
        return save_plan(database, writes, uid=uid, made_at=made_at, made_by=made_by, source=source)
    if plan_document(stored)["writes"] != document["writes"]:
        raise invalid_cost_plan(named, f"the file differs from plan {stored.id}, which it was written from")
    return stored
