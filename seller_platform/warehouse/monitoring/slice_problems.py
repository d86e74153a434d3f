"""What is wrong with slices: why the stored rows may not be those of the upstream."""

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
        kind: As in `platform.problems`: held, mismatched, failed, altered or postponed.
    """

    kind: str
    sentence: str


Problems: TypeAlias = Mapping[tuple[str, str], Mapping[date | None, SliceProblem]]
"""The problems of slices by their month, by name of dataset and account."""


# Of several problems of a slice, the last one counts. The rows of a postponed slice are right, if it has any.
_PROBLEMS = text("""
    SELECT dataset, account, month, kind, concat_ws(' ', message, next_step)
    FROM (
        SELECT dataset, account, month, kind, message, next_step
        FROM platform.troubled_slices WHERE kind <> 'postponed' OR NOT was_loaded
        UNION ALL
        SELECT dataset, account, month, kind, message, next_step FROM platform.noted_slices WHERE kind = 'altered'
    ) AS problem
    WHERE dataset = ANY (:datasets)
    ORDER BY array_position(ARRAY['postponed', 'altered', 'failed', 'mismatched', 'held'], kind)
""")


def slice_problems(database: Database, datasets: Collection[Dataset]) -> Problems:
    """Return the problems of slices.

    Of several problems of a slice, a held reading comes first, then rows that do not add up to their total.
    """
    problems: dict[tuple[str, str], dict[date | None, SliceProblem]] = defaultdict(dict)
    rows = database.execute(_PROBLEMS, {"datasets": [each.name for each in datasets]})
    for dataset, account, month, kind, sentence in rows:
        problems[dataset, account][month] = SliceProblem(kind, runnable(sentence))
    return problems
