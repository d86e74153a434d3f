"""Runs commands in a terminal of a size, as a person sees them."""

import fcntl
import os
import re
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from seller_platform_tests.support.fork_server import ForkedCommand
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

_CONTROLS = re.compile(r"(\r|\n|\x1b\[[0-9;?]*[A-Za-z])")
_LINE_UP, _LINE_ERASED = "\x1b[1A", "\x1b[2K"


@dataclass(frozen=True)
class Shown:
    """What a command wrote into a terminal.

    Attributes:
        raw: Everything, with codes of colours and of the cursor.
    """

    code: int
    raw: str

    @property
    def text(self) -> str:
        """The text that is left on the screen, without colours; progress is erased."""
        lines, row, column = [""], 0, 0
        for part in _CONTROLS.split(self.raw):
            match part:
                case "\r":
                    column = 0
                case "\n":
                    row += 1
                    lines += [""] * (row == len(lines))
                case _ if part == _LINE_UP:
                    row -= 1
                case _ if part == _LINE_ERASED:
                    lines[row] = ""
                case _ if not part.startswith("\x1b"):
                    lines[row] = f"{lines[row][:column]}{part}{lines[row][column + len(part) :]}"
                    column += len(part)
        return "\n".join(lines)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def show(arguments: list[str], variables: dict[str, str], *, columns: int = 80, rows: int = 24) -> Shown:
    """Run a command in a terminal to its end, and return what it wrote."""
    with terminal(columns, rows) as (screen, device):
        of_terminal = {"TERM": "xterm-256color"}
        environment = of_terminal | {n: v for n, v in variables.items() if n not in ("COLUMNS", "LINES")}
        with ForkedCommand(arguments, environment, output=device, errors=device, folder=Path.cwd()) as command:
            device.close()
            raw = read_all(screen)
            return Shown(command.wait(PATIENCE_SECONDS), raw)


@contextmanager
def terminal(columns: int, rows: int) -> Iterator[tuple[int, IO[str]]]:
    """Open a terminal, and yield the descriptor of its screen and the file that a command writes to."""
    screen, device = os.openpty()
    fcntl.ioctl(device, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with os.fdopen(device, "w") as file:
        try:
            yield screen, file
        finally:
            os.close(screen)


def read_all(screen: int) -> str:
    """Return what is written to a terminal until its last writer has ended."""
    parts = []
    with suppress(OSError):  # EIO: the last writer has closed it
        while part := os.read(screen, 1 << 16):
            parts.append(part)
    return b"".join(parts).decode()
