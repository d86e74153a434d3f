"""The embedded warehouse served as a replica, by the documented commands."""

import signal
from pathlib import Path

import httpx
import pytest

from seller_platform_tests.support.processes import document, environment, run, running_service
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.journey


def test_the_embedded_warehouse_is_served_without_knowing_its_address(tmp_path: Path) -> None:
    variables = environment(tmp_path / "home")
    add = ["service", "application", "add", "App", "--redirect-uri", "https://app.example/callback", "--json"]
    of_warehouse = document(run([*add, "--replica"], variables))["client_id"]
    of_sandbox = document(run(add, variables))["client_id"]

    with running_service(variables, tmp_path / "log", "--replica") as (process, base_url):
        status = httpx.get(f"{base_url}/service-status").json()
        asked = {"redirect_uri": "https://app.example/callback", "response_type": "code"}
        answers = [
            httpx.get(f"{base_url}/oauth/authorize", params={**asked, "client_id": client_id}).status_code
            for client_id in (of_warehouse, of_sandbox)
        ]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0, (tmp_path / "log").read_text()

    assert status["status"] == "active"
    assert answers == [303, 400]
