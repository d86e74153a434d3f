"""Tests what the command line suggests for a name that is spelled wrong."""

import pytest

from seller_platform_tests.support.command_line import COMMAND_LINE, invoke


@pytest.mark.parametrize(
    ("words", "question"),
    [
        (["stauts"], "No such command 'stauts'. Did you mean 'status'?"),
        (["costs", "plam"], "No such command 'plam'. Did you mean 'plan'?"),
        (["sync", "--acount", "S1.US"], "No such option '--acount'. Did you mean '--account'?"),
    ],
)
def test_a_command_or_an_option_that_is_nearly_right_is_suggested(words: list[str], question: str) -> None:
    result = invoke(COMMAND_LINE, words)

    assert result.exit_code == 2
    assert question in result.output
