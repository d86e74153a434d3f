"""Tests that `doctor` detects each problem and prints the step that fixes it."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from dagster._daemon.types import DaemonHeartbeat
from sqlalchemy import text

from seller_platform.cli.doctor.command import (
    examine_connections,
    examine_dagster,
    examine_durability,
    examine_postgresql,
    examine_secrets,
)
from seller_platform.cli.doctor.connection_checks import examine_connection, examine_settings_to_connect
from seller_platform.cli.doctor.findings import Finding, FindingLevel
from seller_platform.cli.doctor.local_checks import examine_disk, examine_home, examine_key, examine_machine
from seller_platform.commands import keep_start
from seller_platform.contract import Account
from seller_platform.contract.tokens import TokenPair
from seller_platform.errors import MissingRightError
from seller_platform.ingest.connections.upstream import Upstream, open_keeper, store_upstream
from seller_platform.orchestration.instance.home import open_instance
from seller_platform.settings import read_settings
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform.warehouse.connections.secrets import SecretBox, key_file, new_key, secret_box, write_keys
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.health import DatabaseHealth, check_health
from seller_platform.warehouse.postgres.versions import SchemaVersion, revisions
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.postgres import drop_database
from seller_platform_tests.support.processes import free_port
from seller_platform_tests.support.raw_server import Answer, serving

pytestmark = pytest.mark.slow

TODAY = date(2026, 3, 1)
SHOP = Account(41, "Shop", "DE", "EUR", "Europe/Berlin", "market.example", "A1FOREIGN")
SOUND = DatabaseHealth(
    major=16,
    version="16.2",
    is_read_only=False,
    may_create=True,
    size_bytes=10 << 20,
    unsafe=(),
    schema=SchemaVersion(revisions()[-1], revisions()[-1]),
)


@pytest.fixture(autouse=True)
def _fresh_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path / "home"))


def only(findings: Iterator[Finding] | list[Finding], verdict: FindingLevel) -> Finding:
    """Return the only finding of a verdict, and check its next step."""
    matching = [finding for finding in findings if finding.level is verdict]
    assert len(matching) == 1, matching
    assert bool(matching[0].next_step) == (verdict is not FindingLevel.OK)
    return matching[0]


@pytest.mark.parametrize(
    ("finding", "verdict", "message"),
    [
        (examine_disk("disk", 64 << 30, Path("/x")), FindingLevel.OK, "64.0 GiB free at /x"),
        (examine_disk("disk", 500 << 20, Path("/x")), FindingLevel.WARN, "0.5 GiB"),
        (examine_disk("disk", 1 << 20, Path("/x")), FindingLevel.FAIL, "0.0 GiB"),
    ],
)
def test_the_machine(finding: Finding, verdict: FindingLevel, message: str) -> None:
    assert message in only([finding], verdict).message


def test_a_history_that_begins_in_the_future_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HISTORY_START", "2026-03-02")

    assert "2026-03-02 is in the future" in only(examine_machine(read_settings(), TODAY), FindingLevel.FAIL).message


@pytest.mark.parametrize(
    ("home", "message"),
    [
        (Path("/proc/nowhere"), "cannot be created in /proc"),
        (Path("/proc/self"), "cannot be written"),
        (Path(__file__) / "home", "is not a folder"),
    ],
)
def test_a_home_folder_that_cannot_be_used(home: Path, message: str) -> None:
    assert message in only(examine_home(home), FindingLevel.FAIL).message


@pytest.mark.parametrize(("mode", "verdict"), [(0o733, FindingLevel.FAIL), (0o755, FindingLevel.WARN)])
def test_a_home_folder_that_others_can_use(tmp_path: Path, mode: int, verdict: FindingLevel) -> None:
    tmp_path.chmod(mode)

    assert str(tmp_path) in only(examine_home(tmp_path), verdict).next_step


@pytest.mark.parametrize("name", ["secret.key", "grants/default.pair"])
def test_a_secret_file_that_others_can_read(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    secret_box(home, None)
    (home / name).parent.mkdir(exist_ok=True)
    (home / name).touch()
    (home / name).chmod(0o640)

    assert "chmod 600" in only(examine_home(home), FindingLevel.FAIL).next_step


def test_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = key_file(tmp_path / "home")

    missing = only([examine_key(read_settings())], FindingLevel.OK)
    secret_box(file.parent, None)
    sound = only([examine_key(read_settings())], FindingLevel.OK)
    write_keys(file, (new_key(), new_key()))
    rotating = only([examine_key(read_settings())], FindingLevel.WARN)
    file.write_text("canary")
    broken = only([examine_key(read_settings())], FindingLevel.FAIL)
    monkeypatch.setenv("SELLER_PLATFORM_SECRET_KEY", "canary")
    wrong = only([examine_key(read_settings())], FindingLevel.FAIL)

    assert "created on first use" in missing.message
    assert sound.message == str(file)
    assert "keys rotate" in rotating.next_step
    assert "canary" not in str((broken, wrong))
    assert "SELLER_PLATFORM_SECRET_KEY" in wrong.message


@pytest.mark.parametrize(
    ("condition", "verdict", "message"),
    [
        (replace(SOUND, major=13, version="13.14"), FindingLevel.FAIL, "13.14 is too old"),
        (replace(SOUND, is_read_only=True), FindingLevel.FAIL, "can only be read"),
        (replace(SOUND, schema=None), FindingLevel.WARN, "there is none yet"),
        (replace(SOUND, schema=None, may_create=False), FindingLevel.FAIL, "this user may not create it"),
        (
            replace(SOUND, schema=None, missing_right=MissingRightError("the user lacks a right: denied")),
            FindingLevel.FAIL,
            "the user lacks a right: denied",
        ),
        (replace(SOUND, schema=SchemaVersion("9999", "9999")), FindingLevel.FAIL, "9999 is unknown to this program"),
    ],
)
def test_postgresql(condition: DatabaseHealth, verdict: FindingLevel, message: str) -> None:
    assert message in only(examine_postgresql(condition, "host/name"), verdict).message


def test_settings_with_which_a_power_loss_takes_rows(postgres: EmbeddedServer) -> None:
    """The server of the tests has fsync and full_page_writes off."""
    with Database(postgres.database("unsafe")) as database, database.begin() as connection:
        connection.execute(text("ALTER DATABASE unsafe SET synchronous_commit = off"))
    with Database(postgres.url("unsafe")) as database:
        findings = list(examine_durability(check_health(database)))
    drop_database(postgres, "unsafe")

    assert [finding.level for finding in findings] == [FindingLevel.FAIL, FindingLevel.WARN, FindingLevel.WARN]
    assert all(
        f"{name} is off" in finding.message and f"ALTER SYSTEM RESET {name}`" in finding.next_step
        for name, finding in zip(("fsync", "full_page_writes", "synchronous_commit"), findings, strict=True)
    )
    assert only(examine_durability(SOUND), FindingLevel.OK).message == "what is committed is on disk"


def test_the_condition_of_a_real_server(postgres: EmbeddedServer, database: Database) -> None:
    sound = check_health(database)
    with Database(postgres.database("to_be_looked_at")) as empty:
        new = check_health(empty)
        migrate(empty)
        empty.execute(text("UPDATE platform.schema_version SET version_num = '0030'"))
        old = check_health(empty)
        with empty.begin() as connection:
            connection.execute(text("ALTER DATABASE to_be_looked_at SET default_transaction_read_only = on"))
            connection.execute(text("CREATE ROLE nobody_special LOGIN"))
    with Database(postgres.url("to_be_looked_at").replace("postgres@", "nobody_special@")) as restricted:
        of_reader = check_health(restricted)
    drop_database(postgres, "to_be_looked_at")

    assert [finding.level for finding in examine_postgresql(sound, "x")] == [FindingLevel.OK, FindingLevel.OK]
    assert (new.schema, new.may_create, new.is_read_only) == (None, True, False)
    assert "version 0030 is unknown" in [*examine_postgresql(old, "x")][1].message
    assert (of_reader.may_create, of_reader.is_read_only, of_reader.schema) == (False, True, None)
    assert of_reader.missing_right is not None


def test_connections_that_runs_need_are_compared_with_those_allowed() -> None:
    enough, few, unbounded = (examine_connections(allowed, runs) for allowed, runs in ((140, 5), (97, 5), (97, None)))

    assert (enough.level, enough.message) == (FindingLevel.OK, "5 runs at once may need 140, and it allows 140")
    assert (few.level, few.next_step) == (
        FindingLevel.WARN,
        "set `max_connections` to 150 and restart it, or lower `max_concurrent_runs` in dagster.yaml",
    )
    assert (unbounded.level, unbounded.message) == (
        FindingLevel.WARN,
        "it allows 97, and any number of runs may execute at once",
    )


@pytest.fixture
def home(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    return tmp_path / "home"


def _dagster(home: Path, database: Database, verdict: FindingLevel, subject: str) -> Finding:
    findings = list(examine_dagster(read_settings(), database, datetime.now(UTC)))
    return only([finding for finding in findings if finding.subject == subject], verdict)


def _alive(home: Path, age: timedelta, **but: bool) -> None:
    with open_instance(home) as instance:
        at = (datetime.now(UTC) - age).timestamp()
        for kind in instance.get_required_daemon_types():
            if but.get(kind.lower(), True):
                instance.add_daemon_heartbeat(DaemonHeartbeat(at, kind, "id", []))


def test_each_state_of_the_daemon_has_its_finding(home: Path, database: Database) -> None:
    never = _dagster(home, database, FindingLevel.OK, "Dagster daemon")
    _alive(home, timedelta(hours=1))
    silent = _dagster(home, database, FindingLevel.WARN, "Dagster daemon")
    _alive(home, timedelta(), sensor=False)
    half = _dagster(home, database, FindingLevel.WARN, "Dagster daemon")
    _alive(home, timedelta())
    alive = _dagster(home, database, FindingLevel.OK, "Dagster daemon")

    assert "none ever ran" in never.message
    assert "last sign of life" in silent.message
    assert "sensor" in half.message
    assert "alive at" in alive.message


def test_a_dagster_instance_that_cannot_be_opened_or_is_not_configured(
    home: Path, database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text("storage: {custom: {module: absent, class: X, config: {}}}")

    broken = _dagster(home, database, FindingLevel.FAIL, "Dagster")
    (tmp_path / "dagster.yaml").unlink()
    bare = _dagster(home, database, FindingLevel.FAIL, "Dagster")

    assert "cannot be opened" in broken.message
    assert "no dagster.yaml" in bare.message


@dataclass
class Connected:
    """A connection to the independent upstream, and the findings of `doctor` about it."""

    upstream: independent_upstream.IndependentUpstream
    stored_upstream: Upstream
    database: Database
    box: SecretBox
    home: Path

    def store(self, upstream: Upstream | None = None) -> None:
        store_upstream(upstream or self.stored_upstream, "ana", self.database, self.box)

    def adopt(self, *, age: timedelta = timedelta()) -> None:
        tokens = self.upstream.issue()
        pair = TokenPair(tokens["access_token"], tokens["refresh_token"], datetime.now(UTC) - age, 1_296_000)
        open_keeper(self.stored_upstream, "ana", self.database, self.box, self.home).adopt(pair)

    def change(self, statement: str) -> None:
        self.database.execute(text(statement))

    def findings(self, box: SecretBox | None = None) -> list[Finding]:
        return list(examine_connection("ana", read_settings(), self.database, box or self.box, datetime.now(UTC)))


@pytest.fixture
def connected(database: Database, tmp_path: Path) -> Iterator[Connected]:
    with independent_upstream.open_independent_upstream(f"http://127.0.0.1:{free_port()}/back") as upstream:
        home = tmp_path / "home"
        built = Connected(upstream, upstream.application, database, secret_box(home, None), home)
        built.store()
        built.adopt()
        save_accounts(database, "ana", [("de-2", SHOP)])
        yield built


def test_a_connection_that_works_is_found_to_and_costs_no_refresh(connected: Connected) -> None:
    findings = connected.findings()

    assert [finding.level for finding in findings] == [FindingLevel.OK] * 4
    assert connected.upstream.refreshes == 0
    assert independent_upstream.CLIENT_SECRET not in str(findings)


@pytest.mark.parametrize(
    ("statement", "verdict", "message", "step"),
    [
        ("DELETE FROM platform.grants", FindingLevel.FAIL, "no grant", "connect --connection ana"),
        ("UPDATE platform.grants SET refused = 'said no'", FindingLevel.FAIL, "said no", "connect --connection ana"),
        ("UPDATE platform.accounts SET retired_at = now()", FindingLevel.WARN, "reads no account", "ask"),
        (
            "UPDATE platform.connections SET client_secret = NULL",
            FindingLevel.FAIL,
            "SELLER_API_CLIENT_SECRET is not set",
            "Set the variable in the environment",
        ),
        (
            "UPDATE platform.connections SET base_url = 'http://127.0.0.1:1'",
            FindingLevel.FAIL,
            "does not answer",
            "--replace --keep-grant",
        ),
    ],
)
def test_a_connection_that_does_not(
    connected: Connected, statement: str, verdict: FindingLevel, message: str, step: str
) -> None:
    connected.change(statement)

    finding = only(connected.findings(), verdict)

    assert message in finding.message
    assert step in finding.next_step
    assert finding.subject == "connection ana"


def test_a_grant_that_is_dying_is_rejected_or_was_not_tried(connected: Connected) -> None:
    connected.adopt(age=timedelta(days=26))
    dying = only(connected.findings(), FindingLevel.WARN)
    connected.adopt()
    connected.upstream.access.clear()
    rejected = only(connected.findings(), FindingLevel.WARN)
    connected.adopt(age=timedelta(days=16))
    expired = connected.findings()

    assert "is not accepted after" in dying.message
    assert "access token is rejected" in rejected.message
    assert [finding.level for finding in expired] == [FindingLevel.OK] * 4
    assert any("was not tried" in finding.message for finding in expired)
    assert connected.upstream.refreshes == 0


def test_a_redirect_port_that_is_taken_matters_to_those_who_must_connect(connected: Connected) -> None:
    port = int(connected.stored_upstream.redirect_uri.split(":")[2].split("/")[0])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with_grant = only(connected.findings(), FindingLevel.WARN)
        connected.change("DELETE FROM platform.grants")
        without = [finding for finding in connected.findings() if finding.level is FindingLevel.FAIL]

    assert f"port {port}" in with_grant.message
    assert [str(port) in finding.message for finding in without] == [False, True]


def test_secrets_that_another_key_sealed(connected: Connected, home: Path) -> None:
    other = SecretBox(new_key())

    finding = only(examine_secrets(read_settings(), connected.database, other), FindingLevel.FAIL)
    of_connection = only(connected.findings(other), FindingLevel.FAIL)

    assert "the grant of connection 'ana'" in finding.message
    assert "the client secret of connection 'ana'" in finding.message
    assert "SELLER_PLATFORM_SECRET_KEY" in of_connection.next_step


@contextmanager
def answering(status: int, **headers: str) -> Iterator[str]:
    """Serve the same answer to every request."""
    with serving(lambda _: Answer(status, headers=headers)) as server:
        yield server.url


@pytest.mark.parametrize(
    ("ahead", "verdict", "message"),
    [
        (timedelta(seconds=150), FindingLevel.WARN, "s ahead of ours"),
        (timedelta(seconds=-150), FindingLevel.WARN, "s behind ours"),
        (timedelta(hours=2), FindingLevel.FAIL, "s ahead of ours"),
    ],
)
def test_clocks_that_differ(connected: Connected, ahead: timedelta, verdict: FindingLevel, message: str) -> None:
    connected.adopt(age=timedelta(days=16))  # no request needs its token
    with answering(200, Date=f"{datetime.now(UTC) + ahead:%a, %d %b %Y %H:%M:%S} GMT") as url:
        connected.store(replace(connected.stored_upstream, base_url=url))

        assert message in only(connected.findings(), verdict).message


@pytest.mark.parametrize(
    ("status", "verdict", "message"), [(403, FindingLevel.FAIL, "answers 403"), (500, FindingLevel.WARN, "tried")]
)
def test_a_grant_that_is_of_no_use(connected: Connected, status: int, verdict: FindingLevel, message: str) -> None:
    with answering(status) as url:
        connected.store(replace(connected.stored_upstream, base_url=url))
        findings = [finding for finding in connected.findings() if "grant" in finding.message]

    assert message in only(findings, verdict).message


def test_before_any_connection_settings_are_looked_at(connected: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    without = only(examine_settings_to_connect(read_settings()), FindingLevel.WARN)
    monkeypatch.setenv("SELLER_API_BASE_URL", connected.stored_upstream.base_url)
    monkeypatch.setenv("SELLER_API_CLIENT_ID", "id")
    monkeypatch.setenv("SELLER_API_CLIENT_SECRET", "canary")
    monkeypatch.setenv("SELLER_API_REDIRECT_URI", "https://elsewhere.example/back")
    findings = list(examine_settings_to_connect(read_settings()))

    assert "SELLER_API_BASE_URL is not set" in without.message
    assert [finding.level for finding in findings] == [FindingLevel.WARN, FindingLevel.OK, FindingLevel.FAIL]
    assert "SELLER_API_REDIRECT_URI" in findings[2].message
    assert "canary" not in str(findings)


def test_the_sandbox_that_is_ended_is_no_problem(connected: Connected) -> None:
    connected.change("UPDATE platform.connections SET base_url = 'http://127.0.0.1:1'")
    keep_start(read_settings().home, [])

    findings = connected.findings()

    assert [finding.level for finding in findings] == [FindingLevel.OK] * 4
    assert "runs while `dev` or `demo` runs" in findings[0].message
