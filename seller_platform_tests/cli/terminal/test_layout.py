"""Tests that tables fit the width of a terminal without a value that is cut."""

import io

import pytest
from rich.cells import cell_len

from seller_platform.cli.terminal.layout import table_lines, wrapped

KEY = "A4LL303DM980YE.A1SBX4US70Q2KD"
URL = "https://shop.example/callback?with=a-long-query"
NAMES = ("dataset", "account", "rows", "reason")
ROWS = [
    ("daily_product_sales", KEY, "12,345", "rows that were stored are missing on two days of the month"),
    ("orders", "日本の店 with a long title", "1", URL),
]
HEADING = f"North Pine US ({KEY}), whose title is long"


@pytest.mark.parametrize("rows", [ROWS, [HEADING, *ROWS]], ids=["plain", "with a heading"])
@pytest.mark.parametrize("width", [8, 40, 60, 80, 120, 200])
def test_every_value_is_whole_and_lines_are_broken_at_spaces(width: int, rows: list[object]) -> None:
    lines = table_lines(NAMES, rows, width, io.StringIO(), numbers={2})  # type: ignore[arg-type]  # any rows

    assert [line for line in lines if cell_len(line) > width and " " in line.strip() and line != HEADING] == []
    words = {word for line in lines for word in line.split()}
    assert [word for row in ROWS for cell in row for word in cell.split() if word not in words] == []
    assert (HEADING in lines) is (HEADING in rows)


def test_wrapped_lines_break_at_spaces_only() -> None:
    assert wrapped("run `seller-platform sync` now", 10) == ["run", "`seller-platform", "sync` now"]
