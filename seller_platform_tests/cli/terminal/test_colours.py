"""Tests where colours and progress are written."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seller_platform_tests.support.processes import environment, run
from seller_platform_tests.support.terminals import Shown, read_all, show, terminal

RED_ERROR = "\x1b[1;31merror:\x1b[0m"
_CURSOR_OFF, _CURSOR_ON = "\x1b[?25l", "\x1b[?25h"
WRONG = "postgresql://user@127.0.0.1:1/none"


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """The variables of a shell whose database is away."""
    kept = environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=WRONG)
    return {name: value for name, value in kept.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TERM")}


def test_errors_are_red_in_a_terminal_and_plain_in_a_pipe(variables: dict[str, str]) -> None:
    seen, piped = show(["status"], variables), run(["status"], variables)

    assert RED_ERROR in seen.raw
    assert seen.text.startswith("error: ")
    assert piped.stderr.startswith("error: ")


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_code_is_written_where_colours_are_not_wanted(variables: dict[str, str], setting: dict[str, str]) -> None:
    seen = show(["status"], {**variables, **setting})

    assert re.findall(r"\x1b\[[\d;]*m", seen.raw) == []
    assert "error: " in seen.raw


def test_colours_can_be_forced_into_a_pipe(variables: dict[str, str]) -> None:
    piped = run(["status"], {**variables, "FORCE_COLOR": "1"})

    assert piped.stderr.startswith(RED_ERROR)


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_step_that_takes_long_is_shown_and_erased_also_by_ctrl_c(is_interrupted: bool, tmp_path: Path) -> None:
    code = """
import logging, sys
from seller_platform import interruption
from seller_platform.cli.output import Output
interruption.prepare(lambda number: ("ended", 130), with_ignored=False)
interruption.begin()
output = Output(as_json=False)
try:
    with output.progress("Reading the orders"):
        sys.stdin.readline()
        output.line("a line")
        output.say("a long sentence, " * 9)
        logging.getLogger("loads").warning("a line of the log")
        with output.progress("Loading", 3) as show:
            show(2)
            sys.stdin.readline()
    output.line("done")
except KeyboardInterrupt:
    interruption.finish()
"""
    raw = ""
    with (
        terminal(80, 24) as (screen, device),
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**environment(tmp_path), "TERM": "xterm"},
            stdin=subprocess.PIPE,
            stdout=device,
            stderr=device,
        ) as process,
    ):
        device.close()
        assert process.stdin is not None
        for step in ("Reading the orders", "2/3"):
            while step not in raw:
                raw += os.read(screen, 1 << 16).decode()
            if is_interrupted and step == "2/3":
                process.send_signal(signal.SIGINT)
            else:
                process.stdin.write(b"\n")
                process.stdin.flush()
        raw += read_all(screen)

    lines = Shown(0, raw).lines
    assert [lines[0], *lines[-2:]] == ["a line", "a line of the log", "ended" if is_interrupted else "done"]
    assert " ".join(lines[1:-2]).split() == ["a", "long", "sentence,"] * 9
    assert raw.rindex(_CURSOR_ON) > raw.rindex(_CURSOR_OFF)
