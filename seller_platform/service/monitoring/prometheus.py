"""The page that Prometheus reads, on a port of its own: the API and its users never meet it.

Worker processes each count in files of their own in one folder, whose sums the page tells. What lies in PostgreSQL for
all processes together is asked for when the page is.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from seller_platform.errors import CannotListenError, WarehouseUnavailableError
from seller_platform.service.monitoring.report_counts import count_reports

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the library's own: it decides in each process where its values live


@contextmanager
def metrics_page(registry: CollectorRegistry, *, host: str, port: int, option: str) -> Iterator[str]:
    """Serve what a registry collects while the block runs, and yield where.

    Args:
        port: 0 takes a free one.
        option: The option that chooses the port, for the message.

    Raises:
        CannotListenError: The address is taken, or not ours.
    """
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise CannotListenError(host, port, error.strerror or str(error), option=option) from error
    told = f"[{host}]" if ":" in host else host
    try:
        yield f"http://{told}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def measures_of_processes(registry: CollectorRegistry) -> Iterator[None]:
    """Let the processes that start within the block count together, and the registry collect their sums."""
    with TemporaryDirectory(prefix="seller-platform-measures-") as folder:
        os.environ[_FOLDER] = folder
        try:
            registry.register(_ProcessCollector(Path(folder)))
            yield
        finally:
            del os.environ[_FOLDER]


class ReportCollector(Collector):
    """Collects how many reports there are in each state; without PostgreSQL, that it is away."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url

    def collect(self) -> Iterator[Metric]:
        try:
            found = count_reports(self._database_url)
        except WarehouseUnavailableError:
            found = None
        is_up = GaugeMetricFamily("seller_platform_service_database_up", "1 where PostgreSQL answers, else 0.")
        is_up.add_metric((), 0 if found is None else 1)
        yield is_up
        if found is None:
            return
        reports = GaugeMetricFamily("seller_platform_service_reports", "Reports by state.", labels=("state",))
        for state, count in found.states.items():
            reports.add_metric((state,), count)
        yield reports
        oldest = GaugeMetricFamily(
            "seller_platform_service_oldest_open_report_seconds", "How long the oldest report has been waited for."
        )
        oldest.add_metric((), found.oldest_open_seconds)
        yield oldest


class _ProcessCollector(Collector):
    """Collects the sums of all processes; gauges of those that died are left out, counters never fall."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sums: Collector = MultiProcessCollector(None, str(folder))  # type: ignore[no-untyped-call]  # the library has no types there

    def collect(self) -> Iterator[Metric]:
        for file in self._folder.glob("gauge_live*_*.db"):
            process_id = int(file.stem.rpartition("_")[2])
            if not _is_alive(process_id):
                mark_process_dead(process_id, str(self._folder))  # type: ignore[no-untyped-call]  # the library has no types there
        yield from self._sums.collect()


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True
