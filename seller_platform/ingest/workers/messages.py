"""The messages between a process and its loading processes. They are pickled and sent through sockets."""

import logging
import pickle
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from seller_platform.errors import SellerPlatformError
from seller_platform.ingest.workers.tasks import LoadTask
from seller_platform.settings import Settings
from seller_platform.warehouse.loads.slices import Receipt


@dataclass(frozen=True)
class Opening:
    """The first message to a loading process: where it loads to, and with which settings.

    Attributes:
        names_demo: Whether the commands in messages have `--demo`.
        log_levels: The levels of loggers, by name; the root has an empty one.
    """

    settings: Settings
    database_url: str
    names_demo: bool
    log_levels: Mapping[str, int]


@dataclass(frozen=True)
class Order:
    """A task for a loading process.

    Attributes:
        number: Identifies the task in answers.
        headers: The headers that name the current span.
    """

    number: int
    task: LoadTask
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Waiting:
    """A task waits for its upstream."""

    number: int
    reason: str


@dataclass(frozen=True)
class Ended:
    """A task has ended, with a receipt, an error, or neither if there was nothing to read."""

    number: int
    receipt: Receipt | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class Logged:
    """A record that the process of the tasks is to log."""

    record: logging.LogRecord


ToWorker: TypeAlias = Opening | Order | None
"""None is the last message: no more tasks follow."""

FromWorker: TypeAlias = Waiting | Ended | Logged


def sendable(error: Exception) -> Exception:
    """Return an error that another process can raise: itself, or one with its text if it cannot be pickled.

    Its traceback is added as a note, unless it is raised on purpose.
    """
    if not isinstance(error, SellerPlatformError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  # it was pickled here
    except Exception:  # any class may refuse
        unknown = RuntimeError(f"{type(error).__name__}: {error}")
        unknown.add_note("".join(traceback.format_exception(error)))
        return unknown
    return error
