"""The shell of a reader who types the commands of a document."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from seller_platform_tests.support.processes import COMMAND, completed, run, started
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

PASSWORD = "seven quiet lanterns drift north"
"""What the reader types where a command asks for a password."""

_SHELL_SYNTAX = frozenset("|><;&$")
_ASKING = "seller-platform service user add"
_REGISTERED = re.compile(r"client id: +(\S+)\s+client secret: +(\S+)")


@dataclass
class Shell:
    """A shell with variables and a working directory, which both last from line to line.

    Attributes:
        values: What stands in this installation for a word of the documents, such as `LOAD`.
        application: The id and the secret of the application that a line has registered last.
        approve: Approves the access on the page of an address.
        programs: A new folder for the programs on the path.
        printed: What the last line printed.
    """

    folder: Path
    variables: dict[str, str]
    values: Mapping[str, Callable[[], str]]
    approve: Callable[[str], None]
    programs: Path
    printed: str = field(default="")
    application: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Put `seller-platform` on the path."""
        programs = self.programs
        programs.mkdir()
        program = programs / "seller-platform"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
        program.chmod(0o755)
        path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), self.variables["PATH"]))
        self.variables = {**self.variables, "PATH": path}

    def type(self, line: str) -> int:
        """Run a line, and return its exit code."""
        typed = self.spelled(line)
        words = shlex.split(typed)
        if words[0] == "export":
            self.variables.update(dict(word.split("=", 1) for word in words[1:]))
            return 0
        if words[:2] == ["seller-platform", "connect"]:
            return self._connect(words[1:])
        if words[0] == "seller-platform" and not typed.startswith(_ASKING) and not _SHELL_SYNTAX & set(typed):
            ended = run(words[1:], self.variables, folder=self.folder)
        else:
            ended = self._run_in_bash(typed)
        self.printed = ended.stdout + ended.stderr
        if registered := _REGISTERED.search(self.printed):
            self.application = (registered[1], registered[2])
        return ended.returncode

    @contextmanager
    def serving(self, line: str) -> Iterator[None]:
        """Run a service while the block runs, as a reader does in another terminal."""
        words = shlex.split(self.spelled(line))[1:]
        with started(words, self.variables, folder=self.folder) as (command, _, errors):
            wait_for(lambda: b"listening on" in os.pread(errors.fileno(), 1 << 20, 0))
            yield
            os.kill(command.pid, signal.SIGINT)
            command.wait(PATIENCE_SECONDS)

    def interrupt(self, line: str) -> int:
        """Run a command until it has printed something, end it as Ctrl-C does, and return its exit code."""
        with started(shlex.split(self.spelled(line))[1:], self.variables, folder=self.folder) as (
            command,
            output,
            errors,
        ):
            wait_for(
                lambda: os.fstat(output.fileno()).st_size or command.poll() is not None,
                explain=lambda _: _read(output, errors),
            )
            if command.poll() is None:
                os.kill(command.pid, signal.SIGINT)
            code = command.wait(PATIENCE_SECONDS)
            self.printed = _read(output, errors)
        return code

    def spelled(self, text: str) -> str:
        """Return a text of the documents with the values of this installation."""
        for word, value in self.values.items():
            if word in text:
                text = text.replace(word, value())
        return text

    def _connect(self, arguments: list[str]) -> int:
        """Run `connect`, which prints an address where there is no browser, and approve the access there."""
        variables = {**self.variables, "BROWSER": "false"}
        with started(arguments, variables, folder=self.folder) as (command, output, errors):
            first = wait_for(lambda: _read(output, errors), lambda text: "http" in text or command.poll() is not None)
            if "http" in first:
                self.approve(next(word for word in first.split() if word.startswith("http")))
            code = command.wait(PATIENCE_SECONDS)
            self.printed = _read(output, errors)
        return code

    def _run_in_bash(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line in bash, and keep its working directory for the next one."""
        kept = self.programs / "folder"
        script = f"{line}\ncode=$?; pwd >{shlex.quote(str(kept))}; exit $code"
        ended = completed(
            ["bash", "-c", script], env=self.variables, cwd=self.folder, input=f"{PASSWORD}\n", timeout=PATIENCE_SECONDS
        )
        self.folder = Path(kept.read_text().strip())
        return ended


def _read(*files: IO[str]) -> str:
    return "".join(os.pread(file.fileno(), 1 << 20, 0).decode() for file in files)
