"""Tests with which problem `sync` ends."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from seller_platform.cli.sync import Synced, problem_of
from seller_platform.contract import Window
from seller_platform.contract.loads import CountVerdict
from seller_platform.warehouse.loads.slices import Receipt

NOW = datetime(2026, 3, 10, tzinfo=UTC)
NULL_KEYS = {"null_keys": {"rows": 3, "first": [{"page": 1, "row": 2, "columns": ["sku"]}]}}


def _receipt(verdict: CountVerdict, notes: dict[str, Any] | None) -> Receipt:
    window = Window(date(2026, 3, 1), date(2026, 3, 3))
    return Receipt(1, "orders", "de-2", window, 1, 1, 1, 5, 4, b"", verdict, True, None, notes, None, NOW, NOW)


@pytest.mark.parametrize(
    ("verdict", "notes", "messages"),
    [
        (CountVerdict.MISMATCH, None, ["row counts do not match", "4 rows, 5 announced"]),
        (CountVerdict.MATCH, NULL_KEYS, ["no value in their key: orders of de-2, 2026-03-01..2026-03-02: 3 rows"]),
        (CountVerdict.MISMATCH, NULL_KEYS, ["row counts do not match", "no value in their key"]),
    ],
    ids=["a mismatch", "null keys", "both"],
)
def test_rows_that_cannot_be_right_end_sync_with_5(
    verdict: CountVerdict, notes: dict[str, Any] | None, messages: list[str]
) -> None:
    problem = problem_of(Synced([_receipt(verdict, notes)], {}))

    assert problem is not None
    assert problem.exit_code == 5
    for message in messages:
        assert message in str(problem)


@pytest.mark.parametrize("notes", [{"attempts": 2}, {"replaced_text": NULL_KEYS["null_keys"]}], ids=str)
def test_rows_with_their_keys_that_add_up_are_no_problem(notes: dict[str, Any]) -> None:
    assert problem_of(Synced([_receipt(CountVerdict.MATCH, notes)], {})) is None
