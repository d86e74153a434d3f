"""Tests that the service names a port that is taken, and that clients may hang up."""

import logging
import socket
import time
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry

from seller_platform.errors import CannotListenError
from seller_platform.service.app import ServiceOptions
from seller_platform.service.server import run_service
from seller_platform.warehouse.monitoring.metrics_page import metrics_page
from seller_platform_tests.support.served import ANN, Served, running_app
from seller_platform_tests.support.waiting import wait_for


def test_a_port_that_is_taken_is_named(reading: Served) -> None:
    taken = int(reading.base_url.rpartition(":")[2])
    log = logging.getLogger("seller_platform.service")
    before = [*log.handlers]

    with pytest.raises(CannotListenError, match=f"port {taken}"):
        run_service("postgresql://nowhere/x", ServiceOptions(), port=taken)

    page = metrics_page(CollectorRegistry(), host="127.0.0.1", port=taken, option="--metrics-port")
    with pytest.raises(CannotListenError, match=f"port {taken}.*--metrics-port"), page:
        pass
    assert log.handlers == before  # the caller's logs stay


@pytest.mark.parametrize(
    ("path", "content_type"),
    [("/oauth/token", "application/x-www-form-urlencoded"), ("/reports/request", "application/json")],
)
def test_a_client_that_hangs_up_in_its_body_is_no_error(
    service: Served, database_url: str, caplog: pytest.LogCaptureFixture, path: str, content_type: str
) -> None:
    registry = CollectorRegistry()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: 100\r\n"
    token = service.client(ANN).headers["Authorization"]
    labels = {"endpoint": path, "method": "POST", "status": "499"}

    with caplog.at_level(logging.INFO), running_app(database_url, registry=registry) as url:
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.sendall(f"{head}Authorization: {token}\r\n\r\n{{".encode())
            time.sleep(0.1)
        wait_for(lambda: registry.get_sample_value("seller_platform_service_requests_total", labels) == 1)

    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [f"POST {path} 499" in record.getMessage() for record in caplog.records].count(True) == 1
