"""The sentence of a command that a signal ends, and its exit code."""

import json
import os
import signal
from collections.abc import Sequence
from datetime import UTC, datetime

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

_KEPT = "What was stored is kept, and a change is stored whole or not at all; run the command again to go on."


def runs_until_ended(arguments: Sequence[str]) -> bool:
    """Return whether a command runs until a signal ends it."""
    arguments = [argument for argument in arguments if argument != "--demo"]
    return any(set(words) <= set(arguments) and arguments[:1] == [words[0]] for words in _RUN_UNTIL_ENDED)


def describe_end(arguments: Sequence[str], number: int) -> tuple[str, int]:
    """Return the message and the exit code of a command that a signal ends."""
    code = 0 if runs_until_ended(arguments) else 128 + number
    cause = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    message = f"ended by {cause}. {_KEPT}"
    if "--json" in arguments:
        failure = {"error": "Interrupted", "message": message, "exit_code": code, "next_step": _KEPT}
        return json.dumps(failure), code
    if os.environ.get("SELLER_PLATFORM_LOG_FORMAT") == "json":
        # As lines of the log, without the modules that write these: a signal may come before they are imported.
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return json.dumps({"time": now, "level": "INFO", "logger": "seller_platform.cli", "message": message}), code
    return message, code
