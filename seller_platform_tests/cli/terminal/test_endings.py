"""Tests how commands that a signal ends are told from those that fail by it."""

import json
import signal

import pytest

from seller_platform.capabilities import capabilities
from seller_platform.cli import describe_end, runs_until_ended

_OF_CAPABILITIES = [words for capability in capabilities() for words in capability.endless]


@pytest.mark.parametrize("words", ["metrics", "database run", "status --watch", *_OF_CAPABILITIES])
def test_commands_that_run_until_a_signal_end_well_with_the_demo_too(words: str) -> None:
    for line in (words, f"--demo {words}", f"{words} --demo"):
        assert runs_until_ended(line.split())
        assert describe_end(line.split(), signal.SIGTERM)[1] == 0


def test_other_commands_end_with_the_number_of_the_signal() -> None:
    assert not runs_until_ended(["--demo", "status"])
    assert describe_end(["--demo", "sync"], signal.SIGINT)[1] == 130
    assert describe_end(["database", "url"], signal.SIGTERM) == (
        "ended by SIGTERM. What was stored is kept, and a change is stored whole or not at all; "
        "run the command again to go on.",
        143,
    )


def test_where_logs_are_json_the_sentence_is_a_line_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_LOG_FORMAT", "json")

    line = json.loads(describe_end(["metrics"], signal.SIGTERM)[0])

    assert line.keys() == {"time", "level", "logger", "message"}
