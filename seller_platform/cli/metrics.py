"""`seller-platform metrics`: metrics of loads, accounts and grants for Prometheus."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import click
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from seller_platform.cli.installation import Installation, open_stored_installation
from seller_platform.cli.output import Output
from seller_platform.clocks import utc_now
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.monitoring.metrics import facts, load_measures
from seller_platform.warehouse.monitoring.metrics_page import metrics_page
from seller_platform.warehouse.monitoring.problems import slice_problems

PORT = click.IntRange(0, 65_535)
"""The values of options that take a port."""

_PAIR = "dataset account"
_Sample = tuple[str | Sequence[str], float]


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=9464, show_default=True, type=PORT, help="The port to listen on.")
def metrics(*, host: str, port: int) -> None:
    """Serve the warehouse's metrics to Prometheus, until Ctrl-C.

    They are read from PostgreSQL at each request, so that several of these processes may run.
    """
    registry = CollectorRegistry()
    with open_stored_installation() as installation:
        registry.register(WarehouseCollector(installation))
        with metrics_page(registry, host=host, port=port, option="--port") as url, suppress(KeyboardInterrupt):
            Output(as_json=False).line(f"Metrics  {url}")
            threading.Event().wait()


class WarehouseCollector(Collector):
    """Collects from receipts, problems, accounts, grants and the requests of today."""

    def __init__(self, installation: Installation) -> None:
        self._database = installation.database
        self._per_day = installation.settings.requests_per_day

    def collect(self) -> Iterator[Metric]:
        measures = [((each.dataset, each.account), each) for each in load_measures(self._database)]
        for name, attribute, doc in (
            ("loads", "loads", "Loads of slices."),
            ("requests", "requests", "Requests sent by loads."),
            ("body_bytes", "body_bytes", "Bytes of the bodies that loads have read."),
            ("load_seconds", "seconds", "Seconds spent in loads."),
        ):
            samples = [(pair, getattr(each, attribute)) for pair, each in measures]
            yield _family(CounterMetricFamily, name, doc, _PAIR, samples)
        read = [(pair, each.read_at.timestamp()) for pair, each in measures if each.read_at is not None]
        yield _family(GaugeMetricFamily, "read_at_seconds", "When the last load ended (Unix).", _PAIR, read)
        listed, every = (len(accounts(self._database, with_retired=each)) for each in (False, True))
        counts = {"listed": listed, "retired": every - listed}
        yield _family(GaugeMetricFamily, "accounts", "Accounts by state.", "state", counts.items())
        known = facts(self._database, utc_now())
        issued = [(each.connection, each.issued_at.timestamp()) for each in known.grants]
        doc = "When the token pair was issued (Unix)."
        yield _family(GaugeMetricFamily, "grant_issued_at_seconds", doc, "connection", issued)
        wrong = Counter(
            (each.dataset, each.account, each.kind, each.severity, str(each.acknowledged_by is not None).lower())
            for each in slice_problems(self._database)
        )
        doc = "What is wrong, as in platform.problems."
        yield _family(GaugeMetricFamily, "problems", doc, f"{_PAIR} kind severity acknowledged", wrong.items())
        if self._per_day is not None:
            allowed = dict.fromkeys(known.requests_today, self._per_day).items()
            doc = "Requests that a connection may send in a day."
            yield _family(GaugeMetricFamily, "requests_per_day", doc, "connection", allowed)
            doc = "Requests of today (UTC), sent or reserved."
            yield _family(GaugeMetricFamily, "requests_sent_today", doc, "connection", known.requests_today.items())
        for gauge in known.evidence.gauges:
            yield _family(GaugeMetricFamily, gauge.name, gauge.doc, gauge.label, gauge.values.items())


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily], name: str, doc: str, labels: str, samples: Iterable[_Sample]
) -> Metric:
    """Return a metric with its samples, each the values of the labels and its value."""
    family = kind(f"seller_platform_{name}", doc, labels=labels.split())
    for values, value in samples:
        family.add_metric((values,) if isinstance(values, str) else values, value)
    return family
