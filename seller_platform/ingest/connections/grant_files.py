"""A grant in a file, for a program that has no warehouse."""

import fcntl
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from seller_platform.client.oauth.tokens import TokenEndpoint
from seller_platform.clocks import utc_now
from seller_platform.contract.tokens import PAIR_ROOM_BYTES, TokenPair
from seller_platform.errors import SettingsError, TokenRefusedError
from seller_platform.files import delete, open_lock, write_atomically

_NEVER = datetime.fromtimestamp(0, UTC)


class GrantFile:
    """The token pair in a file. One thread of one process at a time refreshes it.

    The file is a JSON object like the answer of the token endpoint; `refresh_token` is enough. Each refresh replaces
    the file, so that its folder must be writable. A process that is killed during a refresh loses the grant; a
    warehouse does not. Room on the disk is reserved before the refresh.
    """

    def __init__(self, path: Path, endpoint: TokenEndpoint) -> None:
        self._path, self._endpoint = path, endpoint
        self._lock = threading.Lock()

    @property
    def connection(self) -> str:
        """The name of the file, for messages."""
        return str(self._path)

    def token(self) -> TokenPair:
        """Return the pair, refreshed first if half its lifetime is over.

        Raises:
            SettingsError: The file cannot be used, or the upstream refuses its refresh token.
        """
        with self._locked():
            pair = self._read()
            return self._refreshed(pair) if pair.is_due(utc_now()) else pair

    def rotate(self, rejected_access_token: str) -> TokenPair:
        """Return a pair that replaces a rejected one. Its errors are those of `token`."""
        with self._locked():
            pair = self._read()
            return self._refreshed(pair) if pair.access_token == rejected_access_token else pair

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with self._lock, open_lock(self._path.with_name(f"{self._path.name}.lock")) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error

    def _read(self) -> TokenPair:
        try:
            facts = json.loads(self._path.read_bytes())
            issued_at = datetime.fromisoformat(facts["issued_at"]) if "issued_at" in facts else _NEVER
            lifetime = int(facts.get("expires_in", 0))
            return TokenPair(str(facts.get("access_token", "")), str(facts["refresh_token"]), issued_at, lifetime)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self._error("it is not a JSON object with a refresh_token") from None

    def _error(self, problem: str) -> SettingsError:
        return SettingsError(
            f"the grant in {self.connection} cannot be used: {problem}",
            code="GrantFileError",
            step="Write a JSON object with a valid refresh_token to the file, in a folder that the process may write "
            "to.",
        )

    def _refreshed(self, pair: TokenPair) -> TokenPair:
        room = self._path.with_name(f"{self._path.name}.room")
        # A full disk is noticed before the refresh token is spent.
        write_atomically(room, bytes(PAIR_ROOM_BYTES), 0o600)
        try:
            received = self._endpoint.refresh(pair.refresh_token)
        except TokenRefusedError as error:
            delete(room)
            raise self._error(f"the upstream answered {error.error} to its refresh token") from error
        tokens = {"access_token": received.access_token, "refresh_token": received.refresh_token}
        times = {"issued_at": received.issued_at.isoformat(), "expires_in": received.expires_in_seconds}
        write_atomically(self._path, json.dumps(tokens | times).encode(), 0o600, room=room)
        return received
