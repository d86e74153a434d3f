"""A code location whose runs are forked, with an asset that describes its process, and one that waits."""

import atexit
import os
import time
from pathlib import Path

import dagster as dg

from seller_platform.orchestration.instance.run_launcher import fork_run_workers

ENDED = "RUNS_THAT_ENDED"
"""A variable that names a file, to which each run adds a line at its end."""

_LOADED_BY = os.getpid()

fork_run_workers()


@dg.asset
def process() -> dg.MaterializeResult[None]:
    """Materialize what the process of the run is."""
    parent = os.getppid()
    ended = Path(os.environ[ENDED])
    atexit.register(lambda: ended.write_text(f"{os.getpid()}\n"))
    metadata = {
        "loads its definitions itself": os.getpid() == _LOADED_BY,
        "parent": parent,
        "threads of the parent": len(list(Path(f"/proc/{parent}/task").iterdir())),
    }
    return dg.MaterializeResult(metadata=metadata)


@dg.asset
def waiting(context: dg.AssetExecutionContext) -> None:
    """Wait until the run is ended from outside."""
    context.log.info("waits")
    time.sleep(600)


defs = dg.Definitions([process, waiting], executor=dg.in_process_executor)
