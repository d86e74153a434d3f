"""Logs as JSON: every line an object, with what is known of the work, and nothing that is secret."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from seller_platform.logs import JsonLines, facts, log_context
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.processes import (
    connect,
    environment,
    foreign_environment,
    free_port,
    run,
    running_service,
)
from seller_platform_tests.support.raw_server import status
from seller_platform_tests.support.served import ANN, PASSWORD, Served, served
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.dagster_tables]

MONTH = ("--from", "2026-01", "--to", "2026-01")


@pytest.fixture
def written() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger, and what it writes as JSON."""
    stream, logger = io.StringIO(), logging.getLogger("seller_platform_tests.written")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield logger, stream
    logger.removeHandler(handler)


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the lines of a log, each of which must be an object with the fields that all have."""
    found = []
    for line in text.splitlines():
        document = json.loads(line)
        assert {"time", "level", "logger", "message"} <= set(document), line
        assert datetime.fromisoformat(document["time"]).utcoffset() == timedelta(0), line
        found.append(document)
    return found


def test_a_record_is_one_line_with_its_facts_and_its_exception(written: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = written
    before = datetime.now(UTC)

    with log_context(run_id="r1", account="us-1", level="not this"):
        try:
            raise ValueError("two\nlines\u2028here")
        except ValueError:
            logger.exception("it %s\nfailed", "really", extra={**facts(rows=3, page=None), "token": "canary"})
    logger.info("afterwards")

    first, second = _objects(stream.getvalue())
    assert first["message"] == "it really\nfailed"
    assert (first["level"], first["logger"]) == ("ERROR", logger.name)
    assert (first["run_id"], first["account"], first["rows"]) == ("r1", "us-1", 3)
    assert "page" not in first
    assert first["exception"].startswith("Traceback")
    assert "two\nlines" in first["exception"]
    assert abs(datetime.fromisoformat(first["time"]) - before) < timedelta(seconds=10)
    assert "run_id" not in second
    assert "canary" not in stream.getvalue()


@pytest.mark.journey
def test_loads_log_account_and_dataset_and_errors_their_next_step(database_url: str, tmp_path: Path) -> None:
    with independent_upstream.open_independent_upstream(f"http://127.0.0.1:{free_port()}/callback") as upstream:
        variables = foreign_environment(upstream, database_url, tmp_path / "home")
        variables |= {"SELLER_PLATFORM_LOG_FORMAT": "json"}
        connected = connect(variables)
        busy = ("/api/sales/orders", 1)
        upstream.server.plan = lambda asked: status(429) if (asked.path, asked.number) == busy else None
        synced = run(["sync", "--dataset", "orders", *MONTH], variables)
        upstream.missing = ("/sales/orders",)
        failed = run(["sync", "--dataset", "orders", *MONTH, "--json"], variables)
        refused = run(["sync", "--dataset", "no-such"], variables)
        tokens = [*upstream.access, *upstream.refresh, *upstream.spent]

    assert (synced.returncode, failed.returncode, refused.returncode) == (0, 4, 2), synced.stderr + failed.stderr
    lines = _objects(synced.stderr)
    stored = [line for line in lines if line.get("dataset") == "orders" and "verdict" in line]
    assert {line["account"] for line in stored} == {
        independent_upstream.KEYS[each["seller_id"]] for each in independent_upstream.ACCOUNTS
    }
    assert all(line["rows"] == 10 and line["verdict"] == "match" for line in stored)
    assert all(line["window"] == "2026-01-01..2026-01-31" for line in stored)
    (again,) = (line for line in lines if "trying again" in line["message"])
    assert again["dataset"] == "orders"
    assert again["account"] in {line["account"] for line in stored}
    assert json.loads(failed.stdout)["error"] == "PartsFailedError"
    errors = [line for line in _objects(failed.stderr) if line["level"] == "ERROR"]
    assert {(line["dataset"], line["error"]) for line in errors} == {("orders", "RequestRefusedError")}
    (told,) = _objects(refused.stderr)
    assert (told["level"], told["error"], told["exit_code"]) == ("ERROR", "UnknownDatasetError", 2)
    assert told["next_step"]
    log = synced.stderr + failed.stderr + refused.stderr + connected.partition("\n")[2]
    assert [token for token in (*tokens, independent_upstream.CLIENT_SECRET) if token in log] == []


def test_a_bug_is_one_line_too(tmp_path: Path) -> None:
    program = (
        "import sys, click, seller_platform.cli as cli, seller_platform.cli.keys as keys\n"
        "sys.argv = ['seller-platform', 'keys', 'generate']\n"
        "del keys.keys.commands['generate'].callback\n"
        "cli.main()\n"
    )
    variables = environment(tmp_path, SELLER_PLATFORM_LOG_FORMAT="json")
    result = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False)

    (line,) = _objects(result.stderr)
    assert result.returncode == 1
    assert line["level"] == "CRITICAL"
    assert "AttributeError" in line["exception"]


def test_dagsters_processes_write_our_lines_as_json(database_url: str, tmp_path: Path) -> None:
    program = (
        "import logging, warnings, seller_platform.orchestration.definitions\n"
        "logging.getLogger('seller_platform.ingest.loads.slices').info('of ours')\n"
        "logging.getLogger('of.others').info('not told')\n"
        "logging.getLogger('of.others').warning('told')\n"
        "warnings.warn('beware')\n"
    )
    variables = environment(tmp_path, SELLER_PLATFORM_LOG_FORMAT="json", SELLER_PLATFORM_DATABASE_URL=database_url)
    result = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)

    told = [(line["logger"], line["level"]) for line in _objects(result.stderr)]
    assert ("seller_platform.ingest.loads.slices", "INFO") in told
    assert ("of.others", "WARNING") in told
    assert ("of.others", "INFO") not in told
    assert told[-1] == ("py.warnings", "WARNING")


def test_the_service_writes_a_line_for_each_request(database: Database, database_url: str, tmp_path: Path) -> None:
    with served(database, database_url) as running, running.client(ANN) as ann:
        token = ann.headers["Authorization"].removeprefix("Bearer ")
        variables = environment(
            tmp_path, SELLER_PLATFORM_LOG_FORMAT="json", SELLER_PLATFORM_SERVICE_DATABASE_URL=database_url
        )
        log = tmp_path / "log"
        with running_service(variables, log, "--workers", "2") as (process, base_url):
            _ask(running, base_url, token)
    lines = _objects(log.read_text())
    (first, *_) = (line for line in lines if line.get("request_id") == "an-id-of-mine")
    assert (first["method"], first["endpoint"], first["status"]) == ("GET", "/inventory/list", 200)
    assert first["logger"] == "seller_platform.service.access"
    assert first["milliseconds"] > 0
    asked = [line for line in lines if line["logger"] == "seller_platform.service.access"]
    assert all(line["request_id"] for line in asked)
    assert process.returncode == 0, log.read_text()
    for secret in (token, "code-canary", "Shop US", "title-canary", PASSWORD, running.client_secret, database_url):
        assert secret not in log.read_text()
    assert os.environ.get("SELLER_PLATFORM_LOG_FORMAT") is None


def _ask(running: Served, base_url: str, token: str) -> None:
    """Send what carries titles, codes and secrets."""
    bearer = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=base_url, headers=bearer, timeout=PATIENCE_SECONDS) as client:
        query = {"account_title": "Shop US", "per_page": "20"}
        found = client.get("/inventory/list", params=query, headers={"X-Request-Id": "an-id-of-mine"})
        client.get("/inventory/list", params={"account_title": "title-canary"})
        client.get("/oauth/authorize", params={"client_id": running.client_id, "code": "code-canary"})
        client.post(
            "/oauth/token", data={"grant_type": "authorization_code", "code": "code-canary", **running.credentials}
        )
    assert found.status_code == 200, found.text
