"""Traces, from a load over its requests into the service's processes, as a collector receives them."""

import re
from pathlib import Path

import httpx
import pytest
from opentelemetry.instrumentation import auto_instrumentation
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from seller_platform.ingest.connections.upstream import Upstream
from seller_platform.service.oauth.applications import add_application
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.postgres import copied
from seller_platform_tests.support.processes import (
    connected_environment,
    document,
    environment,
    free_port,
    run,
    running_service,
    try_to_connect,
)
from seller_platform_tests.support.raw_server import Answer, Request, serving
from seller_platform_tests.support.served import ANN, PASSWORD, approve_at, issue_token, served
from seller_platform_tests.support.stored_rows import ACCOUNTS
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.journey

CANARIES = ("title-canary", "code-canary", "path-canary", "agent-canary")


def test_a_load_is_traced_into_the_service_without_secrets(
    database: Database, database_url: str, postgres: EmbeddedServer, tmp_path: Path
) -> None:
    callback, log, bodies = f"http://127.0.0.1:{free_port()}/callback", tmp_path / "service.log", list[bytes]()
    with served(database, database_url):
        client_id, client_secret = add_application(database, "Traced", callback)
        token = issue_token(database, ANN)

    def collect(request: Request) -> Answer:
        bodies.append(request.body)
        return Answer(headers={"Content-Type": "application/x-protobuf"})

    def spans(name: str) -> list[Span]:
        sent = [each for body in bodies for each in ExportTraceServiceRequest.FromString(body).resource_spans]
        found = [span for each in sent for scope in each.scope_spans for span in scope.spans if span.name == name]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def approve(url: str) -> None:
        codes.append(approve_at(url)[1])
        httpx.get(codes[0], timeout=PATIENCE_SECONDS)

    codes = list[str]()
    with serving(collect) as server:
        traced = {
            "PYTHONPATH": str(Path(auto_instrumentation.__file__).parent),  # all that `opentelemetry-instrument` sets
            "OTEL_EXPORTER_OTLP_ENDPOINT": server.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "SELLER_PLATFORM_LOG_FORMAT": "json",
        }
        own = environment(tmp_path, SELLER_PLATFORM_SERVICE_DATABASE_URL=database_url, **traced)
        with running_service(own, log, "--workers", "2") as (_, base_url):
            httpx.get(f"{base_url}/docs", timeout=PATIENCE_SECONDS)  # the address is announced before its workers start
            upstream = Upstream(base_url, base_url, client_id, client_secret, callback)
            warehouse = copied(postgres, "test_traces_warehouse")
            variables = connected_environment(upstream, warehouse, tmp_path / "home", **traced)
            assert try_to_connect(variables, approve).returncode == 0
            loaded = run(["sync", "--dataset", "inventory", "--account", "us-1", "--json"], variables, forked=False)
            headers = {"Authorization": f"Bearer {token}", "User-Agent": CANARIES[3]}
            with httpx.Client(base_url=base_url, headers=headers, timeout=PATIENCE_SECONDS) as client:
                client.get(f"/{CANARIES[2]}", params={"code": CANARIES[1]})
                client.get("/inventory/list", params={"account_title": CANARIES[0]})
            answers = wait_for(lambda: spans("GET /inventory/list")[2:])

    (load,), (request, answer, *_) = spans("load inventory"), spans("GET /inventory/list")
    assert document(loaded)["loads"][0]["rows"] > 0
    assert (request.parent_span_id, answer.parent_span_id) == (load.span_id, request.span_id)
    assert {load.trace_id} == {request.trace_id, answer.trace_id} != {answers[-1].trace_id}
    assert answers[-1].trace_id.hex() in log.read_text()
    secrets = [client_secret, token, PASSWORD, ANN, *CANARIES, *(each.title for each in ACCOUNTS.values())]
    sent = b"".join(bodies).decode("latin-1")
    assert [each for each in [*secrets, *re.findall(r"code=([^&]+)", codes[0])] if each in sent] == []
