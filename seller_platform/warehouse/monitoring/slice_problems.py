"""What is wrong with slices: a reading is held, the rows do not add up to their total, or the last load failed."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias

from sqlalchemy import text

from seller_platform.commands import runnable
from seller_platform.contract import Dataset
from seller_platform.warehouse.postgres.database import Database


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


# Of several problems of a slice, the last one counts. The rows of a postponed slice are right.
_PROBLEMS = text("""
    SELECT dataset, account, month, kind, concat_ws(' ', message, next_step), was_loaded
    FROM platform.troubled_slices
    WHERE kind <> 'postponed' AND dataset = ANY (:datasets)
    ORDER BY array_position(ARRAY['failed', 'mismatched', 'held'], kind)
""")


def slice_problems(database: Database, datasets: Collection[Dataset]) -> Problems:
    """Return the problems of slices.

    Of several problems of a slice, a held reading comes first, and a failed load last.
    """
    problems: dict[tuple[str, str], dict[date | None, SliceProblem]] = defaultdict(dict)
    with database.begin() as connection:
        rows = connection.execute(_PROBLEMS, {"datasets": [each.name for each in datasets]})
        for dataset, account, month, kind, sentence, was_loaded in rows:
            problems[dataset, account][month] = SliceProblem(kind, runnable(sentence), was_loaded)
    return problems
