"""Tests what all endpoints share, for each operation and parameter of the OpenAPI document.

`REQUESTS` is the table of the endpoints: an operation that it lacks fails a test.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from seller_platform.contract.wire import METADATA
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.service.errors import ApiError
from seller_platform.service.http.responses import JSON, error_answer
from seller_platform_tests.support.known_rows import COST_PERIOD, MUG, US
from seller_platform_tests.support.openapi import operations, without_references
from seller_platform_tests.support.served import ANN, Served, running_app
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

_DAYS = {"start_date": "2026-03-05", "end_date": "2026-03-06"}
REQUESTS: Mapping[str, dict[str, str]] = {
    "GET /user/me": {},
    "GET /user/accounts": {},
    "GET /sales/orders": {"per_page": "250", **_DAYS},
    "GET /sales/statistics-dashboard": {"view_by": "product", "group_by": "sku", **_DAYS},
    "GET /sales/per-day-per-product": {"per_page": "500", **_DAYS},
    "GET /sales/transactions": {"per_page": "500", **_DAYS},
    "GET /inventory/list": {"per_page": "20"},
    "GET /cogs/cost-periods": {"sku": MUG},
    "POST /cogs/cost-periods": {"sku": MUG},
    "DELETE /cogs/cost-periods": {"sku": MUG},
    "POST /reports/request": {"dps_date": "2026-03-05"},
    "GET /reports/status": {},
    "GET /reports/download": {},
    "GET /notifications/list": {"notification_type": "restock_alerts"},
    "GET /warehouse/list": {"per_page": "20"},
    "GET /warehouse/inbound-shipments": {"per_page": "20"},
}
"""An accepted request of each operation that needs a token, beside its account."""

every_operation = pytest.mark.parametrize("name", REQUESTS)
every_operation_with_accounts = pytest.mark.parametrize("name", list(REQUESTS)[2:])
every_operation_with_a_body = pytest.mark.parametrize("name", [name for name in REQUESTS if name[:3] in ("POS", "DEL")])

_DATES = (
    *("2026-3-5", "05.03.2026", "20260305", "2026-02-30", "0000-01-01", "２０２６-03-05", "2026-03-05T00:00:00"),
    *("2026-03-05 ", "x", "\0", ""),
)
_COUNTS = ("0", "-1", "1.0", " 1", "+1", "1e3", "NaN", "٢", "x", "", str(2**63), "9" * 5000)
_SIZES = ("1", "7", "499", "5000", "500.0", " 500", "+500", "٥٠٠", "x", "")
_PINS = ("", "now", "2026-03-01T00:00:00Z", "A" * 24, "A" * 25, "a-_" * 300, "\0" * 24)


def _refused(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return values that a parameter of a schema refuses."""
    if "enum" in schema:
        return _SIZES if schema["type"] == "integer" else ("other", schema["enum"][0].swapcase(), "")
    if schema.get("format") == "date":
        return _DATES
    if "pattern" in schema:
        return ("eur", "EURO", "") if "{3}" in schema["pattern"] else _PINS
    return {"integer": _COUNTS, "boolean": ("yes", "1", "True", "")}.get(schema["type"], ("", "a\0b", "x" * 1001))


@dataclass(frozen=True)
class Api:
    """The API with its description, as Ann sees it."""

    client: httpx.Client
    described: Mapping[str, Mapping[str, Any]]
    report_id: str

    def query(self, name: str) -> dict[str, str]:
        """Return the parameters of the accepted request of an operation."""
        account = US if "/user/" not in name else {}
        report = {"report_id": self.report_id} if name.startswith("GET /reports") else {}
        return {**account, **REQUESTS[name], **report}

    def parameters(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        described = self.described[name].get("parameters", ())
        return {each["name"]: each for each in described if each["in"] == "query"}

    def send(self, name: str, params: Any = None, **options: Any) -> httpx.Response:
        method, _, path = name.partition(" ")
        if name == "POST /cogs/cost-periods" and not {"json", "content"} & options.keys():
            options["json"] = {"data": COST_PERIOD["data"]}
        if isinstance(params, str):  # httpx would decode and encode it
            path, params = f"{path}?{params}", None
        elif params is None:
            params = self.query(name)
        answer = self.client.request(method, path, params=params, **options)
        self.check(name, answer)
        if method == "DELETE" and answer.is_success:  # the next request finds it again
            self.client.post(path, params={**US, "sku": MUG}, json={"data": COST_PERIOD["data"]}).raise_for_status()
        return answer

    def check(self, name: str, answer: httpx.Response) -> None:
        """Check that an answer is one of those that the document describes."""
        described = self.described[name]["responses"][str(answer.status_code)]
        assert answer.headers["x-request-id"]
        if answer.is_error:
            body = answer.json()
            assert set(body) - {"errors", "reason"} == {"status", "code", "message"}
            assert (body["status"], body["code"]) == ("error", answer.status_code)
            assert ("errors" in body) is (answer.status_code == 422)
            assert answer.headers["cache-control"] == "no-store"
        media_type = answer.headers["content-type"].partition(";")[0]
        if media_type == "application/json":
            Draft202012Validator(described["content"][media_type]["schema"]).validate(answer.json())

    def refusal(self, name: str, params: Any, **options: Any) -> list[str]:
        """Send a request that must be refused with 422, and return the parameters that the answer names."""
        answer = self.send(name, params, **options)
        assert answer.status_code == 422, (params, answer.text)
        return list(answer.json()["errors"])


@pytest.fixture(scope="module")
def api(filled: Served) -> Iterator[Api]:
    with filled.client(ANN) as client:
        document = without_references(client.get("/openapi.json").json())
        described = {f"{method} {path}": operation for method, path, operation in operations(document)}
        asked = client.post("/reports/request", params={**US, "dps_date": "2026-03-05"})
        report = {**US, "report_id": asked.json()["report_id"]}
        wait_for(lambda: client.get("/reports/status", params=report).json()["status"] == "completed")
        yield Api(client, described, report["report_id"])


def test_every_endpoint_but_the_status_and_those_of_oauth_wants_a_token(api: Api) -> None:
    is_open = {name: not operation["security"] for name, operation in api.described.items()}

    assert {name for name, opened in is_open.items() if not opened} == set(REQUESTS)
    assert {name for name, opened in is_open.items() if opened} == {
        *("GET /service-status", "GET /oauth/authorize", "POST /oauth/token", "POST /oauth/revoke"),
        f"GET {METADATA}",
    }
    for path in ("/service-status", METADATA):
        api.check(f"GET {path}", api.client.get(path))


@every_operation
def test_an_accepted_request_is_answered_as_described(api: Api, name: str) -> None:
    answer = api.send(name)

    assert answer.status_code == 200, answer.text
    if name.startswith("GET"):
        head = api.client.head(answer.url)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers.get("content-length") == answer.headers.get("content-length")
    assert answer.headers["cache-control"] == "no-store"
    schema = api.described[name]["responses"]["200"]["content"]["application/json"]["schema"]
    if "properties" in schema:
        assert set(answer.json()) == set(schema["properties"])


# Parameters


@every_operation
def test_a_value_of_another_form_is_refused_by_the_name_of_its_parameter(api: Api, name: str) -> None:
    """Every value at one list, which has all kinds of parameters but one; elsewhere the first and the last."""
    for parameter, described in api.parameters(name).items():
        refused = _refused(described["schema"])
        for value in refused if name == "GET /sales/per-day-per-product" else (refused[0], refused[-1]):
            answer = api.send(name, {**api.query(name), parameter: value})

            assert answer.status_code == 422, (parameter, value, answer.text)
            problem = answer.json()["errors"][parameter][0]
            assert all(str(allowed) in problem for allowed in described["schema"].get("enum", ())), problem


@every_operation
def test_a_parameter_is_required_or_not(api: Api, name: str) -> None:
    for parameter, described in api.parameters(name).items():
        query = {each: value for each, value in api.query(name).items() if each != parameter}
        if described["required"]:
            assert api.refusal(name, query) == [parameter]
        elif parameter not in (*US, "sku", "dps_date"):
            assert api.send(name, query).status_code == 200, parameter


@every_operation
def test_a_parameter_is_sent_once_and_in_utf_8(api: Api, name: str) -> None:
    for parameter in api.parameters(name):
        query = dict(api.query(name))
        value = query.pop(parameter, "1")
        for sent in (f"{parameter}={value}&{parameter}={value}", f"{parameter}=%ED%A0%80"):
            rest = str(httpx.QueryParams(query))
            assert parameter in api.refusal(name, f"{rest}&{sent}"), sent


@every_operation
def test_a_parameter_that_is_not_known_is_ignored_except_by_a_deletion(api: Api, name: str) -> None:
    answer = api.send(name, f"{httpx.QueryParams(api.query(name))}&colour=red&colour=blue&%ff=%00")

    assert answer.status_code == (422 if name.startswith("DELETE") else 200), answer.text


def test_everything_that_is_wrong_is_reported_at_once(api: Api) -> None:
    many = "&".join(f"a{number}=1" for number in range(300))

    assert set(api.refusal("GET /sales/orders", "per_page=1&page=0&start_date=x")) == {
        *("per_page", "page", "start_date", "account")
    }
    assert api.refusal("GET /sales/orders", many) == ["query"]


def test_a_page_has_the_sizes_of_the_contract(api: Api) -> None:
    sales = [f"GET /sales/{name}" for name in ("statistics-dashboard", "per-day-per-product", "transactions")]
    of_sales, of_stock = [500, 1000, 2000], [20, 50, 100, 250, 500, 1000, 2000]
    stock = ["GET /inventory/list", "GET /warehouse/list", "GET /warehouse/inbound-shipments"]
    sizes = {"GET /sales/orders": [250, *of_sales], **dict.fromkeys(sales, of_sales), **dict.fromkeys(stock, of_stock)}
    for name, allowed in sizes.items():
        answered = [api.send(name, {**api.query(name), "per_page": str(size)}).json()["per_page"] for size in allowed]

        assert answered == api.parameters(name)["per_page"]["schema"]["enum"] == allowed


# Accounts


@every_operation_with_accounts
def test_accounts_are_selected_by_one_method(api: Api, name: str) -> None:
    rest = {each: value for each, value in api.query(name).items() if each not in US}
    pair = {"seller_id": "S1", "marketplace_id": "US"}

    assert api.refusal(name, {**rest, "seller_id": "S1"}) == ["marketplace_id"]
    assert api.refusal(name, {**rest, "marketplace_id": "US"}) == ["seller_id"]
    for selection in ({}, {**US, "group_title": "World"}, {**US, **pair}, {**US, "seller_id": "S1"}):
        assert api.refusal(name, {**rest, **selection}) == ["account"]
    assert api.refusal(name, {**rest, "account_title": "Twin"}) == ["account_title"]
    twins = api.send(name, {**rest, "account_title": "Twin"}).json()["errors"]["account_title"][0]
    assert "S4 on FR, S4 on IT" in twins
    if "currency" in api.parameters(name):  # a group whose accounts keep several needs one
        rest["currency"] = "USD"
    ways = [US, pair, *([{"group_title": "World"}] if name.startswith("GET /") and "sku" not in rest else [])]
    answers = [api.send(name, {**rest, **way}) for way in ways]
    assert {answer.status_code for answer in answers} == {200}
    if name != "POST /reports/request":
        assert {answer.text for answer in answers} == {answers[0].text}
    if "GET /sales" in name:
        assert api.send(name, {**rest, "group_title": "Empty"}).json()["data"] == []


@every_operation_with_accounts
def test_what_is_anothers_is_answered_like_what_does_not_exist(api: Api, name: str) -> None:
    rest = {each: value for each, value in api.query(name).items() if each not in US}
    for selection in (
        {"account_title": "Bob's"},
        {"seller_id": "S2", "marketplace_id": "GB"},
        {"group_title": "Secret"},
    ):
        foreign, missing = (api.send(name, {**rest, **each}) for each in (selection, dict.fromkeys(selection, "No")))

        assert (foreign.status_code, missing.status_code) == (404, 404)
        message = foreign.json()["message"]
        for value in selection.values():
            message = message.replace(ascii(value), "'No'")
        assert message == missing.json()["message"]


# Bodies


@every_operation_with_a_body
def test_parameters_may_be_in_the_query_or_in_the_body(api: Api, name: str) -> None:
    query = api.query(name)
    body = {**query, **({"data": COST_PERIOD["data"]} if name == "POST /cogs/cost-periods" else {})}

    assert api.send(name, {}, json=body).status_code == 200
    assert api.send(name, query, json=body).status_code == 200
    for parameter in query:
        value = "2026-03-04" if "date" in parameter else "Other"
        assert api.refusal(name, query, json={**body, parameter: value}) == [parameter]
        assert api.refusal(name, {}, json={**body, parameter: 7}) == [parameter]


@every_operation_with_a_body
def test_a_body_that_cannot_be_read_is_refused(api: Api, name: str) -> None:
    of_type = ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1")
    for content, kind, status in (
        *((b"{}", kind, 415) for kind in (*of_type, 'application/json; x=1; Charset="utf-16"')),
        *((content, JSON, 422) for content in (b"null", b"[]", b"{", b"\xff", b"\xef\xbb\xbf{}", b'{"a": NaN}')),
        (b'{"a": -Infinity}', JSON, 422),
        (b'{"sku": "SKU-1", "sku": "SKU-2"}', JSON, 422),
        (b"[" * 200_000, JSON, 422),
        (b'{"a":' * 100_000, JSON, 422),
        (b'{"a": 1' + b"0" * 100_000 + b"}", JSON, 422),
        (b'{"a": 1e9999999999999999999}', JSON, 422),
        (b'{"sku": "\\u0000", "product_sku": "\\u0000"}', JSON, 422),
        (b'{"sku": "\\ud800", "product_sku": "\\ud800"}', JSON, 422),
        (b" " * ((1 << 20) + 1), JSON, 413),
    ):
        answer = api.send(name, US, content=content, headers={"Content-Type": kind})
        assert answer.status_code == status, (content[:40], kind, answer.text)
    headers = {"Content-Type": 'application/json; charset="UTF-8"'}
    assert api.send(name, content=b"{}", headers={**headers, "Content-Encoding": "gzip"}).status_code == 415
    assert api.send(name, content=b"{}", headers={**headers, "Content-Encoding": "identity"}).status_code != 415


@pytest.mark.parametrize("path", ["/oauth/token", "/login"])
def test_a_form_is_in_utf_8_and_not_compressed(reading: Served, path: str) -> None:
    form = "application/x-www-form-urlencoded"
    statuses = [
        httpx.post(f"{reading.base_url}{path}", content=b"grant_type=refresh_token", headers=headers).status_code
        for headers in (
            {"Content-Type": form, "Content-Encoding": "gzip"},
            {"Content-Type": f"{form}; charset=latin-1"},
            {"Content-Type": f'{form}; charset="UTF-8"', "Content-Encoding": "identity"},
        )
    ]

    assert statuses == ([400] * 3 if path == "/oauth/token" else [415, 415, 403])


# Methods, paths, and authentication


def test_every_path_answers_head_options_and_other_methods(api: Api, reading: Served, browser: httpx.Client) -> None:
    paths: dict[str, set[str]] = {}
    for name in (*api.described, "GET /", "GET /docs", "GET /openapi.json", "GET /static/style.css"):
        paths.setdefault(name.partition(" ")[2], set()).add(name.partition(" ")[0])
    paths["/oauth/authorize"].add("POST")
    for path, methods in paths.items():
        allowed = methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())
        options, refused = browser.options(path), [browser.request(each, path) for each in ("PATCH", "PUT", "TRACE")]
        got, head = browser.get(path), browser.head(path)

        assert (options.status_code, options.content) == (204, b""), path
        assert set(options.headers["allow"].split(", ")) == allowed, path
        for answer in refused:
            assert (answer.status_code, answer.headers["allow"]) == (405, options.headers["allow"]), path
            assert answer.json()["code"] == 405, path
        assert all(answer.headers["x-request-id"] for answer in (options, *refused)), path
        assert (head.status_code, head.content) == (got.status_code if "GET" in methods else 405, b""), path
        assert head.headers.get("content-length") == got.headers.get("content-length") or "GET" not in methods, path


def test_an_unknown_path_is_not_found(reading: Served) -> None:
    behind = (f"{path}%0A" for path in ("/static/style.css", "/user/me", "/openapi.json", "/login"))
    for path in ("/nothing", "/user/me/", "/static/../app.py", "/static/%00", "/%ff", "/redoc", *behind):
        answer = httpx.get(f"{reading.base_url}{path}", headers={"X-Request-Id": "no spaces"})

        assert (answer.status_code, answer.json()["code"], answer.headers["cache-control"]) == (404, 404, "no-store")
        assert len(answer.headers["x-request-id"]) == 32


@every_operation
def test_without_a_valid_token_nothing_is_answered(api: Api, name: str) -> None:
    method, _, path = name.partition(" ")
    for values, challenge in (
        ([], 'Bearer realm="seller-platform"'),
        (["Bearer"], "invalid_request"),
        (["Basic YTpi"], "invalid_request"),
        (["Bearer a b"], "invalid_request"),
        (["Bearer \xff"], "invalid_request"),
        (["Bearer a", "Bearer b"], "invalid_request"),
        (["Bearer unknown"], "invalid_token"),
    ):
        headers = [(b"Authorization", value.encode("latin-1")) for value in values]
        answer = httpx.request(method, f"{api.client.base_url}{path}".replace("//u", "/u"), headers=headers)

        api.check(name, answer)
        assert (answer.status_code, challenge in answer.headers["www-authenticate"]) == (401, True), values
    any_case = {"Authorization": api.client.headers["Authorization"].replace("Bearer", "bEARER")}
    assert api.send(name, headers=any_case).status_code == 200


# The status of the service, and its failures


@pytest.mark.parametrize(("active", "state", "code"), [(True, "active", 200), (False, "down", 503)])
def test_the_operator_tells_the_state_of_the_service(service: Served, active: bool, state: str, code: int) -> None:
    before = httpx.get(f"{service.base_url}/service-status")
    service.execute("INSERT INTO service.status (active, message) VALUES (%s, 'From us.')", active)

    answer = httpx.get(f"{service.base_url}/service-status")

    assert before.json() == {"status": "active", "code": 200, "message": "All systems are operational."}
    assert (answer.status_code, answer.json()) == (code, {"status": state, "code": code, "message": "From us."})


def test_without_postgres_the_service_says_that_it_is_down() -> None:
    with (
        running_app("postgresql://nobody@127.0.0.1:1/nothing", wait_seconds=0.2) as base_url,
        httpx.Client(base_url=base_url, timeout=PATIENCE_SECONDS) as client,
    ):
        status = client.get("/service-status")
        answer = client.get("/user/me", headers={"Authorization": "Bearer x"})
        page = client.get("/oauth/authorize?client_id=x&redirect_uri=y")
        token = client.post("/oauth/token", data={"client_id": "x", "grant_type": "refresh_token"})
        client.cookies.set("seller_platform_session", "x" * 43)
        home, of_user = client.get("/"), client.get("/admin/developers")

    assert (status.json()["status"], status.json()["code"]) == ("down", 503)
    assert "nothing" not in status.text + answer.text + page.text
    for refused in (status, answer, page, token, of_user):
        assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (503, True)
    assert (answer.json()["status"], answer.json()["code"]) == ("error", 503)
    for shown in (page, of_user):
        assert shown.headers["content-type"].startswith("text/html")
        assert ("Service Unavailable" in shown.text, shown.headers["x-request-id"] in shown.text) == (True, True)
    assert (home.status_code, "Log in" in home.text) == (200, True)


def test_every_refusal_is_mapped_to_its_status() -> None:
    for kind in ApiError.__subclasses__():
        error = kind.__new__(kind)
        Exception.__init__(error, "told")
        error.message, error.reason, error.parameters, error.headers = "told", None, {}, {}
        error.error = "invalid_request"  # type: ignore[attr-defined]  # only the token endpoint's has one
        assert error_answer(error).status_code == kind.status, kind.__name__
    assert error_answer(WarehouseUnavailableError("here", "gone")).status_code == 503
    unknown = error_answer(RuntimeError("a secret"))
    assert (unknown.status_code, b"secret" in bytes(unknown.body)) == (500, False)
