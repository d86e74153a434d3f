"""An installation from before the first release is left as it is, and its grant is carried over to a new one."""

from pathlib import Path

import psycopg
import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.contents import contents_of
from seller_platform_tests.support.independent_upstream import open_independent_upstream
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import connect, document, environment, foreign_environment, free_port, run

pytestmark = pytest.mark.journey

_MONTH = ("--from", "2026-01", "--to", "2026-01", "--json")
_FORMER = """
UPDATE platform.schema_version SET version_num = '0101';
ALTER TABLE platform.schema_version DROP compatible_from
"""


def test_a_former_installation_is_left_and_its_grant_goes_on(
    postgres: EmbeddedServer, databases: Databases, database_url: str, tmp_path: Path
) -> None:
    former, new = tmp_path / "former", tmp_path / "new"
    name = databases.lend()
    with open_independent_upstream(f"http://127.0.0.1:{free_port()}/back") as upstream, Database(database_url) as old:
        variables = foreign_environment(upstream, database_url, former)
        connect(variables)
        document(run(["sync", *_MONTH], variables))
        with psycopg.connect(database_url) as connection:
            connection.execute(_FORMER)
        before, files = contents_of(old), _files(former)
        carry = ["connect", "--grant-of", str(former), "--grant-database", database_url, "--json"]
        renewed = environment(
            new, SELLER_PLATFORM_DATABASE_URL=postgres.url(name), SELLER_PLATFORM_HISTORY_START="2026-01-01"
        )

        refusals = [run(words, variables) for words in (["status"], ["sync"], ["migrate"], ["connect"])]
        in_use = run(carry, renewed)
        old.engine.dispose()
        carried = document(run(carry, renewed))
        upstream.access.clear()  # the access token is refused, and so the pair is refreshed
        loaded = document(run(["sync", *_MONTH], renewed))
        again = document(run(carry, renewed))
        loaded_again = document(run(["sync", *_MONTH], renewed))

        assert {refusal.returncode for refusal in refusals} == {1}
        for refusal in refusals:
            assert "schema version 0101, which is from before the first release" in refusal.stderr
            assert "connect --grant-of HOME" in refusal.stderr
        assert in_use.returncode != 0
        assert "programs are connected to" in in_use.stdout
        assert carried == again
        assert len(carried["accounts"]) == 2
        assert upstream.refreshes > 0
        assert upstream.replayed == 0
        assert loaded["loads"]
        assert loaded_again["loads"]
        assert (contents_of(old), _files(former)) == (before, files)
    databases.take_back(name)


def _files(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}
