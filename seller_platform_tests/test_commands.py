"""Tests that messages name commands as they work in the shell of the reader."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seller_platform.commands import keep_start, runnable, use_start
from seller_platform.errors import NotConnectedError, RequestError


@pytest.fixture(autouse=True)
def _plain_afterwards(tmp_path: Path) -> Iterator[None]:
    yield
    use_start(tmp_path / "no home")


def test_messages_name_the_home_of_the_sandbox(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    home.mkdir()

    before = str(NotConnectedError("spring"))
    keep_start(home, [])
    after = str(NotConnectedError("spring"))

    assert "Run `seller-platform connect --connection spring`" in before
    assert f"Run `SELLER_PLATFORM_HOME='{home}' seller-platform connect --connection spring`" in after
    assert str(RequestError("gone", step="Run `seller-platform sync`.")).count("SELLER_PLATFORM_HOME") == 1
    assert runnable(after) == after


def test_variables_of_the_shell_do_not_reach_commands_of_the_sandbox(tmp_path: Path) -> None:
    keep_start(tmp_path, ["SELLER_PLATFORM_DATABASE_URL", "SELLER_API_BASE_URL"])

    assert runnable("Next: `seller-platform sync`") == (
        "Next: `env -u SELLER_API_BASE_URL -u SELLER_PLATFORM_DATABASE_URL "
        f"SELLER_PLATFORM_HOME={tmp_path} seller-platform sync`"
    )


def test_dev_and_demo_are_started_on_the_home_around_the_sandbox(tmp_path: Path) -> None:
    keep_start(tmp_path, [])

    assert runnable("Next: `seller-platform dev`, or `seller-platform demo --json`") == (
        "Next: `seller-platform dev`, or `seller-platform demo --json`"
    )
