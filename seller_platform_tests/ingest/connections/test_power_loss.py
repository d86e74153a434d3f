"""Tests that no received token pair is lost in a power loss, or while a disk fails."""

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import insert, select, text

from seller_platform.client.oauth.tokens import TokenEndpoint
from seller_platform.contract.tokens import TokenPair
from seller_platform.errors import GrantSpoolError, NotConnectedError, ReauthorizationRequiredError, SettingsError
from seller_platform.failpoints import reach
from seller_platform.ingest.connections.grant_files import GrantFile
from seller_platform.ingest.connections.key_rotation import rotate_key_file
from seller_platform.warehouse.connections.secrets import sealing
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import GRANTS
from seller_platform_tests.ingest.connections.test_token_rotation import START, Issuer, SharedGrant
from seller_platform_tests.support.power_loss import Recording, recorded, restore, unsynced

Facts = tuple[tuple[str, ...], int, tuple[Any, ...]]
"""Failpoints that were reached, pairs that the upstream has issued, and the stored grant."""


def stored(database: Database) -> tuple[Any, ...]:
    return tuple(database.execute(select(GRANTS)).one_or_none() or ())


def after_a_crash(database: Database, facts: Facts, home: Path) -> SharedGrant:
    """Return the grant as the next process finds it."""
    _, issued, row = facts
    with database.begin() as connection:
        connection.execute(GRANTS.delete())
        if row:
            connection.execute(insert(GRANTS).values(dict(zip(GRANTS.c.keys(), row, strict=True))))
    shared = SharedGrant(database, home)
    shared.issuer.number, shared.issuer.valid = issued, f"refresh-{issued}"
    return shared


def connection_before(change: Callable[[SharedGrant], None], database: Database, home: Path) -> SharedGrant:
    """Return a connection with a grant, but without one before the first pair of all is received."""
    if change is not authorise:
        return SharedGrant(database, home).connected()
    database.execute(GRANTS.delete())
    return SharedGrant(database, home)


def authorise(shared: SharedGrant) -> None:
    shared.issuer.number, shared.issuer.valid = 2, "refresh-2"
    pair = TokenPair("access-2", "refresh-2", START + timedelta(days=1), 3600)
    shared.keeper().adopt(pair, register=lambda: reach("kept"))


def rotate(shared: SharedGrant) -> None:
    shared.keeper().rotate("access-1")


def rotate_again(shared: SharedGrant) -> None:
    """Rotate after a rotation that ended before its refresh."""
    shared.spool().intend(1, START)
    rotate(shared)


def authorise_again(shared: SharedGrant) -> None:
    authorise(shared)


def keep_while_the_key_is_replaced(shared: SharedGrant) -> None:
    """Receive a pair that is not committed, and rotate the key."""
    pair = shared.grants.current("default")[0]
    shared.spool().intend(1, START)
    shared.issuer.number, shared.issuer.valid = 2, "refresh-2"
    shared.spool().keep(TokenPair("access-2", "refresh-2", START, 3600, 2, pair.authorization), in_room=True)
    reach("kept")
    rotate_key_file(shared.database, shared.home)


CHANGES = (authorise, rotate, rotate_again, authorise_again, keep_while_the_key_is_replaced)


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_power_loss_the_newest_kept_pair_is_used(
    database: Database, tmp_path: Path, change: Callable[[SharedGrant], None]
) -> None:
    """Only a power loss between the receipt of a pair and its keeping loses it. Then the message says so."""
    shared = connection_before(change, database, tmp_path / "home")

    def facts(recording: Recording) -> Facts:
        return tuple(recording.reached), shared.issuer.number, stored(database)

    with unsynced():
        with recorded(shared.home, observe=facts) as recording:
            change(shared)
        recording.reach("returned")
        for number, ((seen, tree), call) in enumerate(recording.states.items()):
            after = after_a_crash(database, seen, restore(tree, tmp_path / str(number)))
            try:
                pair = after.keeper().token()
                after.keeper().rotate(pair.access_token)
            except (NotConnectedError, ReauthorizationRequiredError) as error:
                assert not {"rotation.spooled", "kept", "returned"} & set(seen[0]), call
                if "rotation.intended" in seen[0]:
                    assert "was cut off before its answer arrived" in str(error)
                after.keeper().adopt(TokenPair("access-9", after.issuer.valid, START + timedelta(days=9), 3600))
                after.keeper().rotate("access-9")

            assert after.files() == [], call
    assert len(recording.states) > 10


@pytest.mark.parametrize("error", [errno.EIO, pytest.param(errno.ENOSPC, marks=pytest.mark.nightly)], ids=os.strerror)
@pytest.mark.parametrize("change", CHANGES)
def test_no_pair_is_lost_while_one_call_of_the_disk_fails(
    database: Database, tmp_path: Path, change: Callable[[SharedGrant], None], error: int
) -> None:
    failed, number = True, 0
    with unsynced():
        while failed:
            shared = connection_before(change, database, tmp_path / str(number))
            with recorded(shared.home, fails=(number, error)) as recording:
                try:
                    change(shared)
                except (GrantSpoolError, OSError) as problem:
                    assert f"{os.strerror(error)} ({recording.calls[number][0]} of " in str(problem)
            failed = number < len(recording.calls)
            number += 1
            pair = shared.keeper().token()
            assert pair.refresh_token == shared.issuer.valid
            shared.keeper().rotate(pair.access_token)

            assert shared.files() == []
    assert number > 10


@pytest.mark.parametrize("shared", [True, False])
def test_secrets_are_on_disk_also_without_synchronous_commit(database: Database, *, shared: bool) -> None:
    with database.begin() as connection:
        name = connection.execute(text("SELECT current_database()")).scalar_one()
        connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
    waits = text("SHOW synchronous_commit")

    with Database(database.url) as hasty:
        with sealing(hasty, shared=shared) as transaction:
            of_secrets = transaction.execute(waits).scalar_one()
        of_rows = hasty.execute(waits).scalar_one()

    assert (of_secrets, of_rows) == ("local", "off")


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=os.strerror)
def test_a_grant_in_a_file_is_not_lost_while_one_call_of_the_disk_fails(tmp_path: Path, error: int) -> None:
    with unsynced():
        for number in count():
            issuer, folder = Issuer(), tmp_path / str(number)
            folder.mkdir()
            file = folder / "grant.json"
            file.write_text(json.dumps({"refresh_token": issuer.valid}))
            endpoint = TokenEndpoint(
                "http://api", "client", "secret", "http://127.0.0.1/cb", httpx.MockTransport(issuer), attempts=1
            )
            with recorded(folder, fails=(number, error)) as recording, suppress(SettingsError):
                GrantFile(file, endpoint).token()

            assert json.loads(file.read_text())["refresh_token"] == issuer.valid
            GrantFile(file, endpoint).rotate(json.loads(file.read_text()).get("access_token", ""))
            assert sorted(path.name for path in folder.iterdir()) == ["grant.json", "grant.json.lock"]
            if number >= len(recording.calls):
                break
    assert number > 10
