"""Logs for programs: one JSON object on each line of standard error, with what is known of the work it is about.

Logs for people are as each program writes them; which of the two it is, `SELLER_PLATFORM_LOG_FORMAT` decides.
"""

import json
import logging
import logging.config
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

from seller_platform.traces import trace_ids

LogFormat = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)s %(message)s"
_PLATFORM = "seller_platform"
_CONTEXT: ContextVar[Mapping[str, object]] = ContextVar("seller_platform_logs", default=MappingProxyType({}))


class JsonLines(logging.Formatter):
    """Writes a record as one JSON object: time (UTC), level, logger, message, the facts known, and the exception.

    Facts are those of `log_context` and of `facts`. Whatever else libraries attach to a record is left out, for nobody
    has looked at it.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        told = {**_CONTEXT.get(), **trace_ids(), **getattr(record, _PLATFORM, {})}
        line |= {name: value for name, value in told.items() if value is not None and name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


@contextmanager
def log_context(**facts: object) -> Iterator[None]:
    """Let every line that is logged within the block tell these facts; threads must be started in its context."""
    token = _CONTEXT.set({**_CONTEXT.get(), **facts})
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def facts(**told: object) -> dict[str, Any]:
    """Return the `extra` of a record that tells these facts beside its message."""
    return {_PLATFORM: told}


def log_configuration(log_format: LogFormat, levels: Mapping[str, str]) -> dict[str, Any]:
    """Return a configuration, for `logging.config`, that writes what these loggers say to standard error.

    As JSON, what all other loggers warn of is written as well: a line that is not JSON is of no use to its reader.

    Args:
        levels: The level of each logger.
    """
    formatters: dict[str, Any] = {"text": {"format": _TEXT}, "json": {"()": JsonLines}}
    configuration: dict[str, Any] = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {log_format: formatters[log_format]},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": log_format}},
        "loggers": {
            name: {"handlers": ["stderr"], "level": level, "propagate": False} for name, level in levels.items()
        },
    }
    if log_format == "json":
        configuration["root"] = {"handlers": ["stderr"], "level": "WARNING"}
    return configuration


def write_json_logs() -> None:
    """Write all logs of this process as JSON, Python's warnings among them; handlers of loggers below stay."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.root.handlers = [handler]
    logging.getLogger(_PLATFORM).setLevel(logging.INFO)
    logging.captureWarnings(capture=True)


def are_json() -> bool:
    """Whether this process writes its logs as JSON."""
    return any(isinstance(handler.formatter, JsonLines) for handler in logging.root.handlers)
