"""Tests that the generated parts of the documents agree with the code."""

import inspect

import pytest
from click.testing import CliRunner

from seller_platform import errors
from seller_platform.cli import _COMMANDS
from seller_platform.cli.terminal.root import command_group
from seller_platform.errors import SellerPlatformError
from seller_platform.settings import Settings
from seller_platform_tests.documentation import ARCHITECTURE, README, found_in, sections

_README = README.read_text()


@pytest.mark.parametrize("name", sections())
def test_every_generated_part_is_what_the_code_says_now(name: str) -> None:
    text = ARCHITECTURE.read_text() if name == "tree" else _README
    assert found_in(text, name) == sections()[name](), "run `python -m seller_platform_tests.regenerate`"


def test_every_command_has_help() -> None:
    for name in _COMMANDS:
        result = CliRunner().invoke(command_group(_COMMANDS), [name, "--help"])
        assert result.exit_code == 0, result.output


def test_every_setting_is_in_the_readme() -> None:
    for field in Settings.model_fields.values():
        assert f"`{field.alias}`" in _README, field.alias


def test_every_error_says_what_it_means_and_what_to_do_next() -> None:
    for name, error in inspect.getmembers(errors, inspect.isclass):
        if issubclass(error, SellerPlatformError):
            assert error.__doc__, name
            assert error.__doc__.strip().endswith("."), name
            assert error.next_step.endswith("."), name
            # An error without subclasses needs a next step of its own, not that of its category.
            is_category = bool(error.__subclasses__())
            assert is_category or "next_step" in vars(error), name
