"""A warehouse that is connected to an upstream, with loading processes for tests of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import psycopg

from seller_platform.contract import Window, dataset_named
from seller_platform.ingest.connections.upstream import open_api
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.ingest.workers.pool import LoadingProcesses
from seller_platform.ingest.workers.tasks import LoadTask, OwnLoader
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.broken_connection import BERLIN
from seller_platform_tests.support.independent_upstream import IndependentUpstream

NOW = datetime(2026, 4, 20, tzinfo=UTC)


@dataclass(frozen=True)
class Connected:
    """An upstream, and a warehouse that is connected to it."""

    upstream: IndependentUpstream
    database: Database
    settings: Settings

    @contextmanager
    def processes(self) -> Iterator[LoadingProcesses]:
        """Run loading processes until the block ends."""
        processes = LoadingProcesses(self.settings, self.database.url)
        try:
            yield processes
        finally:
            processes.end()

    @contextmanager
    def own_loader(self) -> Iterator[OwnLoader]:
        """Load in this process until the block ends."""
        box, home = secret_box(self.settings.home, None), self.settings.home
        with open_api(self.upstream.application, "default", self.database, box, home) as api:
            yield OwnLoader(self.database, lambda _: api)

    def rows(self, name: str) -> int:
        with psycopg.connect(self.database.url) as connection:
            row = connection.execute(f"SELECT count(*) FROM seller.{name}").fetchone()
            assert row is not None
            return int(row[0])


def task_of(name: str, month: date | None, account: str = BERLIN.key) -> LoadTask:
    window = None if month is None else Window.month_of(month)
    return LoadTask(SliceRequest(dataset_named(name), account, window), NOW, whole=True, run_id="run")


def never(*_: object) -> Any:
    raise AssertionError("this process loads nothing")


NO_OWN = OwnLoader(None, never)  # type: ignore[arg-type]  # it is never asked


def load_in(processes: LoadingProcesses, task: LoadTask, own: OwnLoader = NO_OWN) -> Receipt | None:
    return processes.load(task, never, own)
