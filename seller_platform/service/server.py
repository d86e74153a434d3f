"""Runs the service as a process that logs its URL and ends on a signal."""

import logging.config
import os
import resource
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import msgspec
import uvicorn
from prometheus_client import CollectorRegistry
from uvicorn.supervisors import Multiprocess

from seller_platform import interruption
from seller_platform.errors import CannotListenError
from seller_platform.logs import LogFormat, log_configuration
from seller_platform.service.app import DATABASE_URL, OPTIONS, ServiceOptions, create_app
from seller_platform.service.http.addresses import url_host
from seller_platform.service.metrics import measures_of_processes
from seller_platform.service.reports.worker import LEVELS
from seller_platform.warehouse.monitoring.metrics_page import metrics_page

_LOG = logging.getLogger("seller_platform.service")
_READY = "listening on %s"
_IDLE_SECONDS = 60  # longer than a proxy keeps its connections: it must not send on one that ends
_OTHER_FILES = 256  # files of a process beside the connections of its clients


def run_service(
    database_url: str,
    options: ServiceOptions,
    *,
    host: str = "127.0.0.1",
    port: int = 8700,
    connections: int = 2_000,
    trusted_proxies: Sequence[str] = (),
    workers: int = 1,
    metrics: tuple[str, int] | None = None,
    log_format: LogFormat = "text",
) -> None:
    """Serve until SIGINT or SIGTERM; requests under way may end. The log goes to standard error.

    Args:
        port: 0 takes a free one, which the log names.
        trusted_proxies: Addresses and networks whose X-Forwarded-* headers are trusted.
        metrics: Host and port of the page for Prometheus, which sums the metrics of all workers; port 0 takes a free
            one. By default there is none.

    Raises:
        CannotListenError: The address is taken, or is not one of this machine.
    """
    log_config = log_configuration(log_format, LEVELS)
    registry = CollectorRegistry()
    # Raise the bound of open files, as far as the system allows; shells often set it to 1,024.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = connections + _OTHER_FILES
    allowed = allowed if hard == resource.RLIM_INFINITY else min(allowed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    bounded = partial(configuration, connections=connections, trusted_proxies=trusted_proxies, log_config=log_config)
    with ExitStack() as stack:
        listener = stack.enter_context(_listen(host, port))
        logging.config.dictConfig(log_config)
        if options.location.undefended:
            _LOG.warning("%s", options.location.undefended)
        stack.enter_context(_signals_end_quietly())
        if metrics is not None:
            if workers > 1:
                stack.enter_context(measures_of_processes(registry))
            page = metrics_page(registry, host=metrics[0], port=metrics[1], option="--metrics-port")
            _LOG.info("metrics on %s", stack.enter_context(page))
        url = f"http://{url_host(host)}:{listener.getsockname()[1]}"
        if workers == 1:
            app = create_app(database_url, options, registry=registry)
            _LOG.info(_READY, url)  # the listener has a backlog
            uvicorn.Server(bounded(app)).run([listener])
            return
        # The workers read the URL from the environment, so that it shows in no list of processes.
        os.environ[DATABASE_URL] = database_url
        os.environ[OPTIONS] = msgspec.json.encode(options).decode()
        config = bounded("seller_platform.service.app:app_from_environment", factory=True, workers=workers)
        _LOG.info(_READY, url)
        supervisor = Multiprocess(config, sockets=[listener])

        def end_workers() -> None:
            for worker in supervisor.processes:
                worker.process.kill()

        with interruption.ending(end_workers):
            supervisor.run()


def configuration(
    app: Any, *, connections: int = 2_000, trusted_proxies: Sequence[str] = (), **options: Any
) -> uvicorn.Config:
    """Return uvicorn's configuration of one process."""
    return uvicorn.Config(
        app,
        http="httptools",
        ws="none",  # a WebSocket would leave the bounds; the service has none
        limit_concurrency=connections,
        timeout_keep_alive=_IDLE_SECONDS,
        forwarded_allow_ips=list(trusted_proxies),
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,  # the command ends within two seconds
        **options,
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
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
