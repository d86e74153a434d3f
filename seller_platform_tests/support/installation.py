"""A warehouse with a connection to an upstream, and processes that use both."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from seller_platform.client.http.api import SellerApi
from seller_platform.contract.tokens import TokenPair
from seller_platform.ingest.connections.upstream import Upstream, open_api, open_keeper
from seller_platform.warehouse.connections.accounts import save_connection
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.folders import temporary_folder

CONNECTION = "default"

# A server that has imported these modules forks each process: hundreds start in the time that one interpreter takes.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(
    [
        "seller_platform.ingest.loads.slices",
        "seller_platform.warehouse.migrations.upgrade",
        "seller_platform_tests.support.installation",
        "seller_platform_tests.support.independent_upstream",
    ]
)


@dataclass(frozen=True)
class Site:
    """Everything that a process needs to call an upstream with the stored grant."""

    database_url: str
    home: Path
    upstream: Upstream

    @contextmanager
    def open(self) -> Iterator[tuple[SellerApi, Database]]:
        """Open the API and the warehouse, as each process does."""
        with Database(self.database_url) as database:
            box = secret_box(self.home, None)
            with open_api(self.upstream, CONNECTION, database, box, self.home) as api:
                yield api, database

    def connect(self, issued: dict[str, Any]) -> None:
        """Store the connection with the tokens that the upstream issued."""
        pair = TokenPair(issued["access_token"], issued["refresh_token"], datetime.now(UTC), int(issued["expires_in"]))
        with Database(self.database_url) as database:
            save_connection(database, self.upstream.as_connection(CONNECTION))
            box = secret_box(self.home, None)
            open_keeper(self.upstream, CONNECTION, database, box, self.home).adopt(pair)


@contextmanager
def temporary_server() -> Iterator[tuple[EmbeddedServer, Path]]:
    """Run a separate PostgreSQL server, and yield it with its temporary folder."""
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        try:
            yield server, folder
        finally:
            server.close()


def begin(work: Callable[..., None], *arguments: Any) -> tuple[ForkServerProcess, Any]:
    """Start a process that runs a function, and return it with a pipe to it.

    Args:
        work: A function of a module; it is called with the other end of the pipe and the arguments.
    """
    parent_end, child_end = _PROCESSES.Pipe()
    process = _PROCESSES.Process(target=work, args=(child_end, *arguments), daemon=True)
    process.start()
    child_end.close()
    return process, parent_end
