"""The command line in this process, for tests that do not need a process of its own."""

from seller_platform.cli import _COMMANDS
from seller_platform.cli.terminal.root import command_group

COMMANDS = tuple(_COMMANDS)
COMMAND_LINE = command_group(_COMMANDS)
