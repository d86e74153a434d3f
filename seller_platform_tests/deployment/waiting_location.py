"""A code location with one job, whose runs wait for a file."""

import os
import time
from pathlib import Path

import dagster as dg

FOLDER = Path(os.environ.get("WAITING_LOCATION_FOLDER", "."))


@dg.op
def wait(context: dg.OpExecutionContext) -> None:
    """Write the process id to a file, and wait for the file `go`."""
    (FOLDER / f"{context.run_id}.begun").write_text(str(os.getpid()))
    while not (FOLDER / "go").exists():
        time.sleep(0.1)


@dg.job
def waiting() -> None:
    """Wait."""
    wait()


defs = dg.Definitions(jobs=[waiting], executor=dg.in_process_executor)
