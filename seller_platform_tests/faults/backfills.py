"""Backfills: `python -m seller_platform_tests.faults.backfills [--accounts 4] [--months 10]` prints one table.

`seller-platform dev` runs as a person starts it, and a backfill of every dated dataset is launched as its UI does.
While it runs, a run worker, the daemon, the web server and PostgreSQL are killed, one after the other; then nothing
is done but wait.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from seller_platform.contract import LISTS, Dataset, Slicing
from seller_platform.warehouse.database import Database
from seller_platform.warehouse.fingerprints import fingerprints
from seller_platform.warehouse.location import SANDBOX, WAREHOUSE
from seller_platform.warehouse.server import EmbeddedServer
from seller_platform_tests.faults.figures import Figure, print_figures
from seller_platform_tests.journeys.processes import COMMAND, environment, free_port

DATED = tuple(dataset for dataset in LISTS if dataset.slicing is Slicing.MONTH)
LONGEST_SECONDS = 1800.0

_LAUNCH = """
mutation ($assets: [AssetKeyInput!]!, $keys: [String!]!) {
  launchPartitionBackfill(backfillParams: {assetSelection: $assets, partitionNames: $keys}) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}
"""
_STATUS = """
query ($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } }
  runsOrError { ... on Runs { results { id status parentRunId } } }
  %s
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
          }
        }
      }
    }
  }
}
"""
_STATS = 'assetNodeOrError(assetKey: {path: ["seller", "%s"]}) { ... on AssetNode { %s } }'


@dataclass
class Deployment:
    """A running `seller-platform dev`."""

    process: subprocess.Popen[str]
    home: Path
    url: str

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Return what the UI's own interface answers, once it does."""
        deadline = time.monotonic() + 120
        while True:
            with suppress(httpx.TransportError, ValueError):
                sent = {"query": query, "variables": variables}
                answer = httpx.post(f"{self.url}/graphql", json=sent, timeout=60).json()
                if "errors" not in answer:
                    found: dict[str, Any] = answer["data"]
                    return found
            assert time.monotonic() < deadline, "the web server does not answer"
            time.sleep(0.5)

    def program(self, *words: str) -> int | None:
        """Return the first process of the deployment whose command line has the words; None where there is none."""
        return next((pid for pid in _descendants(self.process.pid) if _is_of(pid, words)), None)

    @property
    def postmaster(self) -> int:
        return int((self.home / "sandbox/postgres/data/postmaster.pid").read_text().split()[0])


@contextmanager
def deployment(home: Path, *, accounts: int, months: int) -> Iterator[Deployment]:
    """Run `seller-platform dev` until the block ends."""
    ports = ["--port", str(free_port()), "--service-port", str(free_port())]
    size = ["--accounts", str(accounts), "--months", str(months)]
    with (home / "dev.log").open("w") as log:
        process = subprocess.Popen(
            [*COMMAND, "dev", *ports, *size],
            env=environment(home),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        told = {found[1]: found[2] for found in map(_TOLD.fullmatch, _until_told(process)) if found}
        try:
            yield Deployment(process, home, told["Dagster UI"])
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


_TOLD = re.compile(r"(.+?)  +(\S+)\n")


def _until_told(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line
        if line.startswith("Ctrl-C"):
            return


def _descendants(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    return [each for child in map(int, found) for each in (child, *_descendants(child))]


def _is_of(pid: int, words: Sequence[str]) -> bool:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return False
    return all(word in line for word in words)


@dataclass
class Backfill:
    """A backfill that was launched, and what is known of it."""

    place: Deployment
    keys: list[str]
    number: str

    @classmethod
    def launch(cls, place: Deployment) -> "Backfill":
        """Launch it, once the code location has told the web server of its assets."""
        query = f"{{ {_STATS % (DATED[0].name, 'partitionKeys')} }}"
        deadline = time.monotonic() + 120
        while "partitionKeys" not in (found := place.ask(query)["assetNodeOrError"]):
            assert time.monotonic() < deadline, "there are no assets; look into code-location.log"
            time.sleep(0.5)
        keys = found["partitionKeys"]
        assets = [{"path": ["seller", dataset.name]} for dataset in DATED]
        launched = place.ask(_LAUNCH, assets=assets, keys=keys)["launchPartitionBackfill"]
        return cls(place, keys, launched["backfillId"])

    @property
    def partitions(self) -> int:
        return len(self.keys) * len(DATED)

    def look(self) -> "Look":
        """Return how it stands."""
        counts = "numMaterialized numFailed numMaterializing"
        stats = " ".join(
            f"{dataset.name}: {_STATS % (dataset.name, f'partitionStats {{ {counts} }}')}" for dataset in DATED
        )
        found = self.place.ask(_STATUS % stats, id=self.number)
        return Look(
            found["partitionBackfillOrError"]["status"],
            sum(found[dataset.name]["partitionStats"]["numMaterialized"] for dataset in DATED),
            sum(found[dataset.name]["partitionStats"]["numFailed"] for dataset in DATED),
            [(run["status"], run["parentRunId"] is not None) for run in found["runsOrError"]["results"]],
        )

    def reasons(self) -> list[str]:
        """Return why runs failed, as the UI tells it."""
        runs = self.place.ask(_FAILURES)["runsOrError"]["results"]
        events = [event for run in runs for event in run["eventConnection"]["events"]]
        errors = [event["error"]["message"] for event in events if event.get("error")]
        return sorted({*errors, *(event["runFailure"] for event in events if "runFailure" in event)})


@dataclass(frozen=True)
class Look:
    """How a backfill stands: its status, its partitions, and every run's status with whether it is a retry."""

    status: str
    materialized: int
    failed: int
    runs: list[tuple[str, bool]]

    @property
    def is_over(self) -> bool:
        return self.status not in ("REQUESTED", "FAILING", "CANCELING") and not self.under_way

    @property
    def under_way(self) -> int:
        return sum(status not in ("SUCCESS", "FAILURE", "CANCELED") for status, _ in self.runs)


def break_and_wait(place: Deployment) -> list[Figure]:
    """Launch a backfill, kill each part of the deployment once while it runs, and wait until nothing moves."""
    began, killed = time.monotonic(), []
    backfill = Backfill.launch(place)
    targets: dict[str, Callable[[], int | None]] = {
        "run worker": lambda: place.program("multiprocessing.spawn", "spawn_main"),
        "web server": lambda: place.program("dagster_webserver"),
        "daemon": lambda: place.program("dagster._daemon", "run"),
        "PostgreSQL": lambda: place.postmaster,
    }
    look = backfill.look()
    # Nothing can be seen while the web server is away: it goes together with the run worker, which takes longer.
    for names in (("run worker", "web server"), ("daemon",), ("PostgreSQL",)):
        before = look.materialized
        while not look.is_over and (look.materialized <= before or "STARTED" not in [run for run, _ in look.runs]):
            time.sleep(0.2)
            look = backfill.look()
        for name in names:
            pid = targets[name]()
            if pid is None or look.is_over:
                continue
            # An immediate stop, the harshest that leaves no shared memory behind; the others get no time at all.
            os.kill(pid, signal.SIGQUIT if name == "PostgreSQL" else signal.SIGKILL)
            killed.append(name)
            print(f"{name} killed after {time.monotonic() - began:.0f} s, {look.materialized} partitions", flush=True)
    while not look.is_over and time.monotonic() < began + LONGEST_SECONDS:
        time.sleep(1)
        look = backfill.look()
    different = _different(place.home / "sandbox" / "postgres", DATED)
    return [
        Figure("partitions", backfill.partitions),
        Figure("killed while it ran", ", ".join(killed), "each once", killed == list(targets)),
        Figure("partitions materialized", look.materialized, "all", look.materialized == backfill.partitions),
        Figure("partitions failed", look.failed, "0", look.failed == 0),
        Figure("status of the backfill", look.status, "COMPLETED_SUCCESS", look.status == "COMPLETED_SUCCESS"),
        Figure("runs", len(look.runs)),
        Figure("runs that were taken up again by the daemon", sum(is_retry for _, is_retry in look.runs)),
        Figure("tables unequal to the upstream's", ", ".join(different) or "none", "none", not different),
        Figure("seconds", f"{time.monotonic() - began:.0f}"),
        *(Figure("a run ended with", reason.strip().partition("\n")[0][:300]) for reason in backfill.reasons()),
    ]


def _different(folder: Path, datasets: Sequence[Dataset]) -> list[str]:
    """Return the datasets whose rows are not those of the sandbox."""
    stored = [dataset for dataset in datasets if not dataset.is_computed]
    server = EmbeddedServer(folder)
    try:
        with Database(server.url(SANDBOX)) as sandbox, Database(server.url(WAREHOUSE)) as warehouse:
            expected, found = fingerprints(sandbox, stored), fingerprints(warehouse, stored)
    finally:
        server.close()
    keys = {*expected, *found}
    return sorted({dataset for dataset, account in keys if expected.get(key := (dataset, account)) != found.get(key)})


def main() -> int:
    """Run the backfill and print what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accounts", type=int, default=4)
    parser.add_argument("--months", type=int, default=10)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="seller-backfills-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with deployment(home, accounts=chosen.accounts, months=chosen.months) as place:
            figures = break_and_wait(place)
    return print_figures("A backfill, with everything killed once", figures)


if __name__ == "__main__":
    sys.exit(main())
