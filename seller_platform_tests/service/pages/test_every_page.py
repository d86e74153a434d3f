"""Tests what all pages share, for each page among the routes of the service, and the page of an unexpected error."""

import re
from urllib.parse import quote

import httpx
import pytest
from starlette.routing import Route

from seller_platform.contract.wire import AUTHORIZE, DOCS
from seller_platform.service.app import create_app
from seller_platform.service.pages.login import LOGIN, LOGOUT
from seller_platform.service.pages.password import RESET
from seller_platform.service.pages.rendering import HOME
from seller_platform_tests.support.served import (
    ANN,
    BOB,
    CALLBACK,
    CLIENT_ID,
    CSRF_TOKEN,
    PASSWORD,
    Served,
    submit,
    value_in,
)

_PUBLIC = {HOME, LOGIN, LOGOUT, AUTHORIZE, RESET, DOCS}
_FORM = {"name": "Forged", "redirect_uri": "https://forged.example/", "form_id": "a" * 22, "hours": "0"}
_LISTS = ("/admin/developers", "/admin/applications", "/admin/account/sessions")


def page_paths(method: str) -> set[str]:
    """Return the paths of all pages that take a method."""
    return {
        route.path
        for route in create_app("postgresql://nobody@127.0.0.1:1/nothing").routes
        if isinstance(route, Route)
        and method in (route.methods or ())
        and (route.path in _PUBLIC or route.path.startswith("/admin/"))
    }


@pytest.fixture(scope="module")
def shown() -> set[str]:
    """The paths of the pages that need a login."""
    return page_paths("GET") - _PUBLIC


@pytest.fixture(scope="module")
def sent() -> set[str]:
    """The paths of the forms that need a login."""
    return page_paths("POST") - _PUBLIC


def _own_client(user: httpx.Client) -> str:
    answer = submit(user, user.get("/admin/developers/new"), name="Ann's", redirect_uri=CALLBACK)
    return value_in(answer, CLIENT_ID)


def test_a_page_of_a_user_leads_to_the_login_and_back(reading: Served, shown: set[str], sent: set[str]) -> None:
    assert len(shown) > 5
    with reading.client() as browser:
        for path in sent:
            answer = browser.post(re.sub("{.*?}", "a-B_9", path), data=_FORM)
            assert (answer.status_code, answer.headers["location"][:12]) == (303, "/login?next="), path
    for template in shown:
        path = re.sub("{.*?}", "a-B_9", template)
        with reading.client() as browser:
            answer = browser.get(path)
            login = browser.get(answer.headers["location"])

            assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next={quote(path, '')}"), path
            assert submit(browser, login, email=ANN, password=PASSWORD).headers["location"] == path


def test_a_page_allows_no_foreign_code_no_frame_and_no_cache(reading: Served, shown: set[str]) -> None:
    with reading.client() as anonymous, reading.logged_in() as browser:
        pages = [anonymous.get(path) for path in _PUBLIC - {LOGOUT, DOCS}]
        pages += [browser.get(re.sub("{.*?}", reading.client_id, path)) for path in shown]
        pages += [anonymous.get(DOCS), reading.request_code(anonymous), reading.request_code(browser)]

    assert all(">Ann<" in page.text for page in pages if page.request.url.path in shown)
    for page in pages:
        policy = page.headers["content-security-policy"]
        assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; ")), page.url
        assert "unsafe" not in policy
        assert ("<script" in page.text) is ("script-src" in policy), page.url
        assert not re.search(r"\sstyle=|<style|\son\w+=|javascript:", page.text), page.url
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["cache-control"] == ("public, max-age=3600" if page.url.path == DOCS else "no-store")


def test_a_form_of_another_session_changes_nothing(service: Served, sent: set[str], user: httpx.Client) -> None:
    pair, own = service.pair(), _own_client(user)
    before = [user.get(path).text for path in _LISTS]
    for path in sent:
        for token in ("", "0" * 64, "é"):
            client_id = service.client_id if "applications" in path else own
            answer = user.post(re.sub("{.*?}", client_id, path), data={**_FORM, "csrf_token": token})
            assert answer.status_code == 403, path
    assert [user.get(path).text for path in _LISTS] == before
    assert service.status_of(pair["access_token"]) == 200


def test_what_is_of_another_user_is_answered_as_what_is_gone(service: Served, shown: set[str], sent: set[str]) -> None:
    pair = service.pair()
    with service.logged_in(BOB) as bob, service.logged_in() as ann:
        own = _own_client(ann)
        before = [ann.get(path).text for path in _LISTS]
        form = {**_FORM, "csrf_token": value_in(bob.get("/admin/developers/new"), CSRF_TOKEN)}
        for client_id in (own, service.client_id):
            for path in (path for path in shown if "{" in path):
                seen, unknown = (bob.get(re.sub("{.*?}", each, path)) for each in (client_id, "unknown"))
                assert (seen.status_code, seen.text) == (404, unknown.text), path
            for path in (path for path in sent if "{" in path):
                assert bob.post(re.sub("{.*?}", client_id, path), data=form).status_code == 404, path
        assert not {own, service.client_id} & set(re.findall(r"[\w-]{10,}", "".join(bob.get(p).text for p in _LISTS)))
        assert [ann.get(path).text for path in _LISTS] == before
        assert service.status_of(pair["access_token"]) == 200


def test_an_unexpected_error_of_a_page_is_a_page_with_the_request_id(service: Served, user: httpx.Client) -> None:
    service.execute("ALTER TABLE service.sessions RENAME TO sessions_elsewhere")
    answer = user.get("/admin/developers", headers={"X-Request-Id": "my-request"})
    sent = user.post("/admin/developers/new", data={"name": "x"})

    assert (answer.status_code, answer.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert "Internal Server Error" in answer.text
    assert "my-request" in answer.text
    assert "sessions" not in answer.text
    assert (sent.status_code, "Try again</a>" in sent.text) == (500, False)
    assert sent.headers["x-request-id"] in sent.text
