"""Tests `/mcp` with the client of package mcp: it finds the OAuth server, a person consents, and it asks."""

from collections import Counter
from collections.abc import Iterator
from random import Random
from urllib.parse import urlsplit

import httpx
import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.agent_hosts import Host
from seller_platform_tests.support.client_documents import Documents, hosted_documents
from seller_platform_tests.support.demo_company import AU, DE, US
from seller_platform_tests.support.demo_company import NOW as READ_AT
from seller_platform_tests.support.hostile_calls import hostile_messages, leaks, result_of
from seller_platform_tests.support.questions import problems_of, questions
from seller_platform_tests.support.served import ANN, Served, add_user, execute, running_app, stored
from seller_platform_tests.support.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documents]:
    with hosted_documents(tmp_path_factory.mktemp("documents")) as documents:
        yield documents


@pytest.fixture(scope="module")
def agents(company: Database) -> Iterator[Served]:
    """A service that answers agents over the demo's company; Ann may read its three accounts."""
    add_user(company, ANN, (US, DE, AU))
    with running_app(company.url, private_client_hosts=("localhost",), now=READ_AT, serves_agents=True) as base_url:
        yield Served(base_url, company, "", "")


@pytest.fixture(scope="module")
def host(agents: Served, documents: Documents) -> Host:
    """A host that has a grant for two of the accounts of Ann."""
    host = Host(agents.base_url, documents, accounts="ticked", **{f"account:{AU}": None})
    host.ask()
    return host


def test_a_stock_client_discovers_consents_and_calls(agents: Served, documents: Documents) -> None:
    host = Host(agents.base_url, documents, accounts="ticked", **{f"account:{DE}": None, f"account:{AU}": None})

    [answer, refusal] = host.ask(("accounts", {}), ("no such tool", {}))
    [again] = host.ask(("accounts", {}), mode="legacy")

    assert [row["key"] for row in answer.structured_content["rows"]] == [US]
    assert (answer.is_error, refusal.is_error) == (False, True)
    assert again.structured_content == answer.structured_content
    assert "Allow <strong>Desk host</strong>" in host.consent
    assert urlsplit(documents.url).netloc in host.consent
    assert "Let an agent ask about the accounts below" in host.consent
    assert "Change the costs" not in host.consent
    assert host.tokens is not None
    assert host.tokens.scope == "read"


def test_sixty_questions_are_answered_over_http(agents: Served, documents: Documents) -> None:
    asked = questions()

    results = Host(agents.base_url, documents).ask(*((each.tool, dict(each.arguments)) for each in asked))

    wrong = {
        each.ask: found for each, result in zip(asked, results, strict=True) if (found := problems_of(each, result))
    }
    assert (wrong, len(asked)) == ({}, 60)


def test_a_grant_of_one_account_explains_no_rows_of_another(agents: Served, documents: Documents) -> None:
    host = Host(agents.base_url, documents, accounts="ticked", **{f"account:{US}": None, f"account:{AU}": None})
    march = {"metric": "orders", "first_day": "2026-03-01", "last_day": "2026-03-31"}

    own, *others = host.ask(("explain", march), *(("explain", {**march, "accounts": [key]}) for key in (US, AU)))

    rows = [row for row in own.structured_content["rows"] if row["kind"] == "row"]
    assert {row["account"] for row in own.structured_content["rows"]} == {DE}
    assert {row["request"].split("&")[0] for row in rows} == {f"GET /sales/orders?seller_id={DE.split('.')[0]}"}
    assert ([each.is_error for each in others], len(rows)) == ([True, True], 20)


def test_the_tokens_of_agents_are_for_agents_alone(agents: Served, host: Host) -> None:
    assert host.tokens
    plain = {"Authorization": f"Bearer {host.tokens.access_token}"}
    of_agents = httpx.get(f"{agents.base_url}/user/me", headers=plain, timeout=PATIENCE_SECONDS)
    without, unknown = host.post(None), host.post("unknown")
    # A grant of the same client for the REST API.
    swap = "UPDATE service.authorizations SET resource = %s WHERE client_id = %s"
    execute(agents.database, swap, None, host.client_id)
    of_rest = host.post(host.tokens.access_token)
    execute(agents.database, swap, "/mcp", host.client_id)

    assert [each.status_code for each in (of_agents, without, unknown, of_rest)] == [401] * 4
    metadata = f'resource_metadata="{agents.base_url}/.well-known/oauth-protected-resource/mcp", scope="read"'
    assert metadata in without.headers["www-authenticate"]
    assert 'error="invalid_token"' in unknown.headers["www-authenticate"]
    assert host.post(host.tokens.access_token).status_code == 200


def test_sixteen_refreshes_at_once_keep_the_grant(agents: Served, host: Host) -> None:
    assert host.tokens
    assert host.tokens.refresh_token
    first = host.tokens.refresh_token
    works = host.refresh_at_once(16)
    later = "UPDATE service.refresh_tokens SET used_at = now() - interval '61 seconds' WHERE used_at IS NOT NULL"
    execute(agents.database, later)
    replayed = host.refresh(first)
    revoked = "SELECT count(*) FROM service.authorizations WHERE revoked_at IS NOT NULL AND client_id = %s"

    assert works == [True] * 16
    assert (replayed.status_code, replayed.json()["error"]) == (400, "invalid_grant")
    assert stored(agents.database, revoked, host.client_id) == [(1,)]
    host.tokens = None
    host.ask()


def test_hostile_requests_get_no_rows_of_others_and_show_no_sql(agents: Served, documents: Documents) -> None:
    host = Host(agents.base_url, documents, accounts="ticked", **{f"account:{DE}": None, f"account:{AU}": None})
    host.ask()
    assert host.tokens
    token, statuses = host.tokens.access_token, Counter[int]()
    with httpx.Client() as http:
        for message in hostile_messages(Random(2), 200):
            answer = host.post(token, message, http=http)
            statuses[answer.status_code] += 1
            assert leaks(message, result_of(answer)) == [], message
    foreign = host.post(token, Origin="https://evil.example")
    rebound = host.post(token, Host="evil.example")
    large = host.post(token, {"padding": "x" * (1 << 20)})

    assert set(statuses) <= {200, 400}, statuses
    assert statuses[200] > 100
    assert [each.status_code for each in (foreign, rebound, large)] == [403, 421, 413]
    assert httpx.get(f"{agents.base_url}/mcp").status_code == 405


def test_without_the_option_the_service_says_so(reading: Served) -> None:
    answer = httpx.post(f"{reading.base_url}/mcp", json={})

    assert answer.status_code == 404
    assert "--mcp" in answer.json()["message"]
