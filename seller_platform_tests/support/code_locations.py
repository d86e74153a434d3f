"""Starts Dagster as a user does, and asks it for its code location."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

_QUERY = """
{ workspaceOrError { ... on Workspace { locationEntries { name loadStatus locationOrLoadError { __typename } } } } }
"""


def loaded_location(
    command: Sequence[str], variables: Mapping[str, str], folder: Path, *, port: int
) -> dict[str, object]:
    """Run a command of Dagster's UI until its only code location is loaded, and return what the UI says of that.

    Args:
        command: It serves on the port.
    """
    log = folder / "dagster.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=variables, stdout=file, stderr=file, cwd=folder, start_new_session=True)

    def entries() -> list[dict[str, object]]:
        assert process.poll() is None, log.read_text()
        with suppress(httpx.TransportError):
            answer = httpx.post(f"http://127.0.0.1:{port}/graphql", json={"query": _QUERY}, timeout=PATIENCE_SECONDS)
            if answer.status_code == httpx.codes.OK:
                return list(answer.json()["data"]["workspaceOrError"]["locationEntries"])
        return []

    try:
        (entry,) = wait_for(
            entries,
            lambda listed: bool(listed) and listed[0]["loadStatus"] == "LOADED",
            pause_seconds=1,
            explain=lambda _: log.read_text(),
        )
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return entry
