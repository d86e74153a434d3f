"""Tests the result of reading several lists."""

from seller_platform.client.lists.pagination import ReadResult


def test_lists_of_which_one_announces_no_total_have_none_together() -> None:
    announced, silent = ReadResult(2, 2, ("a doubt",), 1), ReadResult(3, None, ("another",))

    assert announced + silent == ReadResult(5, None, ("a doubt", "another"), 1)
    assert silent + announced == ReadResult(5, None, ("another", "a doubt"), 1)
    assert announced + announced == ReadResult(4, 4, ("a doubt", "a doubt"), 2)
