"""Tests the table of security events: what is recorded, and that it stays."""

import psycopg
import pytest

from seller_platform.service.security_events import EventKind, record_operator_event
from seller_platform.warehouse.postgres.database import Database


def test_events_are_never_changed_and_deleted_only_after_their_retention(database: Database, database_url: str) -> None:
    with database.begin() as connection:
        record_operator_event(connection, EventKind.USER_CLOSED, user_id=7, details={"email": "ann@example.com"})

    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO service.security_events (at, kind) VALUES (now() - interval '401 days', 'logged_out')"
        )
        for statement in (
            "UPDATE service.security_events SET user_id = 8",
            "DELETE FROM service.security_events",
            "TRUNCATE service.security_events",
        ):
            with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                connection.execute(statement)
        connection.execute("DELETE FROM service.security_events WHERE at < now() - interval '400 days'")
        stored = connection.execute("SELECT kind, user_id, details FROM service.security_events").fetchall()

    assert stored == [("user_closed", 7, {"email": "ann@example.com"})]
