"""Runs the service as a process that logs its URL and ends on a signal."""

import logging.config
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry
from uvicorn.supervisors import Multiprocess

from seller_platform.errors import CannotListenError
from seller_platform.logs import LogFormat, log_configuration
from seller_platform.service.app import DATABASE_URL, NO_WORKER, create_app
from seller_platform.service.monitoring.prometheus import ReportCollector, measures_of_processes, metrics_page
from seller_platform.service.reports.worker import Pace, run_worker

_LOG = logging.getLogger("seller_platform.service")
_READY = "listening on %s"
_GRACE_SECONDS = 10
_BACKLOG = 2048
_LEVELS = {
    "seller_platform.service": "INFO",
    "uvicorn": "WARNING",
    "procrastinate": "CRITICAL",
    "psycopg.pool": "ERROR",
}


@dataclass(frozen=True)
class MetricsAddress:
    """The address of the page for Prometheus; port 0 takes a free one."""

    host: str
    port: int


def run_service(
    database_url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8700,
    workers: int = 1,
    writes_reports: bool = True,
    metrics: MetricsAddress | None = None,
    log_format: LogFormat = "text",
) -> None:
    """Serve until SIGINT or SIGTERM; requests under way may end. The log goes to standard error.

    Args:
        port: 0 takes a free one, which the log names.
        writes_reports: Whether reports are written here; else a report worker in another process writes them.
        metrics: The address of the page for Prometheus, which sums the metrics of all workers; by default none.

    Raises:
        CannotListenError: The address is taken, or is not one of this machine.
    """
    log_config = log_configuration(log_format, _LEVELS)
    logging.config.dictConfig(log_config)
    registry = CollectorRegistry()
    with ExitStack() as stack:
        listener = stack.enter_context(_listen(host, port))
        stack.enter_context(_signals_end_quietly())
        if metrics is not None:
            if workers > 1:
                stack.enter_context(measures_of_processes(registry))
            registry.register(ReportCollector(database_url))
            page = metrics_page(registry, host=metrics.host, port=metrics.port, option="--metrics-port")
            _LOG.info("metrics on %s", stack.enter_context(page))
        address = f"[{host}]" if ":" in host else host
        url = f"http://{address}:{listener.getsockname()[1]}"
        if workers == 1:
            app = create_app(database_url, worker_pace=Pace() if writes_reports else None, registry=registry)
            _AnnouncingServer(_configuration(app, log_config), url).run([listener])
            return
        # The workers read the URL from the environment, so that it shows in no list of processes.
        os.environ[DATABASE_URL] = database_url
        os.environ[NO_WORKER] = "" if writes_reports else "1"
        factory = "seller_platform.service.app:app_from_environment"
        config = _configuration(factory, log_config, factory=True, workers=workers)
        _LOG.info(_READY, url)
        Multiprocess(config, sockets=[listener]).run()


def run_report_worker(database_url: str, *, log_format: LogFormat = "text") -> None:
    """Write reports until SIGINT or SIGTERM, with a log on standard error."""
    logging.config.dictConfig(log_configuration(log_format, _LEVELS))
    run_worker(database_url, on_ready=lambda: _LOG.info("writing reports"))


class _AnnouncingServer(uvicorn.Server):
    """A server that logs its URL once it takes requests.

    uvicorn has no event for that moment.
    """

    def __init__(self, config: uvicorn.Config, url: str) -> None:
        super().__init__(config)
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            _LOG.info(_READY, self._url)


def _configuration(app: Any, log_config: dict[str, Any], **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=log_config,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        **options,
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise CannotListenError(host, port, error.strerror or str(error)) from error
    listener.set_inheritable(True)
    return listener


@contextmanager
def _signals_end_quietly() -> Iterator[None]:
    """Ignore the signals that uvicorn raises once more after they have ended the server."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
