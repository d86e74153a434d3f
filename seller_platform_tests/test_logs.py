"""Logs as JSON: every line an object, with what is known of the work, and nothing that is secret."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from seller_platform.logs import JsonLines, facts, log_context
from seller_platform.traces import span, trace_ids
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.processes import connect, environment, foreign_environment, free_port, run
from seller_platform_tests.support.raw_server import status

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
def test_without_a_set_up_nobody_who_sends_a_request_chooses_the_ids_in_our_logs() -> None:
    with span("GET", {}, headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}):
        assert trace_ids() == {}


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
