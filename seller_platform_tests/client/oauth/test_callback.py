"""Tests that the callback accepts only the code of our own request."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from seller_platform.client.oauth.callback import CallbackServer
from seller_platform.errors import AuthorizationDeniedError, InvalidSettingError
from seller_platform_tests.support.processes import free_port
from seller_platform_tests.support.waiting import PATIENCE_SECONDS


class Waiting:
    """A callback server, and a thread that waits for its code."""

    def __init__(self, server: CallbackServer, address: str) -> None:
        self.address, self._server = address, server
        self.result: str | Exception | None = None
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.address + path, timeout=PATIENCE_SECONDS)

    def end(self) -> str | Exception | None:
        self._thread.join(PATIENCE_SECONDS)
        return self.result

    def _wait(self) -> None:
        try:
            self.result = self._server.wait(PATIENCE_SECONDS)
        except AuthorizationDeniedError as error:
            self.result = error


@contextmanager
def waiting(issuer: str | None = None) -> Iterator[Waiting]:
    address = f"http://127.0.0.1:{free_port()}"
    with CallbackServer(f"{address}/callback", "right", issuer) as server:
        callback = Waiting(server, address)
        yield callback
        callback.end()


def test_the_code_arrives_with_our_state_whatever_else_is_sent() -> None:
    with waiting() as callback:
        answer = callback.get("/callback?code=the-code&state=right&scope=all&session=1")

        assert callback.end() == "the-code"

    assert answer.status_code == 200 and "close this window" in answer.text
    assert "the-code" not in answer.text and answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("issuer", "sent", "expected"),
    [
        ("https://api.example", "&iss=https%3A%2F%2Fapi.example", "the-code"),
        ("https://api.example", "&iss=https%3A%2F%2Fevil.example", "the answer came from https://evil.example"),
        ("https://api.example", "", "the answer came from an unnamed issuer, not from https://api.example"),
        (None, "&iss=https%3A%2F%2Fany.example", "the-code"),
    ],
)
def test_the_answer_must_come_from_the_issuer_where_it_is_known(issuer: str | None, sent: str, expected: str) -> None:
    with waiting(issuer) as callback:
        callback.get(f"/callback?code=the-code&state=right{sent}")

        assert expected in str(callback.end())


def test_a_callback_with_another_state_is_refused_and_waiting_goes_on() -> None:
    with waiting() as callback:
        refused = [
            callback.get(f"/callback?{query}")
            for query in (
                "code=x&state=wrong",
                "code=x",
                "",
                "state=right",
                "code=x&code=y&state=right",
                "state=%ff&code=x",
            )
        ]
        callback.get("/callback?code=the-code&state=right")

        assert callback.end() == "the-code"

    assert {answer.status_code for answer in refused} == {400}


def test_a_refused_approval_ends_the_wait() -> None:
    with waiting() as callback:
        callback.get("/callback?error=access_denied&error_description=Not%20today&state=right")

        error = callback.end()

    assert isinstance(error, AuthorizationDeniedError)
    assert "access_denied: Not today" in str(error)


def test_browsers_may_ask_for_other_things() -> None:
    with waiting() as callback:
        assert callback.get("/favicon.ico").status_code == 404
        callback.get("/callback?code=the-code&state=right")

        assert callback.end() == "the-code"


def test_a_silent_connection_does_not_block_the_callback() -> None:
    with waiting() as callback:
        host, port = callback.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))):
            callback.get("/callback?code=the-code&state=right")

            assert callback.end() == "the-code"


def test_the_wait_ends_without_an_approval() -> None:
    with (
        CallbackServer(f"http://127.0.0.1:{free_port()}/", "right") as server,
        pytest.raises(AuthorizationDeniedError, match="within"),
    ):
        server.wait(0.01)


@pytest.mark.parametrize(
    "uri",
    ["https://127.0.0.1:8765/cb", "http://example.com:80/cb", "http://127.0.0.1:0/cb", "http://127.0.0.1:99999/", "cb"],
)
def test_a_redirect_uri_that_cannot_be_listened_on_is_a_setting_to_fix(uri: str) -> None:
    with pytest.raises(InvalidSettingError, match="SELLER_API_REDIRECT_URI"):
        CallbackServer(uri, "right")


def test_a_port_that_is_taken_is_a_setting_to_fix() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InvalidSettingError, match="another port"):
        CallbackServer(f"http://127.0.0.1:{taken.getsockname()[1]}/callback", "right")
