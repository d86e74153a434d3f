"""Tests how commands that a signal ends are told from those that fail by it."""

import json
import signal
from pathlib import Path

import pytest

from seller_platform.cli.terminal.endings import describe_end, runs_until_ended


@pytest.mark.parametrize("words", ["dev", "metrics", "database run", "status --watch", "service run", "sandbox live"])
def test_commands_that_run_until_a_signal_end_well_with_the_demo_too(words: str) -> None:
    for line in (words, f"--demo {words}", f"{words} --demo"):
        assert runs_until_ended(line.split())
        assert describe_end(line.split(), signal.SIGTERM)[1] == 0


def test_other_commands_end_with_the_number_of_the_signal() -> None:
    assert not runs_until_ended(["--demo", "status"])
    assert describe_end(["--demo", "sync"], signal.SIGINT)[1] == 130
    assert describe_end(["database", "url"], signal.SIGTERM) == ("ended by SIGTERM. Nothing was changed.", 143)


def test_what_to_run_next_has_the_demo_if_the_command_had_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "`seller-platform --demo sync` loads the rest" in describe_end(["sync", "--demo"], signal.SIGINT)[0]
    assert "`seller-platform sync` loads the rest" in describe_end(["sync"], signal.SIGINT)[0]

    monkeypatch.setenv("SELLER_PLATFORM_DEMO", "1")

    assert "`seller-platform --demo sync` loads the rest" in describe_end(["sync"], signal.SIGINT)[0]


def test_what_to_run_next_names_the_home_of_a_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "command").write_text(f"SELLER_PLATFORM_HOME={tmp_path} seller-platform")
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))

    assert f"`SELLER_PLATFORM_HOME={tmp_path} seller-platform sync` loads" in describe_end(["sync"], signal.SIGINT)[0]


def test_where_logs_are_json_the_sentence_is_a_line_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_LOG_FORMAT", "json")

    line = json.loads(describe_end(["dev"], signal.SIGTERM)[0])

    assert line.keys() == {"time", "level", "logger", "message"}
