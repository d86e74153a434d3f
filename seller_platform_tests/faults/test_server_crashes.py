"""Crashes of the embedded server: after its recovery every slice is whole, and what was committed is there."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from seller_platform.contract import dataset_named
from seller_platform.errors import SellerPlatformError
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.broken_connection import Broken
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import answers
from seller_platform_tests.support.power_loss import listening
from seller_platform_tests.support.raw_server import Plan, rewritten
from seller_platform_tests.support.waiting import wait_for
from seller_platform_tests.support.watchdog import folder_of_the_run

pytestmark = pytest.mark.slow

ORDERS, PATH = dataset_named("orders"), "/api/sales/orders"
IN_A_LOAD = ("slice.copied", "slice.deleted", "slice.published", "slice.receipted", "slice.committed")
_STORED = """
SELECT (SELECT count(*) FROM seller.orders), (SELECT sum(rows) FROM platform.slices),
       (SELECT rows FROM platform.loads ORDER BY id DESC LIMIT 1), (SELECT max(product_name) FROM seller.orders)
"""


@pytest.mark.parametrize(
    ("number", "failpoints"),
    [
        pytest.param(signal.SIGKILL, IN_A_LOAD[3:], id="SIGKILL"),
        pytest.param(signal.SIGKILL, IN_A_LOAD, id="SIGKILL everywhere", marks=pytest.mark.nightly),
        pytest.param(signal.SIGQUIT, IN_A_LOAD, id="immediate stop", marks=pytest.mark.nightly),
    ],
)
def test_a_server_that_crashes_in_loads_has_whole_slices_afterwards(
    tmp_path: Path, number: signal.Signals, failpoints: tuple[str, ...]
) -> None:
    with (
        temporary_folder(folder_of_the_run()) as folder,
        independent_upstream.open_independent_upstream("http://127.0.0.1:1/cb") as upstream,
    ):
        server = EmbeddedServer(folder / "postgres")
        url = server.database("shop")
        with Database(url) as database:
            database.migrate(partitions=2)
            broken = Broken(upstream, database, tmp_path)
            broken.site.connect(upstream.issue())
            broken.server.plan = naming("z0")
            rows = broken.load(ORDERS).rows
            for load, failpoint in enumerate(failpoints, start=1):

                def crash(reached: str, failpoint: str = failpoint) -> None:
                    if reached == failpoint:
                        os.kill(int((server.data_folder / "postmaster.pid").read_text().split()[0]), number)
                        wait_for(lambda: not answers(url))

                broken.server.plan = naming(f"z{load}")
                with listening(crash), suppress(SellerPlatformError):
                    broken.load(ORDERS)
                wait_for(server.revive)
                with psycopg.connect(url) as connection:
                    stored = connection.execute(_STORED).fetchone()

                assert stored == (rows, rows, rows, f"z{load if failpoint == 'slice.committed' else 0}")
            again = broken.load(ORDERS)
        server.close()

    assert (again.rows, again.verdict) == (rows, "match")


def naming(name: str) -> Plan:
    """Give the first row of each page of orders another name."""

    def rename(document: dict[str, Any]) -> dict[str, Any]:
        for row in document["data"][:1]:
            row["product_name"] = name
        return document

    return lambda request: rewritten(rename) if request.path == PATH else None
