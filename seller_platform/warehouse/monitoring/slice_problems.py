"""What is wrong with slices: a reading is held, the rows do not add up to their total, or the last load failed."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias

from sqlalchemy import select, text

from seller_platform.contract import Dataset
from seller_platform.counts import count_of
from seller_platform.errors import NotOfferedError, ReadingHeldError, RequestsUsedUpError
from seller_platform.warehouse.loads.slices import Receipt, held_error
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import LOADS, SLICES

# These leave the stored rows right: of a held reading there is the hold itself.
_NO_FAILURES = [error.__name__ for error in (ReadingHeldError, NotOfferedError, RequestsUsedUpError)]


@dataclass(frozen=True)
class SliceProblem:
    """Why the stored rows of a slice may not be those of its list.

    Attributes:
        kind: As in `platform.problems`: held, mismatched or failed.
        was_loaded: Whether the slice was ever loaded.
    """

    kind: str
    sentence: str
    was_loaded: bool


Problems: TypeAlias = Mapping[tuple[str, str], Mapping[date | None, SliceProblem]]
"""The problems of slices by their month, by name of dataset and account."""


def slice_problems(database: Database, datasets: Collection[Dataset]) -> Problems:
    """Return the problems of slices.

    Of several problems of a slice, a held reading comes first, and a failed load last.
    """
    columns = SLICES.c
    # The condition of the index `ix_slices_troubled`.
    is_troubled = text("(error IS NOT NULL OR held_load_ids <> '{}' OR mismatched_load_ids <> '{}')")
    statement = select(SLICES).where(is_troubled, columns.dataset.in_([each.name for each in datasets]))
    problems: dict[tuple[str, str], dict[date | None, SliceProblem]] = defaultdict(dict)
    with database.begin() as connection:
        slices = connection.execute(statement).all()
        ids = [load for each in slices for load in (*each.held_load_ids, *each.mismatched_load_ids)]
        of_ids = select(LOADS).where(text("id = ANY (:ids)"))
        receipts = {row["id"]: Receipt.of(row) for row in connection.execute(of_ids, {"ids": ids}).mappings()}
    for each in slices:
        if each.held_load_ids:
            kind, sentence = "held", str(held_error(receipts[each.held_load_ids[-1]]))
        elif each.mismatched_load_ids:
            load = receipts[each.mismatched_load_ids[-1]]
            kind, sentence = "mismatched", f"{count_of(load.rows, 'row', 'was')} stored of {load.window}, "
            sentence += f"the list announced {load.announced}"
        elif each.error is not None and each.error not in _NO_FAILURES:
            kind, sentence = "failed", each.message
        else:
            continue
        of_pair = problems[each.dataset, each.account]
        of_pair[each.month] = SliceProblem(kind, sentence, each.load_id is not None)
    return problems
