"""`seller-platform dev` as a person starts it, asked and told what its UI asks and tells."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.location import WAREHOUSE
from seller_platform_tests.support.dagster_instance import Interface
from seller_platform_tests.support.processes import COMMAND, environment, free_port
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

_LOOK_SECONDS = 1.0
_QUIET_SECONDS = 5 * PATIENCE_SECONDS
_TOLD = re.compile(r"(.+?)  +(.+)\n")
_OPEN = ("REQUESTED", "FAILING", "CANCELING")
_ENDED = ("SUCCESS", "FAILURE", "CANCELED")

_UNDER_WAY = """
{
  partitionBackfillsOrError { ... on PartitionBackfills { results { id status } } }
  runsOrError(limit: 500) { ... on Runs { results { status parentRunId } } }
}
"""
_ASSETS = """
{ assetNodes { assetKey { path } isMaterializable partitionStats { numMaterialized numFailed numPartitions } } }
"""
_CHECKS = """
{
  assetNodes {
    assetKey { path }
    assetChecksOrError { ... on AssetChecks { checks { name executionForLatestMaterialization { status } } } }
  }
}
"""
_FAILURES = """
{
  runsOrError(filter: {statuses: [FAILURE]}) {
    ... on Runs {
      results {
        eventConnection {
          events {
            ... on ExecutionStepFailureEvent { error { message } }
            ... on RunFailureEvent { runFailure: message }
            ... on EngineEvent { engineMessage: message engineError: error { message } }
          }
        }
      }
    }
  }
}
"""


@dataclass(frozen=True)
class Progress:
    """How many of an asset's partitions there are, are materialized, and have failed."""

    partitions: int
    materialized: int
    failed: int

    @property
    def is_whole(self) -> bool:
        return self.materialized == self.partitions and not self.failed


@dataclass(frozen=True)
class UnderWay:
    """The backfills and runs that the UI shows.

    Attributes:
        runs: Every run's status, and whether it takes up another that ended.
    """

    backfills: dict[str, str]
    runs: list[tuple[str, bool]]

    @property
    def is_quiet(self) -> bool:
        """Whether no backfill and no run is under way."""
        open_backfills = [status for status in self.backfills.values() if status in _OPEN]
        return not open_backfills and all(status in _ENDED for status, _ in self.runs)


@dataclass
class Deployment(Interface):
    """A running `seller-platform dev`.

    Attributes:
        told: What it printed when it was ready, by its name.
    """

    process: subprocess.Popen[Any]
    home: Path
    told: dict[str, str]
    name: str = "seller_platform"

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Return what the UI's own interface answers, once it does."""

        def answer() -> dict[str, Any]:
            with suppress(httpx.TransportError, ValueError):
                url, sent = f"{self.told['Dagster UI']}/graphql", {"query": query, "variables": variables}
                return dict(httpx.post(url, json=sent, timeout=PATIENCE_SECONDS).json())
            return {"errors": "no answer"}

        return dict(wait_for(answer, _is_answer, pause_seconds=_LOOK_SECONDS)["data"])

    def assets(self) -> dict[str, Progress]:
        """Return the progress of each asset that has partitions and is materialized, by its key."""
        return {
            "/".join(node["assetKey"]["path"]): Progress(
                stats["numPartitions"], stats["numMaterialized"], stats["numFailed"]
            )
            for node in self.ask(_ASSETS)["assetNodes"]
            if (stats := node["partitionStats"]) is not None and node["isMaterializable"]
        }

    def under_way(self) -> UnderWay:
        """Return the backfills and runs that the UI shows now.

        It takes a small part of the time that the partitions of all assets take.
        """
        found = self.ask(_UNDER_WAY)
        return UnderWay(
            {each["id"]: each["status"] for each in found["partitionBackfillsOrError"]["results"]},
            [(run["status"], run["parentRunId"] is not None) for run in found["runsOrError"]["results"]],
        )

    def await_quiet(self) -> None:
        """Wait until no backfill and no run is under way."""
        wait_for(
            self.under_way,
            lambda under_way: under_way.is_quiet,
            explain=lambda under_way: (under_way, self.failures()),
            pause_seconds=_LOOK_SECONDS,
            seconds=_QUIET_SECONDS,
        )

    def failed_checks(self) -> dict[str, list[str]]:
        """Return the checks that failed, or were never made, by the asset's key."""
        red: dict[str, list[str]] = {}
        for node in self.ask(_CHECKS)["assetNodes"]:
            for check in node["assetChecksOrError"]["checks"]:
                if (check["executionForLatestMaterialization"] or {}).get("status") != "SUCCEEDED":
                    red.setdefault("/".join(node["assetKey"]["path"]), []).append(check["name"])
        return red

    def failures(self) -> list[str]:
        """Return why runs failed, as the UI tells it."""
        runs = self.ask(_FAILURES)["runsOrError"]["results"]
        events = [event for run in runs for event in run["eventConnection"]["events"]]
        errors = [event["error"]["message"] for event in events if event.get("error")]
        of_engine = [event for event in events if event.get("engineError")]
        engine = [f"{event['engineMessage']} {event['engineError']['message']}" for event in of_engine]
        return sorted({*errors, *engine, *(event["runFailure"] for event in events if "runFailure" in event)})

    def kill(self, word: str) -> None:
        """Kill every process whose command has a word, without a warning."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                if word in " ".join(process.cmdline()):
                    process.kill()

    @property
    def sandbox(self) -> Path:
        """The home folder of the installation inside."""
        return self.home / "sandbox"

    def end(self) -> int:
        """End it as Ctrl-C does, and return its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_SECONDS)

    @contextmanager
    def warehouse(self) -> Iterator[Database]:
        """Open the warehouse."""
        server = EmbeddedServer(self.sandbox / "postgres")
        try:
            with Database(server.url(WAREHOUSE)) as warehouse:
                yield warehouse
        finally:
            server.close()


@contextmanager
def deployment(home: Path, *options: str) -> Iterator[Deployment]:
    """Run `seller-platform dev` on free ports until the block ends."""
    ports = ["--port", str(free_port()), "--service-port", str(free_port())]
    home.mkdir(exist_ok=True)
    with (home / "dev.log").open("w") as log:
        process = subprocess.Popen(
            [*COMMAND, "dev", *ports, *options],
            env=environment(home),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        told = {found[1]: found[2] for found in map(_TOLD.fullmatch, _until_told(process)) if found}
        assert told, (home / "dev.log").read_text()
        yield Deployment(process, home, told)
    finally:
        # Asked first: killed, it would leave the programs that it started.
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _is_answer(found: dict[str, Any]) -> bool:
    """Return whether the interface has answered, and no part of it says that the code location is away."""
    return "errors" not in found and all(part or not name.endswith("OrError") for name, part in found["data"].items())


def _until_told(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line
        if line.startswith("Ctrl-C"):
            return
