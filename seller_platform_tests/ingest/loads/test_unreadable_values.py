"""Tests that a value that cannot be read costs one cell, and many of them the list."""

from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import ContractViolationError
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import MARCH, MovingList, day_of_order, load_orders, orders


def _load(database: Database, rows: list[dict[str, Any]], **options: Any) -> Receipt:
    return load_orders(database, MovingList(rows, channel_of=lambda row: "platform", **options))


def _with(rows: list[dict[str, Any]], count: int, **values: Any) -> list[dict[str, Any]]:
    return [row | (values if number < count else {}) for number, row in enumerate(rows)]


def _problems(database: Database) -> dict[str, tuple[str, str]]:
    rows = database.execute(text("SELECT kind, message, severity FROM platform.problems"))
    return {kind: (message, severity) for kind, message, severity in rows}


@pytest.mark.parametrize(
    ("values", "kind", "named"),
    [
        ({"order_total": "N/A", "quantity_ordered": ""}, "unreadable", 'order_total "N/A", quantity_ordered ""'),
        ({"order_total": 19.900000000000002}, "overprecise", "order_total 19.900000000000002"),
    ],
)
def test_a_cell_costs_no_row_and_is_named_until_it_is_right(
    database: Database, values: dict[str, Any], kind: str, named: str
) -> None:
    for _ in range(2):
        receipt = _load(database, _with(orders(40), 1, **values))

        assert (receipt.rows, receipt.verdict) == (40, CountVerdict.MATCH)
        message, severity = _problems(database)[kind]
        assert severity == "warning"
        assert "1 of 40 rows have" in message
        assert f"row 1 of page 1 ({named})" in message
    _load(database, orders(40))
    assert kind not in _problems(database)


@pytest.mark.parametrize(
    ("rows", "count", "is_refused"), [(3, 3, False), (40, 4, False), (39, 4, True), (40, 40, True)]
)
@pytest.mark.parametrize("page_size", [10, None])
def test_a_list_with_many_unreadable_values_is_refused(
    database: Database, rows: int, count: int, page_size: int | None, *, is_refused: bool
) -> None:
    sent = _with(orders(rows, minutes=1), count, order_total="01,99")

    if is_refused:
        problem = f'{count} of {rows} values of order_total cannot be read; the first is "01,99" in row 1 of page 1'
        with pytest.raises(ContractViolationError, match=rf"orders of de-1, {MARCH}: {problem}"):
            _load(database, sent, page_size=page_size, day_of=day_of_order)
    else:
        assert _load(database, sent, page_size=page_size, day_of=day_of_order).rows == rows
