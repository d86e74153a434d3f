"""Killing `sync` at any moment and running it again ends in the same rows."""

import random
import time
from pathlib import Path

import psycopg
import pytest

from seller_platform.contract import LISTS
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.readers.fingerprints import Fingerprint, fingerprints
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.postgres import drop_database
from seller_platform_tests.support.processes import connect, document, foreign_environment, free_port, run, started

pytestmark = pytest.mark.journey
_SYNC = ["sync", "--from", "2026-01", "--to", "2026-03", "--json"]


def _rows(url: str) -> dict[tuple[str, str], Fingerprint]:
    with Database(url) as database:
        return fingerprints(database, LISTS)


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.nightly)])
def test_a_killed_sync_ends_in_the_same_rows_when_run_again(
    postgres: EmbeddedServer, tmp_path: Path, kills: int
) -> None:
    chance = random.Random(7)
    urls = {name: postgres.database(name, template="template_seller") for name in ("unharmed", "harmed")}
    with independent_upstream.open_independent_upstream(f"http://127.0.0.1:{free_port()}/back") as upstream:
        # A pair that is lost on its way is reported.
        upstream.issue_lasting_tokens()
        unharmed = foreign_environment(upstream, urls["unharmed"], tmp_path / "unharmed")
        connect(unharmed)
        begin = time.monotonic()
        document(run(_SYNC, unharmed))
        seconds = time.monotonic() - begin
        harmed = foreign_environment(upstream, urls["harmed"], tmp_path / "harmed")
        connect(harmed)

        for _ in range(kills):
            with started(_SYNC, harmed) as (killed, _, _):
                time.sleep(chance.uniform(0.1, 1.0) * seconds)
                killed.kill()
                killed.wait()
            for key, (rows, digest) in _rows(urls["harmed"]).items():
                with psycopg.connect(urls["harmed"]) as connection:
                    receipts = connection.execute(
                        "SELECT sum(rows) FROM (SELECT DISTINCT ON (window_start) rows FROM platform.loads "
                        "WHERE dataset = %s AND account = %s ORDER BY window_start, id DESC) AS latest",
                        key,
                    ).fetchone()
                assert receipts == (rows,), (key, digest)
        document(run(_SYNC, harmed))

        assert _rows(urls["harmed"]) == _rows(urls["unharmed"])
        assert upstream.replayed == 0
    for name in urls:
        drop_database(postgres, name)
