"""Tests that a backup is restored completely, in one transaction, or not at all."""

import subprocess
from pathlib import Path

import pytest
from sqlalchemy import text

from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.errors import BackupError
from seller_platform.warehouse.connections.accounts import KnownConnection, connections, save_connection
from seller_platform.warehouse.loads.fingerprints import fingerprints
from seller_platform.warehouse.postgres.backup import back_up, restore
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.postgres import drop_database

pytestmark = pytest.mark.slow

ANA = KnownConnection("ana", "http://api", "http://auth", "client")


@pytest.fixture
def filled(database: Database) -> Database:
    save_connection(database, ANA)
    with database.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO seller.transactions (posted_date, description, amount, local_day, account, load_id, page) "
                "SELECT now(), 'ünï\n' || n, n / 100.0, DATE '2026-03-01', 'S1.US', 1, 1 FROM generate_series(1, 500) n"
            )
        )
    return database


def test_a_restored_database_has_all_rows_of_the_backup(
    filled: Database, database_url: str, postgres: EmbeddedServer, tmp_path: Path
) -> None:
    file, elsewhere = tmp_path / "a backup", postgres.database("test_restored")

    back_up(database_url, file)
    restore(elsewhere, file)

    with Database(elsewhere) as restored:
        assert fingerprints(restored, [TRANSACTIONS]) == fingerprints(filled, [TRANSACTIONS])
        assert connections(restored) == connections(filled)
        assert restored.version() == filled.version()
        restored.migrate()
    drop_database(postgres, "test_restored")
    assert [(each.name, each.stat().st_mode & 0o777) for each in tmp_path.iterdir()] == [("a backup", 0o600)]


def test_a_database_that_holds_something_is_not_restored_over(
    filled: Database, database_url: str, tmp_path: Path
) -> None:
    back_up(database_url, tmp_path / "backup")

    with pytest.raises(BackupError, match="tables already; name one that is empty"):
        restore(database_url, tmp_path / "backup")


def test_a_file_that_is_no_backup_restores_nothing(postgres: EmbeddedServer, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("not a backup")
    elsewhere = postgres.database("test_not_restored")

    with pytest.raises(BackupError, match="pg_restore said"):
        restore(elsewhere, tmp_path / "other")
    with pytest.raises(BackupError, match="no such file"):
        restore(elsewhere, tmp_path / "nothing")

    drop_database(postgres, "test_not_restored")


def test_a_backup_that_fails_leaves_the_former_one(tmp_path: Path, postgres: EmbeddedServer) -> None:
    file = tmp_path / "backup"
    file.write_text("the former")

    with pytest.raises(BackupError, match="does not exist"):
        back_up(postgres.url("there_is_none"), file)

    assert file.read_text() == "the former"
    assert [each.name for each in tmp_path.iterdir()] == ["backup"]


def test_the_password_is_not_in_the_list_of_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands: list[list[str]] = []

    def look(command: list[str], **options: object) -> None:
        commands.append([str(word) for word in command])
        raise subprocess.CalledProcessError(1, command, stderr="seen enough")

    monkeypatch.setattr(subprocess, "run", look)
    with pytest.raises(BackupError):
        back_up("postgresql://ana:canary-password@db.example:5433/shop", tmp_path / "backup")

    assert commands
    assert "canary-password" not in " ".join(commands[0])
