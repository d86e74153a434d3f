"""`seller-platform metrics`: metrics of loads, accounts and grants for Prometheus."""

import threading
from collections.abc import Iterator
from contextlib import suppress

import click
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from seller_platform.cli.installation import Installation, open_stored_installation
from seller_platform.cli.output import Output
from seller_platform.cli.processes import PORT
from seller_platform.clocks import utc_now
from seller_platform.service.metrics import metrics_page
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.connections.sent_requests import requests_sent
from seller_platform.warehouse.monitoring.metrics import account_counts, load_measures
from seller_platform.warehouse.monitoring.sampling import sample

_LABELS = ("dataset", "account")


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
    """Collects from receipts, accounts, grants and the requests of today."""

    def __init__(self, installation: Installation) -> None:
        self._database, self._grants = installation.database, Grants(installation.database, installation.box)
        self._per_day = installation.settings.requests_per_day

    def collect(self) -> Iterator[Metric]:
        yield from self._loads()
        accounts = GaugeMetricFamily("seller_platform_accounts", "Accounts by state.", labels=("state",))
        for state, count in account_counts(self._database).items():
            accounts.add_metric((state,), count)
        yield accounts
        yield from self._granted()
        yield from self._budgets()
        yield from self._sampled()

    def _loads(self) -> Iterator[Metric]:
        measures = load_measures(self._database)
        counters: dict[str, tuple[str, list[float]]] = {
            "loads": ("Loads of slices.", [measure.loads for measure in measures]),
            "requests": ("Requests sent by loads.", [measure.requests for measure in measures]),
            "body_bytes": ("Bytes of the bodies that loads have read.", [measure.body_bytes for measure in measures]),
            "load_seconds": ("Seconds spent in loads.", [measure.seconds for measure in measures]),
        }
        for name, (doc, values) in counters.items():
            counter = CounterMetricFamily(f"seller_platform_{name}", doc, labels=_LABELS)
            for measure, value in zip(measures, values, strict=True):
                counter.add_metric((measure.dataset, measure.account), value)
            yield counter
        read = GaugeMetricFamily("seller_platform_read_at_seconds", "When the last load ended (Unix).", labels=_LABELS)
        windows = GaugeMetricFamily(
            "seller_platform_windows", "Slices by the verdict of their last load.", labels=(*_LABELS, "verdict")
        )
        for measure in measures:
            if measure.read_at is not None:
                read.add_metric((measure.dataset, measure.account), measure.read_at.timestamp())
            for verdict, count in measure.verdicts.items():
                windows.add_metric((measure.dataset, measure.account, verdict), count)
        yield read
        yield windows

    def _budgets(self) -> Iterator[Metric]:
        if self._per_day is None:
            return
        sent_today = requests_sent(self._database, utc_now().date())
        allowed = GaugeMetricFamily(
            "seller_platform_requests_per_day", "Requests that a connection may send in a day.", labels=("connection",)
        )
        sent = GaugeMetricFamily(
            "seller_platform_requests_sent_today", "Requests of today (UTC), sent or reserved.", labels=("connection",)
        )
        for connection in connections(self._database):
            allowed.add_metric((connection.name,), self._per_day)
            sent.add_metric((connection.name,), sent_today.get(connection.name, 0))
        yield allowed
        yield sent

    def _sampled(self) -> Iterator[Metric]:
        labels = ("stratum",)
        bound = GaugeMetricFamily(
            "seller_platform_slices_differing_at_most",
            "Share of slices, by their rows, that differ from the upstream at most, with 95 % confidence.",
            labels=labels,
        )
        compared = GaugeMetricFamily(
            "seller_platform_slices_compared", "Random comparisons with the upstream that count.", labels=labels
        )
        differed = GaugeMetricFamily(
            "seller_platform_slices_differed", "Those of them that found a difference.", labels=labels
        )
        measured = sample(self._database, utc_now())
        for stratum, each in measured.strata.items():
            compared.add_metric((stratum,), each.comparisons)
            differed.add_metric((stratum,), each.different)
        for stratum, share in measured.bounds.items():
            bound.add_metric((stratum,), share)
        yield from (bound, compared, differed)

    def _granted(self) -> Iterator[Metric]:
        facts = self._grants.facts()
        issued = GaugeMetricFamily(
            "seller_platform_grant_issued_at_seconds", "When the token pair was issued (Unix).", labels=("connection",)
        )
        refused = GaugeMetricFamily(
            "seller_platform_grant_refused", "1 where the upstream refused the grant for good.", labels=("connection",)
        )
        for grant in facts:
            issued.add_metric((grant.connection,), grant.issued_at.timestamp())
            refused.add_metric((grant.connection,), 1 if grant.refused else 0)
        yield issued
        yield refused
