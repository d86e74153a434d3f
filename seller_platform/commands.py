"""How the commands in our messages start, so that they work in the shell in which a person reads them.

Messages name commands as `seller-platform ...`. Inside the sandbox of `demo` and `dev` such a command needs the folder
of the sandbox: `dev` runs its programs on it, but a person's shell does not have its variables.
"""

import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from seller_platform.files import write_atomically

PLAIN = "seller-platform"
DEMO: Final = "SELLER_PLATFORM_DEMO"
"""The variable that stands for `--demo`."""
_FILE = "command"
# These two are given the home that has the sandbox, not the sandbox.
_COMMAND = re.compile(rf"`{PLAIN} (?!(?:dev|(?:--)?demo)\b)")
_JOB = re.compile(r"(?<=\bthe job )(?=\w+_)")
_WITH_DEMO = f"{PLAIN} --demo"

_start = PLAIN


def keep_start(folder: Path, unset: Collection[str]) -> None:
    """Store in a home folder how the commands for it start, and use that in this process.

    Args:
        unset: The variables of the shell that must not reach the commands.
    """
    without = [word for name in sorted(unset) for word in ("-u", name)]
    words = [*(["env", *without] if without else []), f"SELLER_PLATFORM_HOME={shlex.quote(str(folder))}", PLAIN]
    write_atomically(folder / _FILE, " ".join(words).encode(), 0o666)
    use_start(folder)


def is_sandbox(folder: Path) -> bool:
    """Return whether a home folder is that of a sandbox, which `dev` or `demo` has made."""
    return (folder / _FILE).is_file()


def use_start(folder: Path) -> None:
    """Use the start that is stored in a home folder in all messages of this process; without one, the plain name."""
    global _start  # noqa: PLW0603  # as logging is configured: once for the process
    _start = (folder / _FILE).read_text() if is_sandbox(folder) else PLAIN


def use_demo_start() -> None:
    """Let the commands in all messages of this process have `--demo`."""
    global _start  # noqa: PLW0603  # as logging is configured: once for the process
    _start = _WITH_DEMO


def uses_demo_start() -> bool:
    """Whether the commands in messages have `--demo`."""
    return _start == _WITH_DEMO


def runnable_command(command: str) -> str:
    """Return a command, without backticks, that can be run as it is printed."""
    return runnable(f"`{command}`")[1:-1]


def runnable(text: str) -> str:
    """Return a message whose commands can be run as they are printed."""
    return text if _start == PLAIN else _COMMAND.sub(lambda _: f"`{_start} ", text)


def with_names(text: str, prefix: Sequence[str]) -> str:
    """Return a message whose jobs have the names that they have in a component with a key prefix."""
    return _JOB.sub("_".join([*prefix, ""]), text)
