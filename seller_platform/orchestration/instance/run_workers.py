"""Run workers that are forked from a process which has imported Dagster and the project.

Dagster's code server starts a new interpreter for every run. Its imports take two to three seconds of CPU time, which
is most of a short run. Here Python's fork server imports the libraries once, at the first run, and every run is a fork
of it. The fork server has one thread, opens no connection and reads no setting: each run loads the definitions itself,
with the settings and the warehouse as they are then. Dagster ends a run, and notices its end, as before.

Dagster has no setting for it, so `fork_run_workers` replaces an attribute of its code server. A new version of Dagster
that names the attribute otherwise starts interpreters again, and the test of this module fails.
"""

import atexit
import sys
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any, cast

from dagster_shared.serdes import deserialize_value

SERVER = "dagster._grpc.server"

# Without the definitions, which read settings. The first and the last three are what a run imports during its work.
_LIBRARIES = (
    "dagster._cli",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._grpc.impl",
    "seller_platform.orchestration.component",
    "seller_platform.orchestration.instance.run_launcher",
    "seller_platform.orchestration.storage",
    "fsspec.implementations.local",
    "psycopg2.extras",
    "upath.implementations.local",
)


class RunWorker(ForkServerProcess):
    """The process of one run, which holds the run's lock."""

    def run(self) -> None:
        """Execute the run, and then the functions registered with `atexit`, which Python omits in a fork."""
        # It imports dagster-postgres, which the code server does without.
        from dagster._grpc.types import ExecuteExternalJobArgs

        from seller_platform.orchestration.instance.run_launcher import attend

        (serialized, *_) = cast("Any", self)._args
        arguments = deserialize_value(serialized, ExecuteExternalJobArgs)
        if arguments.instance_ref is not None:
            self.held = attend(arguments.instance_ref, arguments.run_id)
        try:
            super().run()
        finally:
            atexit._run_exitfuncs()


class _RunWorkers(ForkServerContext):
    Process = RunWorker


def fork_run_workers() -> None:
    """Let Dagster's code server in this process fork its runs; other processes are left as they are.

    So is macOS, whose system libraries do not work in a fork.
    """
    server = sys.modules.get(SERVER)
    if server is None or sys.platform != "linux":
        return
    context = _RunWorkers()
    context.set_forkserver_preload(list(_LIBRARIES))
    # The server that loads the definitions exists already, with an attribute of its own; a property precedes it.
    server.DagsterApiServer._mp_ctx = property(lambda _: context, lambda *_: None)
