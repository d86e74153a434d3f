"""Tests that no value of a table is cut, and where tables have colours."""

import io

import pytest
from rich.cells import cell_len

from seller_platform.cli.terminal.layout import table_lines

KEY = "A4LL303DM980YE.A1SBX4US70Q2KD"
URL = "https://shop.example/callback?with=a-long-query"
NAMES = ("dataset", "account", "rows", "reason")
ROWS = [
    ("daily_product_sales", KEY, "12,345", "rows that were stored are missing on two days of the month"),
    ("orders", "日本の店 with a long title", "1", URL),
]
HEADING = f"North Pine US ({KEY}), whose title is long"


@pytest.mark.parametrize("rows", [ROWS, [HEADING, *ROWS]], ids=["plain", "with a heading"])
@pytest.mark.parametrize("width", [8, 60, 120, 200])
def test_every_word_is_whole(width: int, rows: list[tuple[str, ...] | str]) -> None:
    lines = table_lines(NAMES, rows, width, io.StringIO(), numbers={2})

    words = {word for line in lines for word in line.split()}
    assert [word for row in ROWS for cell in row for word in cell.split() if word not in words] == []
    assert (HEADING in lines) is (HEADING in rows)
    assert max(map(cell_len, lines)) <= max(width, 118)  # as wide as the longest words of all columns


@pytest.mark.parametrize("setting", ["FORCE_COLOR", "NO_COLOR"])
def test_colour_is_used_only_where_the_terminal_has_it(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(setting, "1")

    lines = table_lines(("state",), [("mismatch",)], 80, io.StringIO())

    assert ("\x1b[" in lines[0]) is (setting == "FORCE_COLOR")  # the names of the columns are bold
