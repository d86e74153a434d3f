"""Tests the bounds of connections on sockets: sizes, times, numbers, and clients that hang up."""

import json
import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from seller_platform.service.http.connections import ConnectionLimits
from seller_platform_tests.support.served import ANN, Served, running_app
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

QUICK = ConnectionLimits(
    head_seconds=0.4,
    body_seconds=0.4,
    answer_seconds=0.4,
    idle_seconds=0.3,
    linger_seconds=0.3,
    of_one_address=20,
    trusted_proxies=(),
)
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture(scope="module")
def quick() -> Iterator[tuple[str, CollectorRegistry]]:
    """A service with short times and without a database."""
    registry = CollectorRegistry()
    with running_app(NOWHERE, connection_limits=QUICK, registry=registry, wait_seconds=0.1) as url:
        yield url, registry


@contextmanager
def _connection(url: str) -> Iterator[socket.socket]:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as connection:
        yield connection


def _answer(connection: socket.socket) -> tuple[int, bytes]:
    """Return the status and the body of all that comes until the connection ends; status 0 without an answer."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    head, _, body = received.partition(b"\r\n\r\n")
    return (int(head.split()[1]), body) if head else (0, b"")


def _exchange(url: str, *parts: bytes) -> tuple[int, bytes]:
    with _connection(url) as connection:
        for part in parts:
            connection.sendall(part)
        return _answer(connection)


GET = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("status", "sent"),
    {
        "one header": (431, GET + b"X: " + b"x" * 40_000),
        "a finished header": (431, GET + b"X: " + b"x" * 40_000 + b"\r\n\r\n"),
        "many headers": (431, GET + b"a:b\r\n" * 200 + b"\r\n"),
        "the path": (431, b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\n"),
        "a trailer": (431, CHUNKED + b"1\r\na\r\n0\r\nX: " + b"x" * 150_000),
        "a chunk's extension": (431, CHUNKED + b"1;" + b"x" * 150_000),
        "many requests at once": (0, (GET + b"\r\n") * 2_000),
        "an unknown method": (501, b"BREW /user/me HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        "a registered method": (405, b"PROPFIND /user/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        "an upgrade": (404, GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + b"x" * 100_000),
    }.values(),
    ids=lambda value: str(value)[:20],
)
def test_a_request_beyond_the_bounds_is_refused_in_json(
    quick: tuple[str, CollectorRegistry], status: int, sent: bytes
) -> None:
    answered, body = _exchange(quick[0], sent)

    assert answered == status or (status == 0 and answered in (0, 404))
    if status:
        assert json.loads(body)["code"] == status


@pytest.mark.parametrize(
    ("status", "sent"),
    {
        "nothing": (408, b""),
        "a head without end": (408, GET),
        "a body without end": (408, POST + b"Content-Length: 100\r\n\r\na"),
        "chunks without end": (408, CHUNKED + b"1\r\na\r\n"),
        "nothing after an answer": (404, GET + b"\r\n"),
        "a head without end after an answer": (404, GET + b"\r\nGET"),
        "a body without end after its answer": (404, GET + b"Content-Length: 100\r\n\r\na"),
    }.values(),
    ids=lambda value: str(value)[:20],
)
def test_a_connection_that_stalls_ends(quick: tuple[str, CollectorRegistry], status: int, sent: bytes) -> None:
    answered, _ = _exchange(quick[0], sent)

    assert answered == status


@pytest.mark.parametrize("size", [10_000, 7])
def test_ten_pipelined_requests_get_ten_answers_in_order(size: int) -> None:
    endings = (
        b"\r\n",
        b"Content-Length: 9\r\n\r\na\r\n\r\nbcde",
        b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    )
    heads = [b"POST /%d HTTP/1.1\r\nHost: localhost\r\n" % number for number in range(10)]
    sent = b"".join(head + ending for head, ending in zip(heads, endings * 4, strict=False))

    # A busy machine may take long between two parts.
    patient = replace(QUICK, head_seconds=PATIENCE_SECONDS, body_seconds=PATIENCE_SECONDS)
    with running_app(NOWHERE, connection_limits=patient) as url, _connection(url) as connection:
        for begin in range(0, len(sent), size):
            connection.sendall(sent[begin : begin + size])
        _, received = _answer(connection)

    assert re.findall(rb"there is nothing at '/(\d+)'", received) == [b"%d" % number for number in range(10)]


def test_a_connection_that_trickles_ends(quick: tuple[str, CollectorRegistry]) -> None:
    for first, drop in ((GET, b"X"), (POST + b"Content-Length: 10000\r\n\r\n", b"a")):
        with _connection(quick[0]) as connection:
            connection.sendall(first)
            began = time.monotonic()
            with pytest.raises(OSError):  # a reset or a broken pipe
                while time.monotonic() - began < PATIENCE_SECONDS:
                    connection.sendall(drop)
                    time.sleep(0.02)


def test_a_client_that_does_not_read_its_answers_is_cut_off(
    quick: tuple[str, CollectorRegistry], caplog: pytest.LogCaptureFixture
) -> None:
    url, registry = quick
    httpx.get(f"{url}/docs", timeout=PATIENCE_SECONDS)

    def ask_without_reading() -> float:
        with _connection(url) as connection, suppress(OSError):
            connection.settimeout(5)
            for _ in range(200):
                connection.sendall(b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n")
                time.sleep(0.01)
        return _ended(registry, "an answer was not read")

    with caplog.at_level(logging.INFO):
        wait_for(ask_without_reading)

    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def _ended(registry: CollectorRegistry, reason: str) -> float:
    return registry.get_sample_value("seller_platform_service_connections_ended_total", {"reason": reason}) or 0


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"of_one_address": 3}, "connections of an address"),
        ({"of_one_address": 1, "connections": 3, "trusted_proxies": ("127.0.0.0/8",)}, "connections"),
    ],
    ids=["an address", "a trusted proxy"],
)
def test_connections_are_bounded_and_freed(changed: dict[str, Any], reason: str) -> None:
    registry, limits = CollectorRegistry(), replace(QUICK, head_seconds=PATIENCE_SECONDS, **changed)
    with running_app(NOWHERE, connection_limits=limits, registry=registry, wait_seconds=0.1) as url:
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(_connection(url))
            status, body = _exchange(url)

        assert (status, json.loads(body)["code"]) == (503, 503)
        assert _ended(registry, reason)
        wait_for(lambda: httpx.get(f"{url}/nothing", timeout=PATIENCE_SECONDS).status_code == 404)


def test_a_slow_service_is_no_slow_client(service: Served, database_url: str) -> None:
    with service.database.begin() as connection, running_app(database_url, connection_limits=QUICK) as url:
        connection.exec_driver_sql("LOCK TABLE service.users")
        body = b"email=x&csrf_token=" + b"x" * 60_000
        with _connection(url) as waiting:
            waiting.sendall(b"GET /user/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n")
            waiting.settimeout(1.5)
            with pytest.raises(TimeoutError):
                waiting.recv(1)
            connection.exec_driver_sql("ROLLBACK")
            waiting.settimeout(PATIENCE_SECONDS)
            assert waiting.recv(12) == b"HTTP/1.1 401"
        assert _exchange(url, POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)[0] == 403


@pytest.mark.parametrize(
    ("path", "content_type"),
    [("/oauth/token", "application/x-www-form-urlencoded"), ("/reports/request", "application/json")],
)
def test_a_client_that_hangs_up_in_its_body_is_no_error(
    service: Served, database_url: str, caplog: pytest.LogCaptureFixture, path: str, content_type: str
) -> None:
    registry = CollectorRegistry()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: 100\r\n"
    token = service.client(ANN).headers["Authorization"]
    labels = {"endpoint": path, "method": "POST", "status": "499"}

    with caplog.at_level(logging.INFO), running_app(database_url, registry=registry) as url:
        with _connection(url) as connection:
            connection.sendall(f"{head}Authorization: {token}\r\n\r\n{{".encode())
            time.sleep(0.1)
        wait_for(lambda: registry.get_sample_value("seller_platform_service_requests_total", labels) == 1)

    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [f"POST {path} 499" in record.getMessage() for record in caplog.records].count(True) == 1
