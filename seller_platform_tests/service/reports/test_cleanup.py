"""Tests that the worker deletes expired rows, except those that detect a second use."""

from datetime import timedelta
from functools import partial

import httpx
import pytest

from seller_platform.service.reports.worker import delete_expired
from seller_platform_tests.support.served import ANN, Served, issue_token, submit, with_connection

_TABLES = ("authorizations", "authorization_codes", "access_tokens", "refresh_tokens", "sessions", "login_attempts")


def _tidy(service: Served) -> dict[str, int]:
    deleted = with_connection(service.database.url, partial(delete_expired, kept_days=7))
    return {kind: count for kind, count in deleted.items() if count}


def _counts(service: Served) -> dict[str, int]:
    return {table: service.count_rows(f"service.{table}") for table in _TABLES}


def _age(service: Served, days: float) -> None:
    """Move all times of expiry into the past."""
    passed = timedelta(days=days)
    for table in ("authorization_codes", "access_tokens", "refresh_tokens", "sessions", "login_attempts"):
        service.execute(f"UPDATE service.{table} SET expires_at = expires_at - %s", passed)


def test_nothing_that_is_of_use_is_deleted(service: Served, browser: httpx.Client) -> None:
    pair = service.exchange(browser, service.code(browser)).json()
    service.execute("INSERT INTO service.login_attempts VALUES ('account 1', 1, now())")
    before = _counts(service)

    assert _tidy(service) == {}
    assert _counts(service) == before
    assert service.refresh(browser, pair["refresh_token"]).status_code == 200


def test_a_consent_is_deleted_when_all_of_it_has_expired(service: Served) -> None:
    with service.client() as browser, service.client() as other:
        service.exchange(browser, service.code(browser))
        submit(other, other.get("/login"), email=ANN, password="wrong")
        _age(service, 16)
        after_access = _tidy(service)
        _age(service, 16)
        after_refresh = _tidy(service)

    assert after_access == {"access tokens": 1, "sessions": 1, "login attempts": 2}
    assert after_refresh == {"refresh tokens": 1, "consents": 1}
    assert _counts(service) == dict.fromkeys(_TABLES, 0)


@pytest.mark.parametrize("again", ["refresh token", "code"])
def test_a_second_use_still_revokes_consent_after_deletion(service: Served, again: str, browser: httpx.Client) -> None:
    code = service.code(browser)
    first = service.exchange(browser, code).json()
    _age(service, 20)  # the first access token and the code have expired; the first refresh token is used, and has not
    second = service.refresh(browser, first["refresh_token"]).json()
    assert "access tokens" in _tidy(service)

    refused = service.exchange(browser, code) if again == "code" else service.refresh(browser, first["refresh_token"])
    ended = service.refresh(browser, second["refresh_token"])

    for answer in (refused, ended):
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


def test_what_has_ended_or_expired_otherwise_is_deleted(service: Served, browser: httpx.Client) -> None:
    service.code(browser)  # is not used
    issue_token(service.database, ANN)
    for statement in (
        "UPDATE service.authorization_codes SET expires_at = now() - interval '2 hours'",
        "UPDATE service.authorizations SET revoked_at = now() - interval '2 hours' "
        "WHERE family IN (SELECT family FROM service.access_tokens)",
        "INSERT INTO service.reset_links SELECT 'a', min(id), now(), now() - interval '2 hours' FROM service.users",
        "INSERT INTO service.security_events (at, kind) VALUES (now() - interval '401 days', 'logged_out')",
    ):
        service.execute(statement)

    assert _tidy(service) == {"consents": 2, "reset links": 1, "security events": 1}
    assert (_counts(service)["access_tokens"], _counts(service)["authorization_codes"]) == (0, 0)
