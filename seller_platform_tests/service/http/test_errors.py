"""Tests that errors are JSON with the right status, and no request causes a 500."""

import json
import random
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from seller_platform.errors import ApiError, WarehouseUnavailableError
from seller_platform.service.http.responses import error_answer
from seller_platform.service.lists.endpoints import SERVED, ListParameters
from seller_platform_tests.support.served import ANN, Served, running_app
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

GOOD = {"account_title": "Shop US", "per_page": "250", "start_date": "2026-03-01", "end_date": "2026-03-02"}


def _error(answer: httpx.Response) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert set(body) - {"errors"} == {"status", "code", "message"}
    assert (body["status"], body["code"]) == ("error", answer.status_code)
    assert ("errors" in body) is (answer.status_code == 422)
    return body


@pytest.mark.parametrize(
    ("changed", "parameter"),
    [
        ({"per_page": None}, "per_page"),
        ({"per_page": "7"}, "per_page"),
        ({"per_page": ""}, "per_page"),
        ({"per_page": "250.0"}, "per_page"),
        ({"per_page": " 250"}, "per_page"),
        ({"per_page": "+250"}, "per_page"),
        ({"per_page": "٢٥٠"}, "per_page"),
        ({"page": "0"}, "page"),
        ({"page": "-1"}, "page"),
        ({"page": "one"}, "page"),
        ({"page": "1e3"}, "page"),
        ({"page": "NaN"}, "page"),
        ({"page": str(2**63)}, "page"),
        ({"page": "9" * 5000}, "page"),
        ({"start_date": "2026-2-1"}, "start_date"),
        ({"start_date": "2026-02-30"}, "start_date"),
        ({"start_date": "0000-01-01"}, "start_date"),
        ({"start_date": "20260201"}, "start_date"),
        ({"start_date": "２０２６-03-01"}, "start_date"),
        ({"end_date": "2026-03-02T00:00:00"}, "end_date"),
        ({"end_date": "2026-03-02 "}, "end_date"),
        ({"end_date": "\0"}, "end_date"),
        ({"end_date": "2026-04-02"}, "end_date"),
        ({"start_date": "2026-03-03"}, "start_date"),
        ({"sales_channel": "Platform"}, "sales_channel"),
        ({"sales_channel": ""}, "sales_channel"),
        ({"account_title": None}, "account"),
        ({"account_title": ""}, "account_title"),
        ({"account_title": "a\0b"}, "account_title"),
        ({"account_title": "x" * 1001}, "account_title"),
        ({"group_title": "World"}, "account"),
        ({"seller_id": "S1"}, "account"),
        ({"account_title": None, "seller_id": "S1"}, "marketplace_id"),
        ({"account_title": None, "marketplace_id": "US"}, "seller_id"),
        ({"account_title": "Twin"}, "account_title"),
    ],
    ids=str,
)
def test_a_parameter_that_cannot_be_used_is_named(
    reading: Served, changed: dict[str, str | None], parameter: str
) -> None:
    query = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}

    with reading.client(ANN) as client:
        answer = client.get("/sales/orders", params=query)

    assert answer.status_code == 422
    assert list(_error(answer)["errors"]) == [parameter]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("account_title=Shop%20US&account_title=Shop%20US&per_page=250", "account_title"),
        ("account_title=Shop%20US&per_page=250&per_page=500", "per_page"),
        ("account_title=%ff&per_page=250", "account_title"),
        ("account_title=%ED%A0%80&per_page=250", "account_title"),
        ("&".join(f"a{number}=1" for number in range(300)), "query"),
    ],
)
def test_a_query_that_cannot_be_read_is_refused(reading: Served, query: str, parameter: str) -> None:
    with reading.client(ANN) as client:
        answer = client.get(f"/sales/orders?{query}")

    assert answer.status_code == 422
    assert list(_error(answer)["errors"]) == [parameter]


def test_everything_that_is_wrong_is_reported_at_once(reading: Served) -> None:
    with reading.client(ANN) as client:
        answer = client.get("/sales/orders?per_page=1&page=0&start_date=x")

    assert set(_error(answer)["errors"]) == {"per_page", "page", "start_date", "account"}


@pytest.mark.parametrize("path", ["/static/style.css", "/user/me", "/openapi.json", "/login"])
def test_a_line_break_behind_a_path_makes_it_another_path(reading: Served, path: str) -> None:
    with reading.client() as client:
        assert client.get(f"{path}%0A").status_code == 404


def test_unknown_parameters_are_ignored(reading: Served) -> None:
    with reading.client(ANN) as client:
        assert client.get("/sales/orders?colour=red&colour=blue&%ff=%00", params=GOOD).status_code == 200


def test_a_list_in_parts_asks_for_the_part(reading: Served) -> None:
    with reading.client(ANN) as client:
        answer = client.get("/notifications/list", params={"account_title": "Shop US"})

    assert "inventory_alerts, price_alerts, restock_alerts" in _error(answer)["errors"]["notification_type"][0]


@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        ([], 'Bearer realm="seller-platform"'),
        ([("Authorization", "Bearer")], "invalid_request"),
        ([("Authorization", "Basic YTpi")], "invalid_request"),
        ([("Authorization", "Bearer a b")], "invalid_request"),
        ([("Authorization", "Bearer \xff")], "invalid_request"),
        ([("Authorization", "Bearer a"), ("Authorization", "Bearer b")], "invalid_request"),
        ([("Authorization", "Bearer unknown")], "invalid_token"),
    ],
)
def test_without_a_valid_token_nothing_is_answered(
    reading: Served, headers: list[tuple[str, str]], challenge: str
) -> None:
    for path in ("/user/me", "/user/accounts", "/sales/orders?per_page=7", "/notifications/list"):
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        answer = httpx.get(f"{reading.base_url}{path}", headers=raw)

        assert answer.status_code == 401
        assert challenge in answer.headers["www-authenticate"]
        _error(answer)


def test_the_word_bearer_may_be_spelled_in_any_case(reading: Served) -> None:
    with reading.client(ANN) as client:
        client.headers["Authorization"] = client.headers["Authorization"].replace("Bearer", "bEARER")

        assert client.get("/user/me").status_code == 200


@pytest.mark.parametrize("path", ["/nothing", "/user/me/", "/static/../app.py", "/static/%00", "/%ff", "/redoc"])
def test_an_unknown_path_is_not_found(reading: Served, path: str) -> None:
    answer = httpx.get(f"{reading.base_url}{path}")

    assert answer.status_code == 404
    _error(answer)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/sales/orders", "GET, HEAD, OPTIONS"),
        ("DELETE", "/user/me", "GET, HEAD, OPTIONS"),
        ("GET", "/oauth/token", "OPTIONS, POST"),
        ("HEAD", "/oauth/token", "OPTIONS, POST"),
        ("PUT", "/oauth/authorize", "GET, HEAD, OPTIONS, POST"),
        ("TRACE", "/service-status", "GET, HEAD, OPTIONS"),
    ],
)
def test_another_method_is_answered_with_the_allowed_ones(
    reading: Served, method: str, path: str, allowed: str
) -> None:
    answer = httpx.request(method, f"{reading.base_url}{path}")

    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    if method != "HEAD":
        _error(answer)


def test_options_lists_the_methods(reading: Served) -> None:
    answer = httpx.options(f"{reading.base_url}/sales/orders")

    assert (answer.status_code, answer.headers["allow"], answer.content) == (204, "GET, HEAD, OPTIONS", b"")


def test_head_is_get_without_the_body(reading: Served) -> None:
    with reading.client(ANN) as client:
        got, head = client.get("/sales/orders", params=GOOD), client.head("/sales/orders", params=GOOD)

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


def test_every_answer_has_a_request_id(reading: Served) -> None:
    url = f"{reading.base_url}/service-status"

    assert httpx.get(url, headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert len(httpx.get(url, headers={"X-Request-Id": "no spaces"}).headers["x-request-id"]) == 32
    assert len(httpx.get(f"{reading.base_url}/nothing").headers["x-request-id"]) == 32


def test_the_status_is_open_to_everybody(reading: Served) -> None:
    answer = httpx.get(f"{reading.base_url}/service-status")

    assert answer.status_code == 200
    assert answer.json() == {"status": "active", "code": 200, "message": "All systems are operational."}


def test_without_postgres_the_service_says_that_it_is_down() -> None:
    with running_app("postgresql://nobody@127.0.0.1:1/nothing", wait_seconds=0.2) as base_url:
        status = httpx.get(f"{base_url}/service-status", timeout=PATIENCE_SECONDS)
        answer = httpx.get(f"{base_url}/user/me", headers={"Authorization": "Bearer x"}, timeout=PATIENCE_SECONDS)
        page = httpx.get(f"{base_url}/oauth/authorize?client_id=x&redirect_uri=y", timeout=PATIENCE_SECONDS)
        token = httpx.post(
            f"{base_url}/oauth/token", data={"client_id": "x", "grant_type": "refresh_token"}, timeout=PATIENCE_SECONDS
        )

    assert (status.status_code, status.json()["status"], status.json()["code"]) == (503, "down", 503)
    assert "nothing" not in status.text + answer.text + page.text
    for refused in (status, answer, page, token):
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
    _error(answer)
    assert page.headers["content-type"].startswith("text/html")


def test_every_refusal_is_mapped_to_its_status() -> None:
    for kind in ApiError.__subclasses__():
        error = kind.__new__(kind)
        Exception.__init__(error, "told")
        error.message, error.parameters, error.headers = "told", {}, {}
        error.error = "invalid_request"  # type: ignore[attr-defined]  # only the token endpoint's has one
        answer = error_answer(error)
        assert answer.status_code == kind.status, kind.__name__
    assert error_answer(WarehouseUnavailableError("here", "gone")).status_code == 503
    unknown = error_answer(RuntimeError("a secret"))
    assert unknown.status_code == 500
    assert b"secret" not in bytes(unknown.body)


def test_no_query_causes_a_500(reading: Served) -> None:
    rng = random.Random(7)
    odd = [
        "",
        "\0",
        "'",
        '"',
        "%",
        "\\",
        "é" * 300,
        "-1",
        "9" * 25,
        "1e9",
        "NaN",
        "null",
        "[]",
        "0001-01-01",
        "9999-12-31",
    ]
    good = ["Shop US", "World", "S1", "US", "500", "20", "1", "2", "platform", "price_alerts", "2026-03-01"]
    with reading.client(ANN) as client:
        for _ in range(600):
            dataset = rng.choice(SERVED)
            names = [parameter.name for parameter in ListParameters(dataset).all]
            chosen = rng.sample(names, rng.randint(0, len(names)))
            pairs = [f"{name}={quote(rng.choice(odd + good * 3))}" for name in chosen]
            if rng.random() < 0.1:
                pairs.append(rng.choice(["=", "&&", "%ff=%fe", "a", "per_page", ";", "%"]))
            answer = client.get(f"{dataset.path}?{'&'.join(pairs)}")
            assert answer.status_code in (200, 404, 422), (answer.status_code, pairs)
            json.loads(answer.text)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Encoding": "gzip"},
        {"Content-Type": "{}; charset=latin-1"},
        {"Content-Type": '{}; x=1; Charset="utf-16"'},
    ],
    ids=str,
)
def test_a_body_that_is_compressed_or_not_utf_8_is_refused(reading: Served, headers: dict[str, str]) -> None:
    bodies = {
        "/reports/request": ("application/json", b'{"report_type": "orders"}'),
        "/oauth/token": ("application/x-www-form-urlencoded", b"grant_type=refresh_token"),
        "/login": ("application/x-www-form-urlencoded", b"email=x"),
    }
    with reading.client(ANN) as client:
        for path, (content_type, body) in bodies.items():
            sent = {"Content-Type": content_type} | {name: text.format(content_type) for name, text in headers.items()}
            refused = client.post(path, content=body, headers=sent)
            accepted = {"Content-Type": f'{content_type}; charset="UTF-8"', "Content-Encoding": "identity"}

            assert refused.status_code == 415, (path, refused.text)
            assert client.post(path, content=body, headers=accepted).status_code != 415, path


def test_answers_of_the_api_are_not_stored_unless_the_endpoint_says_so(reading: Served) -> None:
    with reading.client(ANN) as client:
        answers = [client.get(path) for path in ("/user/me", "/user/accounts", "/sales/orders", "/nothing")]
        listed = client.get("/sales/orders", params=GOOD)

    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}
    assert listed.headers["cache-control"] == "private, no-cache"
    assert listed.headers["content-encoding"] == "gzip"
