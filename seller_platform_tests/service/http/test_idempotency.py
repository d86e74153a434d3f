"""Tests that a request with an Idempotency-Key is carried out once, however often it is sent."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import psycopg
import pytest

from seller_platform.service.reports.worker import delete_expired
from seller_platform.warehouse.postgres.sessions import conninfo
from seller_platform_tests.support.known_rows import COST_PERIOD, US
from seller_platform_tests.support.served import ANN, BOB, Served, add_product, with_connection
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

COSTS, REPORTS = "/cogs/cost-periods", "/reports/request"
BODY = {**COST_PERIOD, "sku": "SKU-1"}


@pytest.fixture
def ann(service: Served) -> Iterator[httpx.Client]:
    add_product(service.database, "us-1", "SKU-1")
    with service.client(ANN) as client:
        yield client


def _keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def _report(client: httpx.Client, key: str, day: str = "2026-03-01", **selection: str) -> httpx.Response:
    return client.post(REPORTS, params=selection or US, json={"dps_date": day}, headers=_keyed(key))


def test_a_repeated_request_gets_the_first_answer_and_has_one_effect(ann: httpx.Client, service: Served) -> None:
    first, again, quoted = (_report(ann, key) for key in ("key 1", "key 1", '"key 1"'))
    other_key, other_day = _report(ann, "key 2"), _report(ann, "key 1", "2026-03-02")
    other_endpoint = ann.post(COSTS, params=US, json=BODY, headers=_keyed("key 1"))
    with service.client(BOB) as bob:
        other_user = _report(bob, "key 1", account_title="Bob's")

    assert [answer.status_code for answer in (first, again, quoted, other_key, other_user)] == [200] * 5
    assert first.content == again.content == quoted.content
    assert first.headers["content-type"] == again.headers["content-type"]
    assert len({answer.json()["report_id"] for answer in (first, other_key, other_user)}) == 3
    assert service.count_rows("service.report_jobs") == 3
    assert other_endpoint.status_code == 200
    assert other_day.status_code == 422
    assert "another request was sent" in other_day.json()["errors"]["Idempotency-Key"][0]


def test_a_refusal_stores_nothing_and_is_decided_again(ann: httpx.Client, service: Served) -> None:
    unknown = {**BODY, "sku": "SKU-2"}
    overlapping = {**BODY["data"][0], "dates": {"from_date": "2026-01-31", "to_date": "2026-02-01"}}
    invalid = {**BODY, "data": [*BODY["data"], overlapping]}

    refused = [ann.post(COSTS, params=US, json=body, headers=_keyed("key")) for body in (unknown, invalid)]
    refused.append(_report(ann, "key", "no day"))
    stored = [service.count_rows(table) for table in ("service.idempotency_keys", "seller.cost_periods")]
    add_product(service.database, "us-1", "SKU-2")
    accepted = ann.post(COSTS, params=US, json=unknown, headers=_keyed("key"))
    other = ann.post(COSTS, params=US, json=invalid, headers=_keyed("key"))

    assert [answer.status_code for answer in refused] == [404, 422, 422]
    assert stored == [0, 0]
    assert (accepted.status_code, other.status_code) == (200, 422)
    assert "another request was sent" in other.text
    assert [service.count_rows(table) for table in ("service.idempotency_keys", "seller.cost_periods")] == [1, 1]


def test_a_request_under_way_is_not_begun_a_second_time(ann: httpx.Client, service: Served, database_url: str) -> None:
    """A write waits for another of the same account only."""
    add_product(service.database, "de-2", "SKU-1")

    def write() -> httpx.Response:
        with service.client(ANN) as client:
            return client.post(COSTS, params=US, json=BODY, headers=_keyed("key"))

    with psycopg.connect(conninfo(database_url)) as holder, ThreadPoolExecutor(1) as pool:
        holder.execute("SELECT pg_advisory_xact_lock(hashtextextended('seller.cost_periods us-1', 0))")
        waiting = pool.submit(write)
        is_waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"
        wait_for(lambda: holder.execute(is_waiting).fetchone() == (1,))
        busy = write()
        other_account = ann.post(COSTS, params={"account_title": "Shop DE"}, json=BODY)
        assert not waiting.done()
        holder.commit()
        first = waiting.result(PATIENCE_SECONDS)

    assert (busy.status_code, busy.headers["retry-after"]) == (409, "1")
    assert (first.status_code, other_account.status_code) == (200, 200)
    assert write().content == first.content


def test_the_effect_and_the_answer_are_stored_together_or_not_at_all(ann: httpx.Client, service: Served) -> None:
    service.execute("""
        CREATE FUNCTION service.fail() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'shut down' USING ERRCODE = '57P01'; END $$;
        CREATE TRIGGER fail BEFORE INSERT ON service.idempotency_keys FOR EACH ROW EXECUTE FUNCTION service.fail()
        """)
    lost = _report(ann, "key")
    jobs_after_loss = service.count_rows("service.report_jobs")
    service.execute("DROP TRIGGER fail ON service.idempotency_keys")
    again = _report(ann, "key")

    assert (lost.status_code, jobs_after_loss) == (503, 0)
    assert (again.status_code, service.count_rows("service.report_jobs")) == (200, 1)


def test_a_key_has_a_form_is_sent_once_and_kept_a_day(ann: httpx.Client, service: Served, database_url: str) -> None:
    for keys in (["a", "b"], *([key] for key in ("", '""', "x" * 256, "schlüssel", "a\tb"))):
        headers = [(b"Idempotency-Key", key.encode()) for key in keys]
        refused = ann.post(REPORTS, params={**US, "dps_date": "2026-03-01"}, headers=headers)
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["Idempotency-Key"]), keys
    assert service.count_rows("service.report_jobs") == 0
    first = _report(ann, "~" * 255)
    service.execute("UPDATE service.idempotency_keys SET stored_at = now() - interval '24 hours 1 minute'")
    next_day = _report(ann, "~" * 255)
    service.execute("UPDATE service.idempotency_keys SET stored_at = now() - interval '25 hours 1 minute'")
    deleted = with_connection(database_url, partial(delete_expired, kept_days=7))

    assert first.json()["report_id"] != next_day.json()["report_id"]
    assert deleted["idempotency keys"] == 1
    assert service.count_rows("service.idempotency_keys") == 0
