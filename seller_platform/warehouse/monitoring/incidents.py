"""An event of which one alert is sent, and no second."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Incident:
    """An event that is reported in one message with others of its kind.

    Attributes:
        key: What it is reported once an hour for.
        title: Of its kind, the first line of the message.
        line: What happened, to whom and when.
        step: What to do about its kind.
        command: Lists all of its kind.
    """

    key: str
    title: str
    at: datetime
    line: str
    step: str
    command: str
