"""Tests `seller-platform keys generate`."""

from cryptography.fernet import Fernet

from seller_platform.cli.keys import keys
from seller_platform_tests.support.command_line import invoke


def test_a_key_is_printed_that_fernet_takes_and_each_is_another() -> None:
    printed = [invoke(keys, ["generate"]).output.strip() for _ in range(2)]

    assert printed[0] != printed[1]
    assert all(Fernet(key) for key in printed)
