"""Tests numbers as upstreams spell them."""

import pytest

from seller_platform.client.decoding.values import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775807", 2**63 - 1),
        (" 1,234.0 ", 1_234),
        ("1.5e3", 1_500),
    ],
)
def test_every_spelling_of_a_bigint_is_read(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("-9223372036854775809", "beyond bigint"),
        ("9223372036854775808", "beyond bigint"),
        ("2.25", "not an integer"),
        ("2.75", "not an integer"),
        ("1e131071", "beyond bigint"),
        ("1e400000", "beyond numeric"),
        ("1e-400000", "beyond numeric"),
        ("12,34", "not a number"),
        ("", "not a number"),
    ],
)
def test_what_is_no_bigint_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        whole_number(text)
