"""Two users of two upstreams in one installation, as people set them up, `doctor` over both, and another secret key."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.processes import connect, document, environment, foreign_environment, free_port, run

pytestmark = [pytest.mark.journey, pytest.mark.dagster_tables]

MONTH = ("--from", "2026-01", "--to", "2026-01")
ANA, BEN = "at-41.ana", "au-42.ben"


@dataclass
class Shell:
    """A person's shell: both upstreams, and variables that name none of them."""

    upstreams: dict[str, independent_upstream.IndependentUpstream]
    database_url: str
    home: Path

    @property
    def bare(self) -> dict[str, str]:
        return environment(
            self.home, SELLER_PLATFORM_DATABASE_URL=self.database_url, SELLER_PLATFORM_HISTORY_START="2026-01-01"
        )

    def pointing_at(self, name: str) -> dict[str, str]:
        return foreign_environment(self.upstreams[name], self.database_url, self.home)

    def connect_both(self) -> "Shell":
        for name in self.upstreams:
            connect(self.pointing_at(name), "--connection", name)
        return self

    def query(self, statement: str) -> list[Any]:
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(statement).fetchall()


@pytest.fixture
def shell(database_url: str, tmp_path: Path) -> Iterator[Shell]:
    with ExitStack() as stack:
        upstreams = {}
        for name, account in zip(("ana", "ben"), independent_upstream.ACCOUNTS, strict=True):
            upstreams[name] = stack.enter_context(
                independent_upstream.open_independent_upstream(f"http://127.0.0.1:{free_port()}/back")
            )
            upstreams[name].accounts = [account]
        yield Shell(upstreams, database_url, tmp_path / "a home")


def test_once_connected_both_are_read_with_no_variable_of_either(shell: Shell) -> None:
    shell.connect_both()

    result = document(run(["sync", "--dataset", "orders", *MONTH, "--json"], shell.bare))

    assert {load["account"] for load in result["loads"]} == {"ana", "ben", ANA, BEN}
    assert shell.query("SELECT count(*) FROM seller.orders") == [(20,)]
    assert all(upstream.replayed == 0 for upstream in shell.upstreams.values())
    dumped = str(shell.query("SELECT c.*, encode(client_secret, 'escape') FROM platform.connections c"))
    assert independent_upstream.CLIENT_SECRET not in dumped


def test_one_that_was_revoked_is_named_and_the_other_is_synced(shell: Shell) -> None:
    shell.connect_both()
    shell.upstreams["ben"].access.clear()
    shell.upstreams["ben"].refresh.clear()

    result = run(["sync", "--dataset", "orders", *MONTH], shell.bare)
    examined = run(["doctor"], shell.bare)
    connect(shell.bare, "--connection", "ben")
    fixed = run(["doctor"], shell.bare)

    assert result.returncode == 3
    assert "`seller-platform connect --connection ben`" in result.stderr
    assert "'ana'" not in result.stderr
    read = shell.query("SELECT account, count(*) FROM platform.loads WHERE dataset = 'orders' GROUP BY 1")
    assert dict(read) == {ANA: 1}
    assert examined.returncode == 5
    assert "connection ben" in examined.stderr
    assert "next: `seller-platform connect --connection ben`" in examined.stdout
    assert "not met: durability." in fixed.stderr, fixed.stdout  # the server of the tests does not sync
    said = examined.stdout + examined.stderr + fixed.stdout + fixed.stderr
    assert independent_upstream.CLIENT_SECRET not in said
    assert (shell.home / "secret.key").read_text() not in said


def test_an_unknown_account_is_named_also_where_nothing_can_be_discovered(shell: Shell) -> None:
    shell.connect_both()
    for upstream in shell.upstreams.values():
        upstream.access.clear()
        upstream.refresh.clear()

    unknown = run(["sync", "--account", "nope", "--dataset", "orders", *MONTH], shell.bare)
    stored = run(["sync", "--dataset", "orders", *MONTH], shell.bare)

    assert unknown.returncode == 2
    assert f"there is no account 'nope'; the accounts are: {ANA}, {BEN}" in unknown.stderr
    assert "New accounts were not discovered: " in unknown.stderr
    assert stored.returncode == 3
    assert "not loaded:" in stored.stderr
    assert "all others" not in stored.stderr
    assert stored.stdout == ""


def test_an_upstream_that_moved_is_followed_without_another_approval(shell: Shell) -> None:
    shell.connect_both()
    moved = shell.upstreams["ben"]
    shell.query("UPDATE platform.connections SET base_url = 'http://127.0.0.1:1' WHERE name = 'ben' RETURNING 1")

    document(run(["connect", "--connection", "ben", "--replace", "--keep-grant", "--json"], shell.pointing_at("ben")))

    assert shell.query("SELECT base_url FROM platform.connections WHERE name = 'ben'") == [(f"{moved.url}/api",)]
    assert shell.query("SELECT min(generation) FROM platform.grants WHERE connection = 'ben'")[0][0] >= 1
    assert run(["sync", "--dataset", "orders", *MONTH], shell.bare).returncode == 0


def test_a_connection_nobody_approved_leaves_nothing_behind(shell: Shell) -> None:
    result = run(["connect", "--connection", "ana", "--no-browser", "--timeout", "1"], shell.pointing_at("ana"))

    assert result.returncode == 3
    assert shell.query("SELECT name FROM platform.connections") == []


def test_doctor_on_a_fresh_machine_makes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "new home"

    result = run(["doctor"], environment(home))

    assert result.returncode == 0, result.stdout + result.stderr
    assert "nothing is connected yet" in result.stdout
    assert not home.exists()


def test_a_key_of_the_environment_is_changed_in_the_order_that_is_told(shell: Shell) -> None:
    variables = shell.pointing_at("ana")

    def keys(key: str, *words: str) -> subprocess.CompletedProcess[str]:
        return run(["keys", *words], {**variables, "SELLER_PLATFORM_SECRET_KEY": key})

    old, other = (keys("", "generate").stdout.strip() for _ in range(2))
    connect({**variables, "SELLER_PLATFORM_SECRET_KEY": old})
    said = keys(old, "rotate")
    new = document(keys(old, "rotate", "--json"))["new_key"]
    too_early = document(keys(f"{old},{new}", "rotate", "--json"))
    changed = document(keys(f"{new},{old}", "rotate", "--json"))
    finished, with_old = keys(new, "rotate", "--finish"), keys(old, "rotate", "--finish")
    synced = run(["sync", "--dataset", "orders", *MONTH], {**variables, "SELLER_PLATFORM_SECRET_KEY": new})

    assert len({old, other, new}) == 3
    assert said.returncode == 0, said.stderr
    assert old not in said.stdout + said.stderr
    assert [line[:2] for line in said.stdout.splitlines()[2:]] == ["1.", "2.", "3.", "4."]
    assert "put the new one first" in too_early["next_step"]
    assert changed["encrypted"] == {"grants": 1, "client_secrets": 1, "spools": 0}
    assert "first key alone" in changed["next_step"]
    assert finished.returncode == 0, finished.stderr
    assert with_old.returncode == 5
    assert "the grant of connection 'default'" in with_old.stderr
    assert new not in with_old.stderr + finished.stdout
    assert synced.returncode == 0, synced.stderr
