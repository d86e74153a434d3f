"""Tests that unchanged third-party clients complete the flow and read every resource."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import requests
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from requests.adapters import HTTPAdapter
from requests_oauthlib import OAuth2Session
from sellerlegend_api import SellerLegendClient
from sellerlegend_api.exceptions import AuthenticationError, NotFoundError
from sellerlegend_api.exceptions import ValidationError as RefusedError

from seller_platform_tests.support.known_rows import BOWL, LONG_DAY, MUG
from seller_platform_tests.support.served import ANN, CALLBACK, Served, approve_at
from seller_platform_tests.support.waiting import wait_for

_ACCOUNT: dict[str, Any] = {"account_title": "Shop US"}
_FIFTH = date(2026, 3, 5)
_DAYS: dict[str, Any] = {"start_date": _FIFTH, "end_date": date(2026, 3, 6)}


@pytest.fixture(autouse=True, scope="module")
def _loopback_is_trusted() -> Iterator[None]:
    """Allow the libraries to use plain HTTP on the loopback interface."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AUTHLIB_INSECURE_TRANSPORT", "OAUTHLIB_INSECURE_TRANSPORT"):
            patch.setenv(name, "1")
        yield


@pytest.mark.parametrize(("method", "with_pkce"), [("client_secret_basic", True), ("client_secret_post", False)])
def test_authlib_is_configured_by_metadata_refreshes_and_revokes(reading: Served, method: str, with_pkce: bool) -> None:
    metadata = httpx.get(f"{reading.base_url}/.well-known/oauth-authorization-server").json()
    options = {"code_challenge_method": "S256"} if with_pkce else {}
    verifier = {"code_verifier": "v" * 48} if with_pkce else {}
    kept: list[str] = []
    with AuthlibSession(
        reading.client_id,
        reading.client_secret,
        redirect_uri=CALLBACK,
        token_endpoint_auth_method=method,
        token_endpoint=metadata["token_endpoint"],
        update_token=lambda token, **_: kept.append(token["refresh_token"]),
        **options,
    ) as client:
        url, state = client.create_authorization_url(metadata["authorization_endpoint"], **verifier)
        _, response = approve_at(url)
        first = client.fetch_token(metadata["token_endpoint"], authorization_response=response, state=state, **verifier)
        client.token = {**first, "expires_at": int(time.time()) - 1}  # then it refreshes by itself
        me = client.get(f"{reading.base_url}/user/me")
        revoked = client.revoke_token(metadata["revocation_endpoint"], token_type_hint="refresh_token")
        after = client.get(f"{reading.base_url}/user/me")

    assert (me.json()["user"]["email"], len(kept)) == (ANN, 1)
    assert first["refresh_token"] not in kept
    assert (revoked.status_code, after.status_code) == (200, 401)


@pytest.mark.parametrize("pkce", ["S256", None])
def test_requests_oauthlib_completes_the_flow_and_refreshes(reading: Served, pkce: str | None) -> None:
    token_url = f"{reading.base_url}/oauth/token"
    credentials = {"client_id": reading.client_id, "client_secret": reading.client_secret}
    with OAuth2Session(reading.client_id, redirect_uri=CALLBACK, pkce=pkce) as session:
        url, _ = session.authorization_url(f"{reading.base_url}/oauth/authorize")
        _, response = approve_at(url)
        first = session.fetch_token(token_url, authorization_response=response, client_secret=reading.client_secret)
        me = session.get(f"{reading.base_url}/user/me")
        second = session.refresh_token(token_url, **credentials)
        again = session.get(f"{reading.base_url}/user/me")

    assert me.json()["user"]["email"] == again.json()["user"]["email"] == ANN
    assert first["refresh_token"] != second["refresh_token"]


class _OtherNames(HTTPAdapter):
    """Rewrites requests of that client: without its path prefix, and `platform` for `amazon`."""

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        assert request.url is not None
        request.url = re.sub(r"(://[^/]+)/api/", r"\1/", request.url).replace("amazon", "platform")
        return super().send(request, *args, **kwargs)


@contextmanager
def _opened(service: Served) -> Iterator[SellerLegendClient]:
    """Open the third-party client, authorised by Ann as its documentation describes."""
    with SellerLegendClient(
        client_id=service.client_id,
        client_secret=service.client_secret,
        base_url=service.base_url,
        redirect_uri=CALLBACK,
        max_retries=0,
    ) as opened:
        for scheme in ("http://", "https://"):
            opened._base_client.session.mount(scheme, _OtherNames())
        url, state = opened.get_authorization_url()
        sent_back = parse_qs(urlsplit(approve_at(url)[1]).query)
        opened.authenticate_with_code(sent_back["code"][0], state=state)
        yield opened


@pytest.fixture(scope="module")
def client(filled: Served) -> Iterator[SellerLegendClient]:
    with _opened(filled) as client:
        yield client


def test_their_client_refreshes_and_says_why_a_token_is_refused(filled: Served) -> None:
    with _opened(filled) as client:
        before = client._oauth_client.access_token
        client.refresh_token()
        me = client.user.get_me()
        client.set_access_token("unknown")

        assert before != client._oauth_client.access_token
        assert (me["user"]["email"], me["user"]["active"]) == (ANN, True)
        with pytest.raises(AuthenticationError, match="unknown, expired or revoked"):
            client.user.get_me()


def test_their_client_reads_every_list(client: SellerLegendClient) -> None:
    long_day: dict[str, Any] = {"start_date": LONG_DAY, "end_date": LONG_DAY}
    pair: dict[str, Any] = {"seller_id": "S1", "marketplace_id": "US", **_DAYS}
    views: list[tuple[Any, str]] = [("product", "sku"), ("product", "asin"), ("date", "day"), ("date", "month")]

    of_a_day = (client.sales.get_orders, client.sales.get_per_day_per_product, client.sales.get_transactions)
    of_now = (client.inventory.get_list, client.warehouse.get_list, client.warehouse.get_inbound_shipments)
    pages = [
        [read(per_page=500, page=page, **_ACCOUNT, **days) for page in (1, 2)]
        for days, reads in ((long_day, of_a_day), ({}, of_now))
        for read in reads
    ]
    status, accounts = client.get_service_status(), client.user.get_accounts()["accounts"]
    totals = [client.sales.get_orders(sales_channel=channel, **pair)["total"] for channel in ("amazon", "non-amazon")]
    lists = [client.notifications.get_list(kind, **_ACCOUNT)["data"] for kind in ("price_alerts", "restock_alerts")]
    dashboards = [
        client.sales.get_statistics_dashboard(view, group, currency="USD", **_ACCOUNT, **_DAYS)["data"]
        for view, group in views
    ]

    assert [first["total"] for first, _ in pages] == [260, 510, 510, 25, 25, 27]
    assert all(len(first["data"]) + len(second["data"]) == first["total"] for first, second in pages)
    assert status["status"] == "active"
    assert [account["account_title"] for account in accounts] == ["Shop US", "Shop DE", "Twin", "Twin"]
    assert totals == [1, 1]
    assert [{row["type"] for row in rows} for rows in lists] == [{"price_alerts"}, {"restock_alerts"}]
    assert [sum(row["units_ordered"] for row in rows) for rows in dashboards] == [6] * 4


def test_their_client_writes_reads_and_deletes_costs(client: SellerLegendClient) -> None:
    element = {"cost_element": "Goods", "currency": "USD", "amount": 2.5, "provider": "", "notes": ""}
    period = {"dates": {"from_date": "2030-01-01", "to_date": "2030-12-31"}, "cost_elements": [element]}

    written = client.costs.update_cost_periods([period], sku=BOWL, **_ACCOUNT)
    read = client.costs.get_cost_periods(sku=BOWL, **_ACCOUNT)
    deleted = client.costs.delete_cost_periods(sku=BOWL, **_ACCOUNT)

    assert (written["periods"], deleted["deleted"]) == (1, 1)
    assert [each["from_date"] for each in read["data"]] == ["2030-01-01"]
    assert read["data"][0]["cost_elements"][0]["amount"] == 2.5


def test_their_client_requests_polls_and_downloads_a_report(client: SellerLegendClient) -> None:
    report_id = client.reports.create_report_request(dps_date=_FIFTH, **_ACCOUNT)["report_id"]
    wait_for(lambda: client.reports.get_report_status(report_id, **_ACCOUNT)["status"] == "completed")

    assert [row["sku"] for row in client.reports.download_report(report_id, **_ACCOUNT)] == [MUG]


def test_their_client_understands_our_refusals(client: SellerLegendClient) -> None:
    with pytest.raises(NotFoundError, match="among yours"):
        client.sales.get_orders(account_title="Bob's")
    with pytest.raises(RefusedError, match="start_date"):
        client.sales.get_orders(start_date="2026-01-01", end_date="2026-03-01", **_ACCOUNT)
