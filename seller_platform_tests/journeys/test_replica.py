"""The embedded warehouse served as a replica, by the documented commands."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from seller_platform_tests.support.processes import COMMAND, announced_address, document, environment, run
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.journey


@contextmanager
def _served(variables: dict[str, str], log: Path) -> Iterator[str]:
    with log.open("w") as file:
        process = subprocess.Popen(
            [*COMMAND, "service", "run", "--replica", "--port", "0"], env=variables, stdout=file, stderr=file
        )
    try:
        yield announced_address(process, log)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def test_the_embedded_warehouse_is_served_without_knowing_its_address(tmp_path: Path) -> None:
    variables = environment(tmp_path / "home")
    add = ["service", "application", "add", "App", "--redirect-uri", "https://app.example/callback", "--json"]
    of_warehouse = document(run([*add, "--replica"], variables))["client_id"]
    of_sandbox = document(run(add, variables))["client_id"]

    with _served(variables, tmp_path / "log") as base_url:
        status = httpx.get(f"{base_url}/service-status").json()
        asked = {"redirect_uri": "https://app.example/callback", "response_type": "code"}
        answers = [
            httpx.get(f"{base_url}/oauth/authorize", params={**asked, "client_id": client_id}).status_code
            for client_id in (of_warehouse, of_sandbox)
        ]

    assert status["status"] == "active"
    assert answers == [303, 400]
