"""Tests that one process refreshes, and that no received token pair is lost."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import pytest

from seller_platform.client.oauth.tokens import TokenEndpoint
from seller_platform.contract.tokens import TokenPair
from seller_platform.errors import ReauthorizationRequiredError, TokenRefusedError, UpstreamUnavailableError
from seller_platform.ingest.connections.token_rotation import GrantKeeper, PairSpool, is_newer
from seller_platform.warehouse.connections.accounts import KnownConnection, save_connection
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.postgres.database import Database

START = datetime(2026, 3, 1, tzinfo=UTC)


class Issuer:
    """A token endpoint whose refresh tokens work once."""

    def __init__(self) -> None:
        self.number, self.valid, self.requests = 1, "refresh-1", 0
        self.error: tuple[int, object] | None = None
        self.refusals = 1 << 30
        """How many requests get the error."""
        self._lock = threading.Lock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self.requests += 1
            form = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
            if self.error and self.refusals > 0:
                self.refusals -= 1
                status, body = self.error
                return httpx.Response(status, json={"error": body} if isinstance(body, str) else body)
            if form["refresh_token"] != self.valid:
                return httpx.Response(400, json={"error": "invalid_grant"})
            self.number += 1
            self.valid = f"refresh-{self.number}"
            return httpx.Response(
                200,
                json={
                    "token_type": "Bearer",
                    "expires_in": 3600,
                    "access_token": f"access-{self.number}",
                    "refresh_token": self.valid,
                },
            )


class SharedGrant:
    """Token keepers with a common database and folder, as in several processes."""

    def __init__(self, database: Database, home: Path) -> None:
        self.database, self.home, self.issuer = database, home, Issuer()
        self.box = secret_box(home, None)
        self.grants = Grants(database, self.box)
        self.now = START
        save_connection(database, KnownConnection("default", "http://api", "http://api", "client"))

    def spool(self) -> PairSpool:
        return PairSpool(self.home / "grants", "default", self.box)

    def keeper(self) -> GrantKeeper:
        transport, back = httpx.MockTransport(self.issuer), "http://127.0.0.1/cb"
        endpoint = TokenEndpoint("http://api", "client", "secret", back, transport, attempts=1, doubt_seconds=0)
        return GrantKeeper("default", self.grants, endpoint, self.spool(), now=lambda: self.now)

    def connected(self) -> "SharedGrant":
        self.keeper().adopt(TokenPair("access-1", "refresh-1", START, 3600))
        return self

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.home / "grants").iterdir())


@pytest.fixture
def shared(database: Database, tmp_path: Path) -> SharedGrant:
    return SharedGrant(database, tmp_path).connected()


def test_a_pair_is_used_until_half_its_life_is_over(shared: SharedGrant) -> None:
    keeper = shared.keeper()

    shared.now = START + timedelta(minutes=29)
    young = keeper.token()
    shared.now = START + timedelta(minutes=31)
    old = keeper.token()

    assert (young.access_token, old.access_token) == ("access-1", "access-2")
    assert shared.grants.current("default")[0].generation == 2
    assert shared.files() == []


def test_a_refused_grant_stays_refused_until_authorised_again(shared: SharedGrant) -> None:
    shared.issuer.valid = "another"

    with pytest.raises(ReauthorizationRequiredError, match="seller-platform connect"):
        shared.keeper().rotate("access-1")
    with pytest.raises(ReauthorizationRequiredError):
        shared.keeper().token()
    assert shared.issuer.requests == 1

    shared.keeper().adopt(TokenPair("access-9", "refresh-9", START, 3600))
    assert shared.keeper().token().access_token == "access-9"


def test_a_running_process_uses_a_new_authorisation_on_disk(shared: SharedGrant) -> None:
    running = shared.keeper()
    shared.issuer.valid = "another"
    with pytest.raises(ReauthorizationRequiredError):
        running.rotate("access-1")
    with pytest.raises(KeyboardInterrupt):
        shared.keeper().adopt(TokenPair("access-9", "refresh-9", datetime.now(UTC), 3600), register=interrupted)

    pair = running.rotate("access-1")

    assert pair.access_token == "access-9"
    assert shared.grants.current("default") == (pair, None)


def test_a_slow_authorisation_keeps_the_pair_that_another_process_rotated(shared: SharedGrant) -> None:
    shared.issuer.valid = "refresh-9"

    def overtaken() -> None:
        shared.keeper().rotate("access-9")

    shared.keeper().adopt(TokenPair("access-9", "refresh-9", datetime.now(UTC), 3600), register=overtaken)

    assert shared.grants.current("default")[0].refresh_token == shared.issuer.valid == "refresh-2"


def test_a_new_authorisation_replaces_a_pair_whose_key_is_lost(shared: SharedGrant, tmp_path: Path) -> None:
    elsewhere = SharedGrant(shared.database, tmp_path / "new")

    elsewhere.keeper().adopt(TokenPair("access-9", "refresh-9", START, 3600))

    assert elsewhere.keeper().token().access_token == "access-9"


def interrupted() -> None:
    """End a process after its pair is on disk and before it is stored."""
    raise KeyboardInterrupt


# What Laravel Passport answers, and others in words of their own.
OTHER_WORDS = [
    (401, {"error": "invalid_request", "hint": "Cannot decrypt", "message": "The refresh token is invalid."}),
    (400, "invalid_token"),
    (400, {"error": {"code": "TokenExpired", "message": "gone"}}),
    (422, {"message": "The refresh token is unknown.", "errors": {}}),
    (200, "invalid_request"),
    (200, {"status": "error", "message": "Unauthenticated."}),
    (401, {}),
]


def _problems(shared: SharedGrant) -> list[tuple[str, str]]:
    with shared.database.begin() as connection:
        rows = connection.exec_driver_sql("SELECT kind, message FROM platform.problems WHERE kind = 'refused'")
        return [(row[0], row[1]) for row in rows]


@pytest.mark.parametrize("error", OTHER_WORDS)
def test_a_refresh_refused_twice_in_other_words_ends_the_grant(shared: SharedGrant, error: tuple[int, object]) -> None:
    shared.issuer.error = error
    shared.now = START + timedelta(minutes=31)  # its access token is valid

    for _ in range(3):
        with pytest.raises(ReauthorizationRequiredError, match="Run `seller-platform connect`"):
            shared.keeper().token()

    ((_, reason),) = _problems(shared)
    assert "must be authorised again: the upstream answered" in reason
    assert ".." not in reason and ".)" not in reason
    assert shared.issuer.requests == 2
    assert shared.grants.current("default")[0].refresh_token == "refresh-1"


@pytest.mark.parametrize("error", [*OTHER_WORDS, (400, "temporarily_unavailable")])
def test_a_refresh_refused_once_in_other_words_loses_nothing(shared: SharedGrant, error: tuple[int, object]) -> None:
    shared.issuer.error, shared.issuer.refusals = error, 1
    keeper, shared.now = shared.keeper(), START + timedelta(minutes=31)

    keeper.token()
    shared.now += timedelta(minutes=6)

    assert keeper.token().access_token == "access-2"
    assert _problems(shared) == []


def test_an_application_that_never_worked_ends_no_grant(shared: SharedGrant) -> None:
    with shared.grants.locked("default") as grant:
        grant.replace(replace(grant.pair, client="another"))
    shared.issuer.error = OTHER_WORDS[0]

    with pytest.raises(TokenRefusedError, match="Check SELLER_API_CLIENT_ID"):
        shared.keeper().rotate("access-1")
    shared.issuer.error = None

    assert shared.keeper().rotate("access-1").access_token == "access-2"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ((401, "invalid_client"), TokenRefusedError),
        ((400, "invalid_client"), TokenRefusedError),
        ((403, {"message": "Forbidden"}), TokenRefusedError),
        ((404, "Not Found"), TokenRefusedError),
        ((400, "server_error"), UpstreamUnavailableError),
        ((500, "oops"), UpstreamUnavailableError),
    ],
)
def test_a_refresh_that_fails_otherwise_keeps_the_tokens(
    shared: SharedGrant, error: tuple[int, object], expected: type[Exception]
) -> None:
    shared.issuer.error = error
    with pytest.raises(expected, match="the client secret is wrong" if error[1] == "invalid_client" else None):
        shared.keeper().rotate("access-1")

    shared.issuer.error = None

    assert shared.keeper().rotate("access-1").access_token == "access-2"


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_failed_refresh_stops_nothing_while_the_access_token_is_valid(shared: SharedGrant, status: int) -> None:
    keeper = shared.keeper()
    shared.issuer.error = (status, "oops")
    tokens = []

    for minutes in (31, 32, 35.9, 36.1, 59, 59.22, 59.26):
        shared.now = START + timedelta(minutes=minutes)
        tokens.append((keeper.token().access_token, shared.issuer.requests))
    shared.issuer.error = None

    # It is asked again after five minutes, and sooner when the access token has not long to live.
    assert tokens == [("access-1", asked) for asked in (1, 1, 1, 2, 3, 3, 4)]
    shared.now = START + timedelta(minutes=59, seconds=30)
    assert keeper.token().access_token == "access-2"


@pytest.mark.parametrize("minutes", [60, 61])
def test_a_failed_refresh_is_an_error_once_the_access_token_has_expired(shared: SharedGrant, minutes: int) -> None:
    keeper = shared.keeper()
    shared.issuer.error = (502, "oops")
    shared.now = START + timedelta(minutes=31)
    keeper.token()

    shared.now = START + timedelta(minutes=minutes)

    with pytest.raises(UpstreamUnavailableError):
        keeper.token()


def test_an_intent_is_of_one_generation_and_one_that_is_cut_is_none(shared: SharedGrant) -> None:
    shared.spool().intend(2, START)
    begun = [shared.spool().interrupted(generation) for generation in (1, 2, 3)]
    (shared.home / "grants" / "default.intent").write_text('{"generation"')

    assert begun == [None, START.isoformat(), None]
    assert shared.spool().interrupted(2) is None


@pytest.mark.parametrize(
    ("generation", "seconds", "authorization", "expected"),
    [
        (1, 1, "other", True),
        (1, 0, "other", False),
        (1, -1, "other", False),
        (2, 9, "same", False),
        (3, 9, "same", False),
        (4, -9, "same", True),
        (4, 9, "other", False),
        (4, 9, "a later one", False),
    ],
)
def test_a_pair_is_newer_by_its_time_or_its_generation(
    generation: int, seconds: int, authorization: str, expected: bool
) -> None:
    stored = TokenPair("a", "r", START, 3600, 3, "same")
    kept = replace(stored, generation=generation, authorization=authorization)

    assert is_newer(replace(kept, issued_at=START + timedelta(seconds=seconds)), stored) is expected


def test_room_for_any_pair_is_reserved_before_a_refresh(shared: SharedGrant) -> None:
    shared.spool().intend(1, START)

    assert (shared.home / "grants" / "default.room").stat().st_size == 65_536


def test_nothing_on_disk_can_be_read(shared: SharedGrant) -> None:
    shared.spool().keep(TokenPair("access-2", "refresh-2", START, 3600, 2))
    shared.spool().intend(2, START)

    for path in (shared.home / "grants").iterdir():
        assert b"access-" not in path.read_bytes()
        assert b"refresh-" not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0
