"""The `seller-platform` command: parses arguments, joins the floors, prints.

- `connect`: authorises a connection
- `init`: writes the project file
- `sync`: loads lists and costs
- `load_plan`: what `sync` would take
- `status`: one screen of what is stored, late, held or failed
- `inspection`: commands that show stored rows, their source and their changes
- `verify`: compares stored slices with the upstream, and repairs them
- `partitions`: partitions of marts and exports, chosen and printed
- `metrics`: metrics for Prometheus
- `database`: `migrate`, `backup`, `restore`, `prune`, and the readers of the database
- `keys`: encryption keys
- `doctor`: the checks of `seller-platform doctor`
- `docs`: shows pages of documentation
- `dbt`: sources and staging views for a dbt project
- `pages`: the pages of documentation that are shipped
- `installation`: settings, warehouse and key of an installation
- `output`: tables, progress and JSON
- `terminal`: colours, the layout of tables, and progress
"""

import atexit
import gc
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from pathlib import Path

from seller_platform import interruption
from seller_platform.capabilities import capabilities

_COMMANDS = {
    "connect": ("connect", "Authorise the API's user and discover the accounts."),
    "init": ("init", "Write the project file of this folder, with every line explained."),
    "sync": ("sync", "Load the API's lists and costs into PostgreSQL."),
    "status": ("status.command", "Show on one screen what is stored, late, held or failed, with the command for each."),
    "acknowledge": (
        "inspection.acknowledge",
        "Note that a person knows a problem, so that it neither fails nor alerts.",
    ),
    "query": ("inspection.query", "Run a SELECT on the warehouse, and print its rows."),
    "explain": ("inspection.explain", "Show the source of a stored row: request, page, time and run."),
    "held": ("inspection.held", "List the readings that were not published."),
    "accept": ("inspection.held", "Publish a held reading, if it still says the same."),
    "diff": ("inspection.history", "Show the rows that came, went and changed, with sums."),
    "revert": ("inspection.history", "Make a slice what it was before a load."),
    "verify": ("verify", "Read every stored slice again, and compare it with the stored rows by value."),
    "metrics": ("metrics", "Serve the warehouse's metrics to Prometheus, until Ctrl-C."),
    "migrate": (
        "database.maintenance",
        "Migrate the database to the schema of this version, and Dagster's tables with it.",
    ),
    "backup": ("database.backups", "Write the whole database to a file."),
    "restore": ("database.backups", "Fill an empty database from a backup."),
    "prune": ("database.maintenance", "Delete old snapshots and receipts, and old events and runs of Dagster."),
    "database": (
        "database.command",
        "Reach the database from other programs, manage its readers, and delete embedded servers.",
    ),
    "doctor": ("doctor.command", "Check every prerequisite, and print the next step for each problem."),
    "docs": ("docs", "Show a page of the documentation, or list all pages."),
    "keys": ("keys", "Change the key that encrypts stored grants and client secrets."),
}
"""The module of each command of the core, and its sentence in `--help`."""

_ENDLESS = ("metrics", "database run", "status --watch")
"""Commands of the core that run until a signal ends them, which is no failure."""

_KEPT = "What was stored is kept, and a change is stored whole or not at all; run the command again to go on."


def commands() -> Mapping[str, tuple[str, str]]:
    """Return the module of each command, those of capabilities included, and its sentence in `--help`."""
    own = {name: (f"{__name__}.{module}", sentence) for name, (module, sentence) in _COMMANDS.items()}
    others = {name: each for capability in capabilities() for name, each in capability.commands.items()}
    first = {name for capability in capabilities() for name in capability.demonstrations}
    return dict(sorted((own | others).items(), key=lambda command: command[0] not in first))


def main() -> None:
    """Run the command line; an error or a signal ends it in one line and its exit code."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # a shell has closed it
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="backslashreplace")
    atexit.register(gc.freeze)  # the end of the interpreter would search all objects for cycles: a quarter of its CPU
    arguments = sys.argv[1:]
    interruption.prepare(partial(describe_end, arguments), with_ignored=runs_until_ended(arguments))
    # Not before: a signal while these are imported ends in a sentence, too.
    from seller_platform.cli.terminal.root import command_group, run

    run(command_group(commands()))


def runs_until_ended(arguments: Sequence[str]) -> bool:
    """Return whether a command runs until a signal ends it."""
    arguments = [argument for argument in arguments if argument != "--demo"]
    of_others = (words for capability in capabilities() for words in capability.endless)
    endless = (words.split() for words in (*_ENDLESS, *of_others))
    return any(set(words) <= set(arguments) and arguments[:1] == words[:1] for words in endless)


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
