"""Sentences for commands that a signal ends: what was kept, how to go on."""

import json
import os
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from seller_platform.commands import DEMO, runnable

_RUN_UNTIL_ENDED = (
    ("dev",),
    ("mcp",),
    ("metrics",),
    ("sandbox", "live"),
    ("service", "run"),
    ("service", "worker"),
    ("database", "run"),
    ("status", "--watch"),
)
"""Commands that run until a signal ends them, which is no failure."""

_READING = "Nothing was changed."
_WHOLE = "The change was stored whole or not at all"
_KEPT = {
    ("demo",): "What was loaded is kept; `seller-platform demo` goes on with it.",
    ("dev",): "What was loaded is kept for the next `seller-platform dev`.",
    ("connect",): "An approval that the upstream has confirmed is kept; `seller-platform connect` begins again.",
    ("sync",): "What was loaded is kept; `seller-platform sync` loads the rest.",
    ("costs", "plan"): "Nothing was written to the API; `seller-platform costs plan` begins again.",
    ("costs", "apply"): "What was written is recorded; `seller-platform costs apply` with the same plan goes on.",
    ("accept",): f"{_WHOLE}; `seller-platform held` lists what is still held.",
    ("revert",): f"{_WHOLE}; `seller-platform diff` shows it.",
    ("migrate",): f"{_WHOLE}; run `seller-platform migrate` again.",
    ("backup",): "No backup was written; a former file is unchanged.",
    ("restore",): "The database has all rows of the backup or none; with `--jobs`, drop it and create it again.",
    ("prune",): "What was deleted stays deleted; `seller-platform prune` goes on.",
    ("keys", "rotate"): "Every secret can be decrypted; `seller-platform keys rotate` goes on.",
    ("sandbox", "load"): "Run `seller-platform sandbox load` again; it replaces what is there.",
    ("sandbox", "live"): "What days have changed is kept; `seller-platform sandbox live --continue` goes on with it.",
    ("report",): "What was requested or stored is kept; run the command again.",
    ("marts",): "The partitions that were built are kept; run the command again.",
    ("service",): f"{_WHOLE}; the commands `list` of `seller-platform service` show it.",
    ("database",): f"{_WHOLE}; run the command again.",
}
_READING_COMMANDS = (
    ("status",),
    ("explain",),
    ("held",),
    ("diff",),
    ("verify",),
    ("mcp",),
    ("metrics",),
    ("doctor",),
    ("query",),
    ("docs",),
    ("database", "run"),
    ("database", "url"),
    ("report", "list"),
    ("keys", "generate"),
    ("service", "doctor"),
)
_KEPT_ELSE = "What was stored is kept; run the command again."


def runs_until_ended(arguments: Sequence[str]) -> bool:
    """Return whether a command runs until a signal ends it."""
    arguments = [argument for argument in arguments if argument != "--demo"]
    return any(set(words) <= set(arguments) and arguments[:1] == [words[0]] for words in _RUN_UNTIL_ENDED)


def describe_end(arguments: Sequence[str], number: int) -> tuple[str, int]:
    """Return the message and the exit code of a command that a signal ends."""
    words = tuple(argument for argument in arguments if not argument.startswith("-"))[:2]
    is_reading = words in _READING_COMMANDS or words[:1] in _READING_COMMANDS
    kept = _READING if is_reading else _KEPT.get(words) or _KEPT.get(words[:1]) or _KEPT_ELSE
    code = 0 if runs_until_ended(arguments) else 128 + number
    cause = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    # The signal may come before the command has read its options and its settings.
    with_demo, home = "--demo" in arguments or bool(os.environ.get(DEMO)), os.environ.get("SELLER_PLATFORM_HOME")
    next_step = runnable(kept, with_demo=with_demo, home=Path(home) if home else None)
    message = f"ended by {cause}. {next_step}"
    if "--json" in arguments:
        failure = {"error": "Interrupted", "message": message, "exit_code": code, "next_step": next_step}
        return json.dumps(failure), code
    if os.environ.get("SELLER_PLATFORM_LOG_FORMAT") == "json":
        # As lines of the log, without the modules that write these: a signal may come before they are imported.
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": now, "level": "INFO", "logger": "seller_platform.cli", "message": message}), code
    return message, code
