"""Logs as JSON: one object on each line of standard error, with facts about the work.

`SELLER_PLATFORM_LOG_FORMAT` chooses between JSON for programs and text for people.
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

LogFormat = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)s %(message)s"
_PLATFORM = "seller_platform"
_CONTEXT: ContextVar[Mapping[str, object]] = ContextVar("seller_platform_logs", default=MappingProxyType({}))


class JsonLines(logging.Formatter):
    """Writes a record as one JSON object: time (UTC), level, logger, message, facts and exception.

    The facts are those of `log_context` and of `facts`. Other attributes that libraries add to a record are left out:
    they have not been checked for secrets.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        from seller_platform.traces import trace_ids  # commands that log nothing need no OpenTelemetry

        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        logged = {**_CONTEXT.get(), **trace_ids(), **getattr(record, _PLATFORM, {})}
        line |= {name: value for name, value in logged.items() if value is not None and name not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


@contextmanager
def log_context(**facts: object) -> Iterator[None]:
    """Add facts to every line that is logged within the block.

    Threads that are to log them must run in its context.
    """
    token = _CONTEXT.set({**_CONTEXT.get(), **facts})
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def facts(**logged: object) -> dict[str, Any]:
    """Return the `extra` argument that adds facts to a log record."""
    return {_PLATFORM: logged}


def log_configuration(log_format: LogFormat, levels: Mapping[str, str]) -> dict[str, Any]:
    """Return a configuration for `logging.config` that writes these loggers to standard error.

    As JSON, warnings of all other loggers are written too: their plain lines could not be read by programs.

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
    """Write all logs of this process as JSON, Python's warnings included.

    Handlers of other loggers than the root stay.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.root.handlers = [handler]
    logging.getLogger(_PLATFORM).setLevel(logging.INFO)
    logging.captureWarnings(capture=True)


def are_json() -> bool:
    """Whether this process writes its logs as JSON."""
    return any(isinstance(handler.formatter, JsonLines) for handler in logging.root.handlers)
