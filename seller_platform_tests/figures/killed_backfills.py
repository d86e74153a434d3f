"""Kills each process of a deployment once while a backfill runs.

`seller-platform dev` runs, and a backfill of every dated dataset is launched as the UI does it. While the backfill
runs, a run worker, the daemon, the web server and PostgreSQL are killed one after the other. Then the command waits
until the backfill ends.
"""

import time

from seller_platform.contract import LISTS, Slicing
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.deployment import (
    DAEMON,
    POSTGRESQL,
    RUN_WORKER,
    WEB_SERVER,
    Deployment,
    deployment,
)
from seller_platform_tests.support.folders import temporary_folder

DATED = tuple(dataset for dataset in LISTS if dataset.slicing is Slicing.MONTH)
_NAMES = tuple(dataset.name for dataset in DATED)
LONGEST_SECONDS = 1800.0
# The state cannot be read without the web server, so it is killed together with the run worker, which restarts later.
_KILLED_TOGETHER = ((RUN_WORKER, WEB_SERVER), (DAEMON,), (POSTGRESQL,))


def break_and_wait(installed: Deployment) -> list[Figure]:
    """Launch a backfill, kill each part of the deployment once, and wait for the end."""
    began, killed = time.monotonic(), []
    number = installed.backfill(_NAMES)
    state = installed.state()
    for parts in _KILLED_TOGETHER:
        before = state.materialized(_NAMES)
        while not state.is_quiet and (
            state.materialized(_NAMES) <= before or "STARTED" not in [run for run, _ in state.runs]
        ):
            time.sleep(0.2)
            state = installed.state()
        for part in parts:
            if not state.is_quiet:
                installed.kill(part)
                killed.append(part)
                seconds = time.monotonic() - began
                print(f"{part} killed after {seconds:.0f} s, {state.materialized(_NAMES)} partitions", flush=True)
    while not state.is_quiet and time.monotonic() < began + LONGEST_SECONDS:
        time.sleep(1)
        state = installed.state()
    dated = [state.assets[f"seller/{dataset.name}"] for dataset in DATED]
    partitions, materialized = sum(each.partitions for each in dated), state.materialized(_NAMES)
    failed, status = sum(each.failed for each in dated), state.backfills[number]
    different = installed.different(DATED)
    parts_of_all = [part for parts in _KILLED_TOGETHER for part in parts]
    return [
        Figure("partitions", partitions),
        Figure("killed while it ran", ", ".join(killed), "each once", killed == parts_of_all),
        Figure("partitions materialized", materialized, "all", materialized == partitions),
        Figure("partitions failed", failed, "0", failed == 0),
        Figure("status of the backfill", status, "COMPLETED_SUCCESS", status == "COMPLETED_SUCCESS"),
        Figure("runs", len(state.runs)),
        Figure("runs that were taken up again by the daemon", sum(is_retry for _, is_retry in state.runs)),
        Figure("tables unequal to the upstream's", ", ".join(different) or "none", "none", not different),
        Figure("seconds", f"{time.monotonic() - began:.0f}"),
        *(Figure("a run ended with", reason.strip().partition("\n")[0][:300]) for reason in installed.failures()),
    ]


def measure(*, accounts: int = 4, months: int = 10) -> Promises:
    """Options: accounts, and months of each."""
    with temporary_folder() as folder:
        size = ("--accounts", str(accounts), "--months", str(months))
        with deployment(folder, *size) as installed:
            return Promises("A backfill, with everything killed once", break_and_wait(installed))
