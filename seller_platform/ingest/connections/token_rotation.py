"""Rotates a token pair without losing one; one process at a time refreshes it.

A refresh token works once, so the order is: take the grant's row lock; reserve room on the disk; write the intent to a
journal; send the refresh; write the new pair to a spool file, in that room; commit it; take the row lock again and
delete the spool. Wherever a process ends in between, the next one reads the pair from the database or from the spool.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

from seller_platform.client.oauth.tokens import TokenEndpoint
from seller_platform.clocks import Clock, is_past, utc_now
from seller_platform.contract.tokens import PAIR_ROOM_BYTES, TokenPair
from seller_platform.errors import (
    GrantSpoolError,
    InvalidSettingError,
    NotConnectedError,
    ReauthorizationRequiredError,
    SecretKeyError,
    TokenRefusedError,
    UpstreamError,
    WarehouseUnavailableError,
)
from seller_platform.failpoints import reach
from seller_platform.files import delete, make_folders, write_atomically
from seller_platform.warehouse.connections.grants import Grants, LockedGrant, open_pair, seal_pair
from seller_platform.warehouse.connections.secrets import SecretBox

SPOOL_FOLDER = "grants"

_REFRESH_AGAIN = timedelta(minutes=5)
"""How long after a refresh that got no answer another is sent, at the latest, while the access token is valid."""

_LOG = logging.getLogger(__name__)


class PairSpool:
    """Keeps a connection's newest pair on disk until it is committed."""

    def __init__(self, folder: Path, connection: str, box: SecretBox) -> None:
        self._pair = folder / f"{quote(connection, safe='')}.pair"
        self._intent = folder / f"{quote(connection, safe='')}.intent"
        self._room = folder / f"{quote(connection, safe='')}.room"
        self._connection = connection
        self._description = f"the spooled grant of connection {connection!r}"
        self._box = box

    def intend(self, generation: int, at: datetime) -> None:
        """Write the intent to refresh to the journal, and reserve room for the next pair.

        Raises:
            GrantSpoolError: There is no room. The pair must not be refreshed.
        """
        with self._spooling():
            write_atomically(self._room, bytes(PAIR_ROOM_BYTES), 0o600)
            intent = {"generation": generation, "at": at.isoformat()}
            write_atomically(self._intent, json.dumps(intent).encode(), 0o600)

    def interrupted(self, generation: int) -> str | None:
        """Return when an unfinished rotation of the generation began; None if there is none."""
        try:
            intent = json.loads(self._intent.read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return str(intent["at"]) if intent["generation"] == generation else None

    def keep(self, pair: TokenPair, *, in_room: bool = False) -> None:
        """Write a received pair to the spool file, or raise a `GrantSpoolError`.

        Args:
            in_room: Write it into the space on disk that `intend` reserved, while no other process rotates.
        """
        with self._spooling():
            write_atomically(self._pair, seal_pair(self._box, pair), 0o600, room=self._room if in_room else None)

    def kept(self) -> TokenPair | None:
        """Return the pair that was received and never committed, if there is one."""
        try:
            sealed = self._pair.read_bytes()
        except FileNotFoundError:
            return None
        return open_pair(self._box, sealed, self._description)

    def clear(self) -> None:
        """Delete pair and intent, once the pair is committed.

        Raises:
            GrantSpoolError: They cannot be deleted. Their pair is not newer than the stored one.
        """
        with self._spooling():
            delete(self._pair, self._intent, self._room)

    @contextmanager
    def _spooling(self) -> Iterator[None]:
        folder = self._pair.parent
        try:
            make_folders(folder)
            yield
        except OSError as error:
            tokens = f"the tokens of connection {self._connection!r}"
            subject = f"{tokens} cannot be kept in {folder} until the warehouse has them"
            raise GrantSpoolError(subject, error.strerror or str(error)) from error


def spools(folder: Path) -> list[Path]:
    """Return the files of the pairs that are received and not committed yet."""
    return sorted(folder.glob("*.pair"))


def reseal_spools(folder: Path, box: SecretBox) -> int:
    """Encrypt every spooled pair with the first key of the box, and return their number.

    Call it while no process rotates. It may write a spool again that was committed meanwhile; that does no harm,
    because its pair is not newer than the stored one.
    """
    count = 0
    for path in spools(folder):
        with suppress(FileNotFoundError):
            write_atomically(path, box.reseal(path.read_bytes(), f"the spooled grant in {path}"), 0o600)
            count += 1
    return count


class GrantKeeper:
    """Gives the tokens of one connection to any number of threads and processes."""

    def __init__(
        self, connection: str, grants: Grants, endpoint: TokenEndpoint, spool: PairSpool, *, now: Clock = utc_now
    ) -> None:
        self.connection = connection
        self._grants, self._endpoint, self._spool, self._now = grants, endpoint, spool, now
        self._lock = threading.Lock()
        self._pair: TokenPair | None = None
        self._refresh_after: datetime | None = None

    def adopt(self, received: TokenPair, *, register: Callable[[], None] = lambda: None) -> None:
        """Store the first pair of a new authorisation.

        Args:
            register: Stores the connection, if it is not stored yet; called once the pair is on disk.
        """
        first = replace(received, authorization=uuid4().hex)
        self._keep(first)
        register()
        self._pair = self._adopted(first)
        self._clear_spool()

    def _adopted(self, first: TokenPair) -> TokenPair:
        """Store the first pair of a new authorisation and return it.

        Another process may have found it on disk, and stored and rotated it already. Then its newer pair is returned.
        """
        try:
            with self._grants.locked(self.connection) as grant:
                if grant.pair.authorization != first.authorization:
                    grant.replace(first)
                return grant.pair
        except (NotConnectedError, SecretKeyError):  # with a new key, the former pair cannot be read
            self._grants.store(self.connection, first)
            return first

    def token(self) -> TokenPair:
        """Return the current pair, rotated first if half its lifetime is over.

        While the access token is valid, a token endpoint that gives no answer stops nothing: it is asked again later.

        Raises:
            NotConnectedError: The connection has no grant.
            ReauthorizationRequiredError: The upstream no longer accepts the grant.
            UpstreamUnavailableError: The access token has expired, and the token endpoint gave no answer.
            GrantSpoolError: There is no room on disk for the next pair; the grant is unchanged.
        """
        with self._lock:
            pair, now = self._pair or self._current(), self._now()
            if now >= pair.expires_at:
                pair = self._rotate(pair.access_token)
            elif pair.is_due(now) and (
                self._refresh_after is None or is_past(self._refresh_after, now, _REFRESH_AGAIN)
            ):
                pair = self._rotated_early(pair, now)
            self._pair = pair
            return pair

    def rotate(self, rejected_access_token: str) -> TokenPair:
        """Return a pair that replaces a rejected one.

        It is the stored pair if another process has replaced it already, otherwise a new pair. Its errors are those of
        `token`; without an answer, the grant is unchanged.
        """
        with self._lock:
            self._pair = self._rotate(rejected_access_token)
            return self._pair

    def _rotated_early(self, pair: TokenPair, now: datetime) -> TokenPair:
        """Return the next pair; the present one, which is still valid, where the token endpoint gives none.

        A grant that the upstream no longer accepts is an error all the same.
        """
        try:
            return self._rotate(pair.access_token)
        except (UpstreamError, InvalidSettingError) as error:  # also a certificate or a proxy
            pause = min(_REFRESH_AGAIN, (pair.expires_at - now) / 4)
            self._refresh_after = now + pause
            until, seconds = pair.expires_at.isoformat(timespec="minutes"), pause.total_seconds()
            message = "%s; the access token of connection %r is valid until %s, and is refreshed again in %d s"
            _LOG.warning(message, error, self.connection, until, seconds)
            return pair

    def _current(self) -> TokenPair:
        if (kept := self._spool.kept()) is not None:
            try:
                with self._grants.locked(self.connection) as grant:
                    self._recover(grant)
            except NotConnectedError:  # the process ended before it stored the first pair of all
                self._adopted(kept)
            self._clear_spool()
        pair, refused = self._grants.current(self.connection)
        if refused is not None:
            raise ReauthorizationRequiredError(self.connection, refused)
        return pair

    def _rotate(self, superseded: str) -> TokenPair:
        with self._grants.locked(self.connection) as grant:
            self._recover(grant)
            refused = grant.refused
            if refused is None and grant.pair.access_token == superseded:
                refused = self._refresh(grant)
        reach("rotation.committed")
        self._clear_spool()
        reach("rotation.cleared")
        if refused is not None:
            raise ReauthorizationRequiredError(self.connection, refused)
        return grant.pair

    def _recover(self, grant: LockedGrant) -> bool:
        """Commit a pair that a process received and did not commit before it ended, and return whether there is one."""
        kept = self._spool.kept()
        if kept is None or not is_newer(kept, grant.pair):
            return False
        grant.replace(kept)
        return True

    def _clear_spool(self) -> None:
        """Delete the files of a rotation that is committed.

        Another process may rotate already: under the row lock, its files are left to it, or to the one after it.
        """
        # Without the warehouse, the files stay until the next rotation. Their pair is not newer than the stored one.
        with suppress(WarehouseUnavailableError), self._grants.locked(self.connection) as grant:
            kept, stored = self._spool.kept(), grant.pair
            is_interrupted = grant.refused is None and self._spool.interrupted(stored.generation) is not None
            if not is_interrupted and (kept is None or not is_newer(kept, stored)):
                try:
                    self._spool.clear()
                except GrantSpoolError as error:
                    _LOG.warning("%s; the next rotation deletes the files of this one, which is committed", error)

    def _refresh(self, grant: LockedGrant) -> str | None:
        """Exchange the grant's refresh token for a new pair.

        Returns:
            Why the upstream refused it; None where it did not.
        """
        interrupted = self._spool.interrupted(grant.pair.generation)
        self._spool.intend(grant.pair.generation, self._now())
        reach("rotation.intended")
        # A restart of the server ends row locks: the process that held this one may have received a pair since.
        if self._recover(grant):
            return None
        try:
            received = self._endpoint.refresh(grant.pair.refresh_token)
        except TokenRefusedError as error:
            # Another application than the one that worked may be refused in the same words.
            if not error.ends_grant or grant.pair.client not in ("", self._endpoint.client):
                raise
            reason = f"the upstream answered {error.answer} to the refresh"
            if interrupted:
                reason += f"; a refresh begun at {interrupted} was cut off before its answer arrived"
            grant.refuse(reason)
            return reason
        reach("rotation.received")
        generation, authorization = grant.pair.generation + 1, grant.pair.authorization
        pair = replace(received, generation=generation, authorization=authorization)
        self._keep(pair, in_room=True)
        reach("rotation.spooled")
        grant.replace(pair)
        reach("rotation.replaced")
        return None

    def _keep(self, pair: TokenPair, *, in_room: bool = False) -> None:
        try:
            self._spool.keep(pair, in_room=in_room)
        except GrantSpoolError as error:  # the warehouse may still be able to store the pair
            _LOG.warning("%s; the new pair is committed without a spool file", error)


def is_newer(kept: TokenPair, stored: TokenPair) -> bool:
    """Whether a pair on disk is newer than the stored one.

    The first pair of a new authorisation has generation 1, whatever the stored one has. Its time decides. A later pair
    replaces only one of the same authorisation.
    """
    if kept.generation == 1:
        return kept.issued_at > stored.issued_at
    return kept.authorization == stored.authorization and kept.generation > stored.generation
