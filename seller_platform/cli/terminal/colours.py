"""Colours of states, errors and headings, where a stream shows them."""

import os
from enum import Enum
from typing import IO


class Colour(Enum):
    """A colour by its meaning; the value is its code in ECMA-48."""

    GOOD = "32"
    DOUBTFUL = "33"
    BAD = "31"
    ERROR = "1;31"
    HEADING = "1"
    FAINT = "2"


def shows_colours(stream: IO[str]) -> bool:
    """Whether to write colours to a stream: to a terminal, unless the environment says otherwise.

    NO_COLOR turns them off, FORCE_COLOR turns them on, and TERM=dumb is a terminal without colours.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(stream)


def is_terminal(stream: IO[str]) -> bool:
    """Whether a stream is a terminal whose cursor can be moved."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def coloured(text: str, colour: Colour | None, stream: IO[str]) -> str:
    """Return a text with the codes of a colour, where the stream shows colours."""
    return f"\x1b[{colour.value}m{text}\x1b[0m" if colour and text and shows_colours(stream) else text
