"""The README says what the code does."""

import re
from pathlib import Path

from click.testing import CliRunner

from seller_platform.cli import _COMMANDS, _cli
from seller_platform.contract.tables import dataset_table
from seller_platform.settings import Settings

_README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_table_of_datasets_is_generated() -> None:
    found = re.search(r"<!-- datasets -->\n(.*?)<!-- /datasets -->", _README, re.DOTALL)

    assert found is not None
    assert found[1].strip() == dataset_table(), "put the output of contract.tables.dataset_table() there"


def test_every_command_is_in_the_readme_and_has_help() -> None:
    for name in _COMMANDS:
        assert f"`seller-platform {name}" in _README, name
        result = CliRunner().invoke(_cli, [name, "--help"])
        assert result.exit_code == 0, result.output


def test_every_setting_is_in_the_readme() -> None:
    for field in Settings.model_fields.values():
        assert f"`{field.alias}`" in _README, field.alias
