"""Tests that tables fit the width of a terminal without a value that is cut."""

import pytest
from rich.cells import cell_len

from seller_platform.cli.terminal.colours import Colour
from seller_platform.cli.terminal.layout import TableColumn, table_lines, wrapped

KEY = "A4LL303DM980YE.A1SBX4US70Q2KD"
COLUMNS = (
    "dataset",
    "account",
    TableColumn("rows", rank=3),
    TableColumn("verdict", rank=2),
    TableColumn("age", rank=1),
)
ROWS = [("orders", KEY, 12_345, "match", 1.25), ("transactions", "S.DE", 1, "held", None)]


def _plain(text: str, _colour: Colour | None) -> str:
    return text


def _drawn(width: int | None, columns: tuple[str | TableColumn, ...] = COLUMNS, rows: object = ROWS) -> list[str]:
    return list(table_lines(columns, rows, width, _plain))  # type: ignore[arg-type]  # any rows


def test_a_table_that_fits_has_every_column_with_numbers_to_the_right() -> None:
    lines = _drawn(80)

    assert lines[0].split() == ["dataset", "account", "rows", "verdict", "age"]
    assert lines[2].split() == ["orders", KEY, "12,345", "match", "1.2"]
    assert lines[2].index("12,345") + len("12,345") == lines[0].index("rows") + len("rows")


def test_the_columns_of_the_lowest_rank_are_left_out_first_and_named() -> None:
    lines = _drawn(59)

    assert lines[0].split() == ["dataset", "account", "rows"]
    assert " ".join(lines[-2:]) == ("Left out, because the terminal is narrow: verdict, age. --json has all columns.")


def test_texts_of_several_words_are_wrapped_before_columns_are_left_out() -> None:
    reason = "rows that were stored are missing on two days of the month"

    lines = _drawn(50, ("load", TableColumn("reason", rank=1)), [(7, reason)])

    assert lines[0].split() == ["load", "reason"]
    assert " ".join(line.strip().removeprefix("7").strip() for line in lines[2:]) == reason


@pytest.mark.parametrize("width", [40, 20, 8])
def test_a_table_that_cannot_fit_becomes_blocks_with_every_essential_value(width: int) -> None:
    url = "https://shop.example/callback?with=a-long-query"

    lines = _drawn(
        width, ("client id", "redirect URI", TableColumn("owner", rank=1)), [("abc", url, "Ann"), ("d", "e", "f")]
    )

    assert any(url in line for line in lines)
    assert "abc" in "\n".join(lines)
    assert "" in lines  # between the blocks
    assert "owner" in " ".join(lines)  # as left out


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal_unless_it_is_one_word(width: int) -> None:
    rows = [("日本の店 with a long title", "one two three four five six", 3), ("x", "seven", 4)]

    lines = _drawn(width, ("title", "words", "count"), rows)

    assert [line for line in lines if cell_len(line) > width and " " in line.strip()] == []


def test_a_pipe_has_every_column_however_long_the_lines_are() -> None:
    lines = _drawn(None, rows=[("orders", "k" * 300, 1, "match", 0.5)])

    assert any("k" * 300 in line for line in lines)
    assert "age" in lines[0]


def test_headings_are_of_any_length_and_do_not_widen_a_column() -> None:
    lines = _drawn(40, ("dataset", "rows"), ["North Pine US (" + KEY + ")", ("  orders", 3)])

    assert lines[2] == f"North Pine US ({KEY})"
    assert lines[3] == "  orders     3"


def test_wrapped_lines_break_at_spaces_only() -> None:
    assert wrapped("run `seller-platform sync` now", 10) == ["run", "`seller-platform", "sync` now"]
