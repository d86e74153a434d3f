"""Tests the contract's tables of states, tokens, reports and limits, as far as the endpoints' own modules do not."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from seller_platform.service.lists.endpoints import SERVED
from seller_platform.service.reports.worker import Pace
from seller_platform_tests.support.known_rows import MUG, US, fill
from seller_platform_tests.support.served import (
    ANN,
    CALLBACK,
    Served,
    execute,
    running_app,
)
from seller_platform_tests.support.waiting import wait_for

_PACE = Pace(heartbeat_seconds=0.2, poll_seconds=0.1, grace_seconds=0.2, again_seconds=0)
_DPS = {"dps_date": "2026-03-05"}
REQUEST, STATUS, DOWNLOAD = "/reports/request", "/reports/status", "/reports/download"


@pytest.fixture
def idle(service: Served) -> Served:
    """A service with fixed values, without a worker that writes reports."""
    fill(service)
    return service


@pytest.fixture(scope="module")
def ann(filled: Served) -> Iterator[httpx.Client]:
    with filled.client(ANN) as client:
        yield client


@pytest.fixture(scope="module")
def completed(ann: httpx.Client) -> Mapping[str, str]:
    """The ids of completed reports, one for each selector."""
    selectors = {"dps_date": "2026-03-05", "product_sku": MUG, "last_updated_date": "2026-03-05"}
    reports = {
        name: ann.post(REQUEST, params={**US, name: value}).json()["report_id"] for name, value in selectors.items()
    }
    for report_id in reports.values():
        _progress_until_done(ann, report_id)
    return reports


def _progress_until_done(client: httpx.Client, report_id: str) -> list[int]:
    """Poll until the report is completed, and return the progress of each answer."""
    progress: list[int] = []

    def is_completed() -> bool:
        status = client.get(STATUS, params={**US, "report_id": report_id}).json()
        progress.append(status["progress"])
        assert status["status"] in ("processing", "completed"), status
        return bool(status["status"] == "completed")

    wait_for(is_completed, pause_seconds=0.02)
    return progress


def _rows(client: httpx.Client, report_id: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.get(DOWNLOAD, params={**US, "report_id": report_id}).json()
    return rows


# Reports


@pytest.mark.parametrize("carrier", ["query", "body"])
@pytest.mark.parametrize(
    ("selector", "value"),
    [("product_sku", MUG), ("dps_date", "2026-03-05"), ("last_updated_date", "2026-03-05")],
)
def test_a_report_is_requested_by(ann: httpx.Client, carrier: str, selector: str, value: str) -> None:
    asked = {selector: value}

    answer = (
        ann.post(REQUEST, params={**US, **asked}) if carrier == "query" else ann.post(REQUEST, params=US, json=asked)
    )

    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("path", [REQUEST, STATUS, DOWNLOAD])
def test_a_report_has_an_account_selection(ann: httpx.Client, completed: Mapping[str, str], path: str) -> None:
    method = "POST" if path == REQUEST else "GET"

    answer = ann.request(method, path, params={**_DPS, "report_id": completed["dps_date"]})

    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["account"])


@pytest.mark.parametrize(
    ("field", "value"),
    [("report_id", None), ("status", "processing"), ("message", None)],
)
def test_report_row_of_the_request(ann: httpx.Client, field: str, value: str | None) -> None:
    answer = ann.post(REQUEST, params={**US, **_DPS}).json()

    assert isinstance(answer[field], str)
    assert answer[field] == value if value else answer[field]


@pytest.mark.parametrize(
    ("form", "media_type", "begins"),
    [
        (None, "application/json", '[{"date":"2026-03-05"'),
        ("json", "application/json", '[{"date":"2026-03-05"'),
        ("csv", "text/csv", "date,sku,product_name,"),
    ],
)
def test_a_report_is_downloaded_in_the_format(
    ann: httpx.Client, completed: Mapping[str, str], form: str | None, media_type: str, begins: str
) -> None:
    asked = {"format": form} if form else {}

    answer = ann.get(DOWNLOAD, params={**US, "report_id": completed["dps_date"], **asked})

    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == media_type
    assert answer.text.replace(": ", ":").replace(", ", ",").startswith(begins)


@pytest.mark.parametrize("form", ["xml", "CSV", ""])
def test_format_is_csv_or_json(ann: httpx.Client, completed: Mapping[str, str], form: str) -> None:
    answer = ann.get(DOWNLOAD, params={**US, "report_id": completed["dps_date"], "format": form})

    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["format"])


def test_report_state_processing_lasts_while_written_then_is_completed(idle: Served, database_url: str) -> None:
    with idle.client(ANN) as client:
        report_id = client.post(REQUEST, params={**US, "product_sku": MUG}).json()["report_id"]
        before = client.get(STATUS, params={**US, "report_id": report_id}).json()["progress"]
        with running_app(database_url, worker_pace=_PACE):
            progress = [before, *_progress_until_done(client, report_id)]
        status = client.get(STATUS, params={**US, "report_id": report_id}).json()

    assert progress == sorted(progress)
    assert (progress[0], progress[-1]) == (0, 100)
    assert "ready" in status["message"]


# The service's status


@pytest.mark.parametrize(("active", "state", "code"), [(True, "active", 200), (False, "down", 503)])
def test_service_state(service: Served, active: bool, state: str, code: int) -> None:
    execute(service.database, "INSERT INTO service.status (active, message) VALUES (%s, 'Told by us.')", active)

    answer = httpx.get(f"{service.base_url}/service-status")

    assert (answer.status_code, answer.json()) == (code, {"status": state, "code": code, "message": "Told by us."})


# Authorisation codes and tokens


@pytest.mark.parametrize(
    ("parameter", "value", "status"),
    [
        ("client_id", None, 400),
        ("client_id", "unknown", 400),
        ("redirect_uri", None, 400),
        ("redirect_uri", "https://elsewhere.example/callback", 400),
        ("response_type", None, 400),
        ("response_type", "token", 400),
        ("state", None, 200),
    ],
)
def test_authorize_parameter(reading: Served, parameter: str, value: str | None, status: int) -> None:
    query = {"client_id": reading.client_id, "redirect_uri": CALLBACK, "response_type": "code", "state": "s"}
    asked = {name: each for name, each in {**query, parameter: value}.items() if each is not None}
    with reading.client() as browser:
        answer = browser.get("/oauth/authorize", params=asked, follow_redirects=True)

    assert answer.status_code == status
    assert answer.url.path == ("/login" if status == 200 else "/oauth/authorize")


@pytest.mark.parametrize("value", ["wrong", ""], ids=["wrong", "missing"])
@pytest.mark.parametrize("changed", ["grant_type", "client_id", "client_secret", "refresh_token"])
def test_token_parameter_of_a_refresh(reading: Served, changed: str, value: str) -> None:
    with reading.client() as browser:
        pair = reading.exchange(browser, reading.code(browser)).json()
        refused = reading.refresh(browser, pair["refresh_token"], **{changed: value})
        taken = reading.refresh(browser, pair["refresh_token"])

    assert (refused.status_code in (400, 401), "error" in refused.json()) == (True, True)
    assert (taken.status_code, taken.json()["refresh_token"] != pair["refresh_token"]) == (200, True)


@pytest.mark.parametrize(("passed", "status"), [("9 minutes 30 seconds", 200), ("10 minutes 1 second", 400)])
def test_code_state_issued_becomes_expired_after_ten_minutes(service: Served, passed: str, status: int) -> None:
    with service.client() as browser:
        code = service.code(browser)
        execute(
            service.database, "UPDATE service.authorization_codes SET expires_at = expires_at - %s::interval", passed
        )

        assert service.exchange(browser, code).status_code == status


@pytest.mark.parametrize(("passed", "status"), [("1295990 seconds", 200), ("1296001 seconds", 401)])
def test_limit_of_access_tokens_is_fifteen_days(service: Served, passed: str, status: int) -> None:
    with service.client() as browser:
        pair = service.exchange(browser, service.code(browser)).json()
        execute(service.database, "UPDATE service.access_tokens SET expires_at = expires_at - %s::interval", passed)
        answer = browser.get("/user/me", headers={"Authorization": f"Bearer {pair['access_token']}"})

    assert answer.status_code == status


# What needs a token, and the version


def test_every_endpoint_but_the_status_and_those_of_oauth_wants_a_token(reading: Served) -> None:
    paths = httpx.get(f"{reading.base_url}/openapi.json").json()["paths"]
    open_paths = {path for path, item in paths.items() for operation in item.values() if not operation["security"]}
    statuses = {
        (method, path): httpx.request(method, f"{reading.base_url}{path}").status_code
        for path, item in paths.items()
        for method, operation in item.items()
        if operation["security"]
    }

    assert {path for path in open_paths if not path.startswith(("/oauth/", "/.well-known/"))} == {"/service-status"}
    # Two of the user, the statistics, three of costs, three of reports.
    assert len(statuses) == len(SERVED) + 9
    assert set(statuses.values()) == {401}


def test_the_version_is_in_the_document_and_in_no_path(reading: Served) -> None:
    document = httpx.get(f"{reading.base_url}/openapi.json").json()

    assert document["info"]["version"] == "1.0.0"
    assert [path for path in document["paths"] if path.startswith(("/v1", "/api/v"))] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/oauth/authorize"),
        ("POST", "/oauth/token"),
        ("GET", "/service-status"),
        ("GET", "/user/me"),
        ("GET", "/user/accounts"),
        ("GET", "/sales/orders"),
        ("GET", "/sales/statistics-dashboard"),
        ("GET", "/sales/per-day-per-product"),
        ("GET", "/sales/transactions"),
        ("GET", "/inventory/list"),
        ("GET", "/cogs/cost-periods"),
        ("POST", "/cogs/cost-periods"),
        ("DELETE", "/cogs/cost-periods"),
        ("POST", "/reports/request"),
        ("GET", "/reports/status"),
        ("GET", "/reports/download"),
        ("GET", "/notifications/list"),
        ("GET", "/warehouse/list"),
        ("GET", "/warehouse/inbound-shipments"),
    ],
)
def test_endpoint(ann: httpx.Client, method: str, path: str) -> None:
    answer, refused = ann.request(method, path), ann.request("PUT", path)

    assert answer.status_code not in (404, 405)
    assert (refused.status_code, method in refused.headers["allow"]) == (405, True)
