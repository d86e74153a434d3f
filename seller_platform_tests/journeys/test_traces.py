"""Traces, from a load over its requests into the service's processes, as a collector receives them."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from seller_platform.contract import dataset_named
from seller_platform.service.oauth.applications import add_application
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.collector import Collector, collector
from seller_platform_tests.support.postgres import copied
from seller_platform_tests.support.processes import (
    document,
    environment,
    free_port,
    run,
    running_service,
    try_to_connect,
)
from seller_platform_tests.support.served import ANN, PASSWORD, approve_at, issue_token
from seller_platform_tests.support.served import served as populated
from seller_platform_tests.support.stored_rows import ACCOUNTS, insert_rows, rows_of
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.journey

INVENTORY = dataset_named("inventory")
SERVICE, PLATFORM = "seller-platform-service", "seller-platform"
CANARIES = ("title-canary", "code-canary", "path-canary", "state-canary", "agent-canary")


@contextmanager
def _service(database_url: str, home: Path, workers: str = "2", **variables: str) -> Iterator[tuple[str, Path]]:
    """Run the service; yield where it serves, and its log."""
    own = {"SELLER_PLATFORM_SERVICE_DATABASE_URL": database_url, "SELLER_PLATFORM_LOG_FORMAT": "json"}
    log = home / "service.log"
    with running_service(environment(home, **own, **variables), log, "--workers", workers) as (_, base_url):
        httpx.get(f"{base_url}/docs", timeout=PATIENCE_SECONDS)  # the address is announced before its workers start
        yield base_url, log


def _connect(variables: dict[str, str]) -> list[str]:
    """Connect as Ann does, on the pages of the service; return the codes that were sent on the way."""
    callbacks: list[str] = []

    def person(url: str) -> None:
        callbacks.append(approve_at(url)[1])
        httpx.get(callbacks[0], timeout=PATIENCE_SECONDS)

    connected = try_to_connect(variables, person)
    assert connected.returncode == 0, connected.stderr
    return re.findall(r"code=([^&]+)", callbacks[0])


def _ask_what_nobody_should_know(base_url: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "agent-canary"}
    with httpx.Client(base_url=base_url, headers=headers, timeout=PATIENCE_SECONDS) as client:
        client.get("/inventory/list", params={"account_title": "title-canary", "per_page": "20"})
        client.get("/path-canary", params={"title-canary": "1"})
        client.get("/oauth/authorize", params={"code": "code-canary", "state": "state-canary"})
        client.post("/oauth/token", data={"grant_type": "authorization_code", "code": "code-canary"})
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        client.get("/user/me", headers={"traceparent": parent, "X-Request-Id": "an-id-of-mine"})
        client.get("/user/me", headers={"traceparent": "title-canary"})


def _secrets_of(database_url: str, *more: str) -> list[str]:
    password = [found] if (found := psycopg.conninfo.conninfo_to_dict(database_url).get("password")) else []
    return [*more, *map(str, password), *CANARIES, PASSWORD, ANN, *(each.title for each in ACCOUNTS.values())]


def _products(count: int) -> list[Row]:
    """Return rows of the inventory, each of a product of its own: more than two pages, which threads read."""
    row = rows_of(INVENTORY, "us-1")[0]
    place = [column.name for column in INVENTORY.columns].index("sku")
    return [(*row[:place], f"SKU {number}", *row[place + 1 :]) for number in range(count)]


@pytest.fixture
def traced() -> Iterator[Collector]:
    with collector() as kept:
        yield kept


def test_a_load_is_traced_into_the_service_without_secrets(
    traced: Collector, database: Database, database_url: str, postgres: EmbeddedServer, tmp_path: Path
) -> None:
    callback = f"http://127.0.0.1:{free_port()}/callback"
    with populated(database, database_url):
        insert_rows(database, INVENTORY, "us-1", _products(2 * max(INVENTORY.page_sizes) + 7))
        client_id, client_secret = add_application(database, "Traced", callback)
        token = issue_token(database, ANN)
    sending = {"OTEL_EXPORTER_OTLP_ENDPOINT": traced.url}
    warehouse = copied(postgres, "test_traces_warehouse")
    with _service(database_url, tmp_path, **sending) as (base_url, log):
        variables = environment(
            tmp_path / "home",
            SELLER_PLATFORM_DATABASE_URL=warehouse,
            SELLER_PLATFORM_LOG_FORMAT="json",
            SELLER_API_BASE_URL=base_url,
            SELLER_API_CLIENT_ID=client_id,
            SELLER_API_CLIENT_SECRET=client_secret,
            SELLER_API_REDIRECT_URI=callback,
            **sending,
        )
        codes = _connect(variables)
        synced = run(["sync", "--dataset", "inventory", "--account", "us-1", "--json"], variables)
        _ask_what_nobody_should_know(base_url, token)
        wait_for(lambda: any(span.parent_id == "b7ad6b7169203331" for span in traced.named("GET /user/me")))

    loads = document(synced)["loads"]
    _assert_that_the_load_leads_into_the_service(traced, rows=sum(each["rows"] for each in loads if each["rows"] > 10))
    (asked,) = [span for span in traced.named("GET /user/me") if span.parent_id == "b7ad6b7169203331"]
    assert (asked.service, asked.kind, asked.trace_id) == (SERVICE, "SERVER", "0af7651916cd43dd8448eb211c80319c")
    assert asked.attributes == {
        "http.request.method": "GET",
        "http.route": "/user/me",
        "http.response.status_code": 200,
        "seller_platform.request_id": "an-id-of-mine",
    }
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (line,) = (each for each in lines if each.get("request_id") == "an-id-of-mine")
    assert (line["trace_id"], line["span_id"]) == (asked.trace_id, asked.span_id)
    assert (line["method"], line["endpoint"], line["status"]) == ("GET", "/user/me", 200)
    assert line["milliseconds"] > 0
    assert all(each["request_id"] for each in lines if each["logger"] == "seller_platform.service.access")
    assert traced.named("POST /oauth/token", service=PLATFORM)[0].kind == "CLIENT"
    assert [span.name for span in traced.spans if span.events] == []
    assert traced.paths == {"/v1/traces"}
    secrets, sent = _secrets_of(database_url, token, client_secret, *codes), b"\n".join(traced.bodies).decode("latin-1")
    assert [each for each in secrets if each in sent] == []
    # The log tells paths as they were asked for, the traces only those of routes.
    logged = synced.stderr + log.read_text()
    assert [each for each in secrets if each in logged] == ["path-canary"]


def _assert_that_the_load_leads_into_the_service(traced: Collector, *, rows: int) -> None:
    by_id = {span.span_id: span for span in traced.spans}
    (load,) = traced.named("load inventory")
    assert (load.service, load.kind, load.parent_id, load.is_error) == (PLATFORM, "INTERNAL", "", False)
    assert load.attributes["seller_platform.account"] == "us-1"
    assert load.attributes["seller_platform.rows"] == rows
    assert load.attributes["seller_platform.verdict"] == "match"
    requests = traced.named("GET /inventory/list", service=PLATFORM)
    assert len(requests) == load.attributes["seller_platform.requests"] > 2
    answers = [span for span in traced.named("GET /inventory/list", service=SERVICE) if span.trace_id == load.trace_id]
    assert len(answers) == len(requests)
    assert sum(span.attributes["seller_platform.rows"] for span in answers) >= rows
    for answer in answers:
        request = by_id[answer.parent_id]
        assert (request.kind, request.service, request.parent_id) == ("CLIENT", PLATFORM, load.span_id)
        assert request.attributes["url.template"] == "/inventory/list"
        assert request.attributes["http.response.status_code"] == 200
        assert request.attributes["http.response.body.size"] > 100
        assert set(request.attributes) == {
            "http.request.method",
            "http.response.body.size",
            "http.response.status_code",
            "server.address",
            "server.port",
            "url.template",
        }


def test_what_fails_is_told_by_its_kind_alone(
    traced: Collector, database: Database, database_url: str, tmp_path: Path
) -> None:
    program = (
        "import os\n"
        "from seller_platform.client.http.api import SellerApi\n"
        "from seller_platform.errors import SellerPlatformError\n"
        "from seller_platform.traces import send_traces, span\n"
        "assert send_traces('test', os.environ)\n"
        "try:\n"
        "    with span('work', {}), SellerApi(os.environ['BASE_URL']) as api:\n"
        "        api.get('/no/such/path', {'account_title': 'title-canary'})\n"
        "except SellerPlatformError:\n"
        "    raise ValueError('title-canary')\n"
    )
    sending = {"OTEL_EXPORTER_OTLP_ENDPOINT": traced.url, "OTEL_SERVICE_NAME": "mine"}
    with _service(database_url, tmp_path, workers="1") as (base_url, _):
        variables = environment(tmp_path, BASE_URL=base_url, **sending)
        result = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, check=False)

    assert b"ValueError" in result.stderr
    assert {span.service for span in traced.spans} == {"mine"}
    errors = {span.name: span.attributes["error.type"] for span in traced.spans if span.is_error}
    assert errors == {"work": "RequestRefusedError", "GET /no/such/path": "404"}
    assert b"title-canary" not in b"".join(traced.bodies)


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({}, ""),
        ({"OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_TRACES_EXPORTER": "none"}, ""),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
        ({"LACKS": "opentelemetry.sdk"}, "seller-platform[opentelemetry]"),
    ],
)
def test_nothing_is_sent_unless_it_is_wanted_and_possible(
    traced: Collector, tmp_path: Path, variables: dict[str, str], problem: str
) -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": traced.url} if variables else {}
    program = (
        "import logging, os, sys\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "if 'LACKS' in os.environ: sys.modules[os.environ['LACKS']] = None\n"  # importing it fails
        "from seller_platform.traces import mark_failed, send_traces, span, trace_ids, write_trace_headers\n"
        "assert not send_traces('test', os.environ)\n"
        "asked = {'traceparent': '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'}\n"
        "with span('work', {'b': 1}, headers=asked) as current:\n"
        "    current.set_attributes({'a': 1})\n"
        "    current.update_name('b')\n"
        "    mark_failed(current, 'c')\n"
        "    write_trace_headers(headers := {})\n"
        "    assert headers == trace_ids() == {}\n"
        "assert sys.modules.get('opentelemetry.sdk') is None\n"
    )
    told = environment(tmp_path, **endpoint, **variables)
    result = subprocess.run([sys.executable, "-c", program], env=told, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
    assert traced.bodies == []
    assert problem in result.stderr
    assert bool(result.stderr) is bool(problem)


def test_a_collector_that_is_away_costs_a_command_seconds_and_one_line(tmp_path: Path) -> None:
    program = (
        "import os\n"
        "from seller_platform.traces import send_traces, span\n"
        "assert send_traces('test', os.environ)\n"
        "with span('work', {}):\n"
        "    pass\n"
    )
    told = environment(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}")
    began = time.monotonic()
    result = subprocess.run([sys.executable, "-c", program], env=told, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began

    assert result.returncode == 0
    assert seconds < PATIENCE_SECONDS
    assert len(result.stderr.splitlines()) <= 1
    assert "Traceback" not in result.stderr
