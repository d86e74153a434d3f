"""Metrics of the service: requests, security events and reports.

Labels name endpoints by the paths of their routes, so that they never hold a query, a title or a user's number. Worker
processes count in files of one folder, and the page shows the sums. Metrics of reports are queried from PostgreSQL when
the page is requested.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector
from starlette.types import Scope

from seller_platform import interruption
from seller_platform.service.events import EventKind
from seller_platform.warehouse.postgres.sessions import conninfo

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client reads it in each process: the folder of its values
_REPORTS = """
SELECT state, count(id), coalesce(extract(epoch FROM now() - min(requested_at)), 0)::float
FROM unnest(ARRAY['processing', 'completed', 'failed']) AS state LEFT JOIN service.report_jobs USING (state)
GROUP BY state ORDER BY state DESC
"""


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
    """Counters and gauges of one process; the registry's reader sums several processes."""

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
        self.under_way = Gauge(
            "seller_platform_service_requests_under_way",
            "Requests that are being answered.",
            registry=registry,
            multiprocess_mode="livesum",
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
            registry.register(_ProcessCollector(Path(folder)))
            yield
        finally:
            del os.environ[_FOLDER]


class ReportCollector(Collector):
    """Collects the number of reports by state, and whether PostgreSQL answers."""

    def __init__(self, database_url: str) -> None:
        self._conninfo = conninfo(database_url, {"statement_timeout": "5000"})

    def collect(self) -> Iterator[Metric]:
        try:
            with psycopg.connect(
                self._conninfo, connect_timeout=3, application_name="seller-platform metrics"
            ) as connection:
                reports = connection.execute(_REPORTS).fetchall()
        except psycopg.Error:
            reports = []
        yield GaugeMetricFamily(
            "seller_platform_service_database_up", "1 where PostgreSQL answers, else 0.", value=bool(reports)
        )
        if not reports:
            return
        states = GaugeMetricFamily("seller_platform_service_reports", "Reports by state.", labels=("state",))
        for state, count, _ in reports:
            states.add_metric((state,), count)
        yield states
        yield GaugeMetricFamily(
            "seller_platform_service_oldest_open_report_seconds",
            "How long the oldest report has been waited for.",
            value=reports[0][2],
        )


class _ProcessCollector(Collector):
    """Collects the sums of all processes, without gauges of those that died.

    Their counters stay, so that no sum decreases.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sums: Collector = MultiProcessCollector(None, str(folder))  # type: ignore[no-untyped-call]  # the library has no types there

    def collect(self) -> Iterator[Metric]:
        for file in self._folder.glob("gauge_live*_*.db"):
            process_id = int(file.stem.rpartition("_")[2])
            try:
                os.kill(process_id, 0)  # sends no signal, only asks whether the process exists
            except ProcessLookupError:
                mark_process_dead(process_id, str(self._folder))  # type: ignore[no-untyped-call]  # the library has no types there
        yield from self._sums.collect()
