"""Tests counts with their nouns."""

import pytest

from seller_platform.counts import count_of


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (1, ("row",), "1 row"),
        (0, ("row",), "0 rows"),
        (2_000, ("row", "was"), "2,000 rows were"),
        (1, ("row", "was"), "1 row was"),
        (3, ("more query",), "3 more queries"),
        (2, ("message", "waits"), "2 messages wait"),
        (1.0, ("hour",), "1 hour"),
        (1.5, ("hour",), "1.5 hours"),
    ],
)
def test_a_count_and_its_words_agree(count: float, words: tuple[str, ...], text: str) -> None:
    assert count_of(count, *words) == text
