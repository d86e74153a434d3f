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


def _drawn(width: int | None, rows: object = ROWS, names: tuple[str, ...] = NAMES) -> list[str]:
    return table_lines(names, rows, width, io.StringIO(), numbers={2})  # type: ignore[arg-type]  # any rows


@pytest.mark.parametrize("width", [None, 200])
def test_a_table_that_fits_has_a_line_for_each_row(width: int | None) -> None:
    head, rule, first, second = _drawn(width)

    assert head.split() == list(NAMES)
    assert set(rule) == {"─"}
    assert [line.index(text) + len(text) for line, text in ((head, "rows"), (first, "12,345"))] == [
        first.index("12,345") + 6
    ] * 2
    assert second.endswith(f"     1  {URL}")


def test_texts_of_several_words_are_wrapped_before_rows_become_blocks() -> None:
    lines = _drawn(100, [ROWS[0]])

    assert " ".join(line[60:].strip() for line in lines[2:]).split() == ROWS[0][3].split()
    assert len(lines) > 3


@pytest.mark.parametrize("rows", [ROWS, [HEADING, *ROWS]], ids=["plain", "with a heading"])
@pytest.mark.parametrize("width", [8, 40, 60, 80, 120, 200])
def test_every_value_is_whole_and_lines_are_broken_at_spaces(width: int, rows: list[object]) -> None:
    lines = _drawn(width, rows)

    assert [line for line in lines if cell_len(line) > width and " " in line.strip() and line != HEADING] == []
    words = {word for line in lines for word in line.split()}
    assert [word for row in ROWS for cell in row for word in cell.split() if word not in words] == []
    assert (HEADING in lines) is (HEADING in rows)


def test_headings_do_not_widen_a_column_and_their_rows_are_indented() -> None:
    lines = _drawn(60, [HEADING, ("orders", "de-1", "3", "–")])

    assert lines[0].split() == list(NAMES)
    assert lines[2] == HEADING
    assert lines[3].split() == ["orders", "de-1", "3", "–"]
    assert lines[3].startswith("  orders")


def test_wrapped_lines_break_at_spaces_only() -> None:
    assert wrapped("run `seller-platform sync` now", 10) == ["run", "`seller-platform", "sync` now"]
