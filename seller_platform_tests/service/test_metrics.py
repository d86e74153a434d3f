"""Tests the metrics for Prometheus: correct over all processes, without personal values."""

import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from seller_platform.contract import dataset_named
from seller_platform.service.pages.login import MOST_OF_AN_ADDRESS
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.processes import announced_address, environment, running_service
from seller_platform_tests.support.served import ANN, Served, served, submit
from seller_platform_tests.support.stored_rows import ACCOUNTS
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.slow

ORDERS = dataset_named("orders")
SIZE = min(ORDERS.page_sizes)
PREFIX = "seller_platform_service_"


@dataclass(frozen=True)
class Measured:
    """A service and the registry of its metrics."""

    service: Served
    registry: CollectorRegistry

    @property
    def text(self) -> str:
        return generate_latest(self.registry).decode()

    def __getitem__(self, sample: str) -> float:
        return _samples(self.text).get(sample, 0)


@pytest.fixture
def measured(database: Database, database_url: str) -> Iterator[Measured]:
    registry = CollectorRegistry()
    with served(database, database_url, registry=registry) as running:
        yield Measured(running, registry)


def _samples(text: str) -> dict[str, float]:
    """Return the samples by name without prefix and by labels."""
    return {
        " ".join(
            (sample.name.removeprefix(PREFIX), *(value for _, value in sorted(sample.labels.items())))
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_requests_are_counted_by_the_path_of_their_route_method_and_status(measured: Measured) -> None:
    with measured.service.client(ANN) as ann, measured.service.client() as anonymous:
        for _ in range(3):
            ann.get("/sales/orders", params={"account_title": "Shop US", "per_page": SIZE})
        ann.get("/sales/orders", params={"account_title": "No such shop", "per_page": SIZE})
        ann.head("/user/me")
        anonymous.get("/user/me")
        anonymous.get("/admin/developers/some-client-id/delete")
        anonymous.get("/no/such/path")
        anonymous.request("PATCH", "/user/me")
        anonymous.request("PROPFIND", "/user/me")

    assert measured["requests_total /sales/orders GET 200"] == 3
    assert measured["requests_total /sales/orders GET 404"] == 1
    assert measured["requests_total /user/me HEAD 200"] == 1
    assert measured["requests_total /user/me GET 401"] == 1
    assert measured["requests_total /admin/developers/{client_id}/delete GET 303"] == 1
    assert measured["requests_total none GET 404"] == 1
    assert measured["requests_total /user/me PATCH 405"] == 1
    assert measured["requests_total /user/me other 405"] == 1
    assert measured["request_seconds_count /sales/orders GET"] == 4
    assert 0 < measured["request_seconds_sum /sales/orders GET"] < 30


def test_security_events_are_counted(measured: Measured) -> None:
    former = "INSERT INTO service.login_attempts VALUES ('address 127.0.0.1', %s, now() + interval '10 minutes')"
    measured.service.execute(former, MOST_OF_AN_ADDRESS - 1)
    with measured.service.client() as browser:
        submit(browser, browser.get("/login"), email=ANN, password="wrong")

    assert measured["security_events_total login_failed"] == 1
    assert measured["security_events_total login_locked"] == 1
    assert measured["security_events_total refresh_token_reused"] == 0


def test_no_label_names_a_person(measured: Measured) -> None:
    canary = "canary7f3a"
    with measured.service.client(ANN) as ann:
        token = ann.headers["Authorization"].removeprefix("Bearer ")
        shop = {"account_title": "Shop US", "seller_id": "S1"}
        ann.get("/sales/orders", params=shop, headers={"X-Request-Id": canary})
        ann.get(f"/{canary}", params={canary: canary})
        ann.get(f"/admin/developers/{canary}/delete")
        submit(ann, ann.get("/login"), email=f"{canary}@shop.example", password=canary)

    text = measured.text
    assert canary not in text.lower()
    assert token not in text
    labels = re.findall(r'"([^"]*)"', text)
    named = {value for account in ACCOUNTS.values() for value in (account.title, account.seller_id, account.key)}
    assert named.isdisjoint(labels)
    assert not re.search("ann|bob|shop", " ".join(labels), re.IGNORECASE)


def test_processes_are_counted_together_though_one_is_killed_or_hangs(database_url: str, tmp_path: Path) -> None:
    log, variables = tmp_path / "log", environment(tmp_path, SELLER_PLATFORM_SERVICE_DATABASE_URL=database_url)
    with running_service(variables, log, "--metrics-port", "0", "--workers", "2") as (process, base_url):
        metrics = announced_address(process, log, "metrics on")

        def ask(_: int) -> int:
            return httpx.get(f"{base_url}/service-status", timeout=PATIENCE_SECONDS).status_code

        def page() -> str:
            return httpx.get(metrics, timeout=PATIENCE_SECONDS).text

        with ThreadPoolExecutor(8) as threads:
            statuses = list(threads.map(ask, range(120)))
        text = page()
        api = httpx.get(f"{base_url}/metrics", timeout=PATIENCE_SECONDS)
        folder = next(Path(name) for name in _environment(process.pid) if "seller-platform-service-" in name)
        killed = min(_workers(folder))
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: len(_workers(folder)) == 3)  # the files of the killed one stay
        after = page()
        statuses += [ask(number) for number in range(10)]
        later = page()
        secret = httpx.get(f"{base_url}/docs?code=secret-code", timeout=PATIENCE_SECONDS)
        arguments = Path(f"/proc/{process.pid}/cmdline").read_text()
        wait_for(lambda: "GET /docs 200" in log.read_text())  # before its process may be stopped
        hanging = max(_workers(folder))
        os.kill(hanging, signal.SIGSTOP)
        process.terminate()
        ended = process.wait(PATIENCE_SECONDS)

    assert statuses == [200] * 130
    assert _samples(text)["requests_total /service-status GET 200"] == 120
    assert _samples(text)["request_seconds_count /service-status GET"] == 120
    assert metrics.startswith("http://127.0.0.1:")
    assert api.status_code == 404, "the API must not serve metrics"
    assert _samples(after)["requests_total /service-status GET 200"] == 120
    assert _samples(later)["requests_total /service-status GET 200"] == 130
    assert (ended, folder.exists()) == (0, False), log.read_text()
    wait_for(lambda: not Path(f"/proc/{hanging}").exists())
    assert "secret-code" not in log.read_text()
    assert "Traceback" not in log.read_text()
    assert ("server" in secret.headers, database_url in arguments) == (False, False)


def _workers(folder: Path) -> set[int]:
    """Return the processes that have counted in a folder."""
    return {int(file.stem.rpartition("_")[2]) for file in folder.glob("counter_*.db")}


def _environment(process_id: int) -> list[str]:
    """Return the values of the environment variables of a process's children.

    They inherit the variables that the process sets itself.
    """
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    raw = b"".join(Path(f"/proc/{child}/environ").read_bytes() for child in children)
    return [entry.partition("=")[2] for entry in raw.decode().split("\0")]
