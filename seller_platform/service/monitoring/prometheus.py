"""Serves metrics to Prometheus.

The page has a port of its own, which users of the API cannot reach. Worker processes count in files of one folder, and
the page shows the sums. Metrics of reports are queried from PostgreSQL when the page is requested.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from seller_platform.errors import CannotListenError, WarehouseUnavailableError
from seller_platform.service.http.addresses import url_host
from seller_platform.service.reports.jobs import COMPLETED, FAILED, PROCESSING
from seller_platform.warehouse.postgres.database import driver_url
from seller_platform.warehouse.postgres.sessions import conninfo

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client reads it in each process: the folder of its values
_CONNECT_SECONDS = 3
_COUNT = """
SELECT state, count(*), coalesce(extract(epoch FROM now() - min(requested_at)), 0)
FROM service.report_jobs GROUP BY state
"""


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
        yield f"http://{url_host(host)}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def measures_of_processes(registry: CollectorRegistry, folder: Path) -> Iterator[None]:
    """Sum the metrics of processes that start within the block, in the registry; each counts in files of the folder."""
    os.environ[_FOLDER] = str(folder)
    try:
        registry.register(_ProcessCollector(folder))
        yield
    finally:
        del os.environ[_FOLDER]


class ReportCollector(Collector):
    """Collects the number of reports by state, and whether PostgreSQL answers."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url

    def collect(self) -> Iterator[Metric]:
        try:
            reports = count_reports(self._database_url)
        except WarehouseUnavailableError:
            reports = None
        yield GaugeMetricFamily(
            "seller_platform_service_database_up", "1 where PostgreSQL answers, else 0.", value=reports is not None
        )
        if reports is None:
            return
        states = GaugeMetricFamily("seller_platform_service_reports", "Reports by state.", labels=("state",))
        for state in (PROCESSING, COMPLETED, FAILED):
            states.add_metric((state,), reports.get(state, (0, 0))[0])
        yield states
        yield GaugeMetricFamily(
            "seller_platform_service_oldest_open_report_seconds",
            "How long the oldest report has been waited for.",
            value=reports.get(PROCESSING, (0, 0))[1],
        )


def count_reports(database_url: str) -> dict[str, tuple[int, float]]:
    """Return number of reports and age of the oldest in seconds, by state.

    Raises:
        WarehouseUnavailableError: PostgreSQL did not answer in a few seconds.
    """
    url = driver_url(database_url, "psycopg")
    try:
        with psycopg.connect(
            conninfo(database_url, {"statement_timeout": "5000"}),
            connect_timeout=_CONNECT_SECONDS,
            application_name="seller-platform metrics",
        ) as connection:
            return {state: (count, float(age)) for state, count, age in connection.execute(_COUNT)}
    except psycopg.Error as error:
        raise WarehouseUnavailableError(f"{url.host}/{url.database}", str(error).partition("\n")[0]) from error


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
