"""The page of metrics that Prometheus reads; it has a port of its own, which users of the API cannot reach."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server

from seller_platform.errors import CannotListenError


@contextmanager
def metrics_page(registry: CollectorRegistry, *, host: str, port: int, option: str) -> Iterator[str]:
    """Serve what a registry collects while the block runs, and yield the URL.

    Args:
        port: 0 takes a free one.
        option: The option that chooses the port, for the message.

    Raises:
        CannotListenError: The address is taken, or is not one of this machine.
    """
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise CannotListenError(host, port, error.strerror or str(error), option=option) from error
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
