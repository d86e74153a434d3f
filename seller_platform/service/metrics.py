"""Metrics of the service: requests and security events.

Labels name endpoints by the paths of their routes, so that they never hold a query, a title or a user's number. Worker
processes count in files of one folder, and the page shows the sums.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryDirectory

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import Scope

from seller_platform import interruption
from seller_platform.service.events import EventKind

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client reads it in each process: the folder of its values


@dataclass
class RequestNotes:
    """What is noted about a request for its metrics and its log line."""

    rows: int = 0
    request_id: str = ""
    security_events: list[str] = field(default_factory=list)


def notes_of(scope: Scope) -> RequestNotes:
    """Return the notes about a request; the first call creates them."""
    notes = scope.setdefault("seller_platform.noted", RequestNotes())
    assert isinstance(notes, RequestNotes)
    return notes


def endpoint_of(scope: Scope) -> str:
    """Return the path of a request's route, such as `/sales/orders`; `none` without a route."""
    return scope["route"].path if "route" in scope else "none"


def method_of(method: str) -> str:
    """Return a method of HTTP; `other` for one that is not registered."""
    return method if method in _METHODS else "other"


class Measures:
    """Counters of one process; the registry's reader sums several processes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "seller_platform_service_requests",
            "Requests by the path of their route, method and status of the answer.",
            ("endpoint", "method", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "seller_platform_service_request_seconds",
            "From a request to the last byte of its answer.",
            ("endpoint", "method"),
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
            registry=registry,
        )
        self._security_events = Counter(
            "seller_platform_service_security_events",
            "Security events of requests, by kind.",
            ("kind",),
            registry=registry,
        )
        for kind in EventKind:
            self._security_events.labels(kind.value)

    def answered(self, scope: Scope, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered; status 0 stands for one that got no answer."""
        endpoint, method_label = endpoint_of(scope), method_of(method)
        self._requests.labels(endpoint, method_label, str(status)).inc()
        self._seconds.labels(endpoint, method_label).observe(seconds)
        for kind in notes_of(scope).security_events:
            self._security_events.labels(kind).inc()


@contextmanager
def measures_of_processes(registry: CollectorRegistry) -> Iterator[None]:
    """Sum the metrics of processes that start within the block, in the registry; each counts in files of a folder.

    The folder is deleted after the block, or when the process is ended by force.
    """
    with (
        TemporaryDirectory(prefix="seller-platform-service-", ignore_cleanup_errors=True) as folder,
        interruption.ending(partial(shutil.rmtree, folder, ignore_errors=True)),
    ):
        os.environ[_FOLDER] = folder
        try:
            MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]  # the library has no types there
            yield
        finally:
            del os.environ[_FOLDER]
