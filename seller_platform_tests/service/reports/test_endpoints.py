"""Tests requests, workers that are killed, and downloads of reports as JSON and CSV."""

import csv
import io
import json
import re
import signal
import subprocess
import tracemalloc
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from seller_platform.contract import Window, dataset_named
from seller_platform.service.pool import Store
from seller_platform.service.reports.csv import csv_lines
from seller_platform.service.reports.jobs import reserve_report
from seller_platform.service.reports.worker import Pace
from seller_platform.service.reports.writing import write_report
from seller_platform.service.users.groups import set_group
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.processes import COMMAND, announced_address, environment
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.served import ANN, BOB, Served, ask, body_of, running_app, served, with_store
from seller_platform_tests.support.stored_rows import connect, insert_rows, locked_daily_sales, store_slice
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

ORDERS, DAILY = dataset_named("orders"), dataset_named("daily_product_sales")
US = {"account_title": "Shop US"}
DAY = date(2026, 3, 1)
PACE = Pace(poll_seconds=0.2, grace_seconds=0.2, tidy_seconds=0.2, again_seconds=0)
_BEGUN = "state = 'processing' AND attempts > 0"
_END_WRITER = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DECLARE \"rows\"%%'"


@pytest.fixture
def shop(database: Database, database_url: str) -> Iterator[Served]:
    """A service with a worker, and a few rows."""
    with served(database, database_url, worker_pace=PACE) as running:
        _fill(database, "us-1", 3)
        yield running


@pytest.fixture
def idle(service: Served) -> Served:
    """A service without a worker, and a few rows."""
    _fill(service.database, "us-1", 3)
    return service


def _fill(database: Database, account: str, rows: int, day: date = DAY) -> None:
    name, rest = f'Mug "{account}", 12 oz\n椿', (Decimal("0.10"), Decimal("1.234"), Decimal("-0.5"), day)
    sold = [(day, f"SKU-{number}", name, None, number, Decimal(number), *rest) for number in range(rows)]
    insert_rows(database, DAILY, account, sold)
    noon, cup = f"{day}T12:00:00+00:00", ("USD", 1, "SKU-0", None, None, day)
    ordered = [(f"O-{number:07}", noon, "Shipped", Decimal(number), *cup) for number in range(rows)]
    insert_rows(database, ORDERS, account, ordered)


def _request(client: httpx.Client, **selector: str) -> str:
    body = body_of(client.post("/reports/request", params={**US, **(selector or {"dps_date": str(DAY)})}))
    assert list(body) == ["report_id", "status", "message"]
    assert body["message"]
    assert body["status"] == "processing"
    assert re.fullmatch("[0-9]+", body["report_id"])
    return str(body["report_id"])


def _status(client: httpx.Client, report_id: str, **selection: str) -> dict[str, Any]:
    body: dict[str, Any] = body_of(client.get("/reports/status", params={**(selection or US), "report_id": report_id}))
    assert list(body) == ["status", "progress", "message"]
    return body


def _await(client: httpx.Client, report_id: str, *, selection: Mapping[str, str] = US) -> dict[str, Any]:
    progress = 0

    def look() -> dict[str, Any]:
        nonlocal progress
        status = _status(client, report_id, **selection)
        assert progress <= status["progress"] <= 100
        progress = status["progress"]
        assert progress < 100 or status["status"] != "processing"
        return status

    return wait_for(look, lambda status: status["status"] != "processing")


def _download(client: httpx.Client, report_id: str, **more: str) -> httpx.Response:
    return client.get("/reports/download", params={**US, "report_id": report_id, **more})


def _rows(client: httpx.Client, report_id: str, **more: str) -> list[dict[str, Any]]:
    return list(body_of(_download(client, report_id, **more)))


def test_a_report_holds_the_rows_of_the_list_until_it_is_deleted(shop: Served, ann: httpx.Client) -> None:
    _fill(shop.database, "us-1", 2, date(2020, 1, 31))
    of_day, of_product, empty = (
        _request(ann, **selector)
        for selector in ({"dps_date": str(DAY)}, {"product_sku": "SKU-1"}, {"dps_date": "1999-12-31"})
    )
    status = _await(ann, of_day)
    rows, table = _rows(ann, of_day), _download(ann, of_day, format="csv")
    listed = body_of(ask(ann, DAILY.path, **US, per_page=500, start_date=DAY, end_date=DAY))["data"]
    shop.execute("UPDATE seller.daily_product_sales SET units_ordered = 99 WHERE local_day = %s", DAY)
    after = _rows(ann, of_day, format="json")
    for report_id in (of_product, empty):
        _await(ann, report_id)
    of_all_days = _rows(ann, of_product)
    nothing = _download(ann, empty), _download(ann, empty, format="csv")
    chunks = [shop.count_rows("service.report_chunks")]
    shop.execute("UPDATE service.report_jobs SET requested_at = now() - interval '8 days'")
    wait_for(lambda: shop.count_rows("service.report_jobs") == 0)
    chunks.append(shop.count_rows("service.report_chunks"))

    assert (status["status"], status["progress"], len(rows)) == ("completed", 100, 3)
    assert "ready" in status["message"]
    assert rows == listed == after
    assert chunks == [2, 0]
    assert [(row["date"], row["sku"]) for row in of_all_days] == [("2020-01-31", "SKU-1"), ("2026-03-01", "SKU-1")]
    header = "date,sku,product_name,asin,units_ordered,product_sales,taxes,shipping_credits,rebates\r\n"
    assert [answer.text for answer in nothing] == ["[]", header]
    assert table.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert table.headers["content-disposition"] == f'attachment; filename="report-{of_day}.csv"'
    lines = list(csv.DictReader(io.StringIO(table.text, newline="")))
    assert lines == [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
    assert (lines[1]["rebates"], lines[1]["shipping_credits"]) == ("-0.50", "1.234")
    assert table.content.count(b"\r\n") == 1 + len(rows)


def _load(database: Database, totals: Mapping[str, int], ended_at: str) -> None:
    """Load the orders of 10 February, and set when the load ended."""
    february = Window(date(2026, 2, 1), date(2026, 3, 1))
    rows = [
        (name, "2026-02-10T12:00:00Z", "Shipped", Decimal(total), "USD", 1, "A", "B", "Cup", "2026-02-10")
        for name, total in totals.items()
    ]
    store_slice(database, ORDERS, february, rows, at=datetime.fromisoformat(ended_at))


@pytest.mark.parametrize("is_replica", [False, True], ids=["sandbox", "replica"])
def test_a_report_of_updates_follows_the_life_of_the_rows(shop: Served, *, is_replica: bool, ann: httpx.Client) -> None:
    shop.execute("DELETE FROM seller.orders")
    if is_replica:
        connect(shop.database, "us-1")
        mark_loaded(shop.database, ORDERS, "us-1", Window(date(2026, 3, 1), date(2026, 4, 1)))
    _load(shop.database, {"same": 1, "changed": 2, "gone": 3}, "2026-02-20T12:00:00Z")
    _load(shop.database, {"same": 1, "changed": 5, "late": 7}, "2026-03-06T07:59:00Z")  # 5 March in Los Angeles
    _load(shop.database, {"same": 1, "changed": 5, "late": 7}, "2026-03-08T12:00:00Z")
    _load(shop.database, {"same": 1, "changed": 5}, "2026-03-09T12:00:00Z")

    listed = {}
    reports = {day: _request(ann, last_updated_date=day) for day in ("2026-02-10", "2026-02-11", "2026-03-06")}
    reports["2026-03-05"] = _request(ann, last_updated_date="2026-03-05")
    for day, report_id in reports.items():
        _await(ann, report_id)
        listed[day] = [row["platform_order_id"] for row in _rows(ann, report_id)]

    assert listed == {
        "2026-02-10": ["changed", "same"],
        "2026-02-11": ["changed"],
        "2026-03-05": ["changed"],
        "2026-03-06": [],
    }


def test_a_cell_is_escaped_as_it_must_be_and_numbers_keep_their_digits() -> None:
    cells: Mapping[object, str] = {
        **{text: text for text in ("plain", "", "抹茶碗 🎉", "a=1", "'=1")},
        **{text: f"'{text}" for text in ("=SUM(1+1)", "+1", "-25 DISC", "@cmd", "\t=1", "  =1", "＝1")},
        None: "",
        True: "true",
        'a "quoted", text': '"a ""quoted"", text"',
        "two\nlines": '"two\nlines"',
        "two\r\nlines": '"two\r\nlines"',
        '=HYPERLINK("x")': '"\'=HYPERLINK(""x"")"',
        "\r=1": '"\'\r=1"',
    }
    for value, cell in cells.items():
        chunk = json.dumps({"a": value, "b": 1}).encode()
        assert csv_lines(["a", "b"], chunk).decode() == f"{cell},1\r\n"
    chunk = b'{"a":-5.50,"b":12345678901234567890.10},{"a":0.00,"b":-3}'
    assert csv_lines(["a", "b"], chunk) == b"-5.50,12345678901234567890.10\r\n0.00,-3\r\n"


def test_a_request_has_one_selector(reading: Served, ann: httpx.Client) -> None:
    day, product = {"dps_date": "2026-03-01"}, {"product_sku": "A"}
    for query, body in (({}, None), ({**day, **product}, None), (day, product)):
        answer = ann.post("/reports/request", params={**US, **query}, json=body)
        assert (answer.status_code, list(answer.json()["errors"])) == (422, ["selector"])
    assert ann.post("/reports/request", params={**US, "product_sku": "SKU-NOWHERE"}).status_code == 404


def test_a_report_is_waited_for_and_one_that_is_not_ones_own_is_not_found(idle: Served) -> None:
    with idle.client(ANN) as ann, idle.client(BOB) as bob:
        report_id, expired = _request(ann), _request(ann)
        status, early = _status(ann, report_id), _download(ann, report_id)
        age = "UPDATE service.report_jobs SET requested_at = now() - interval '8 days' WHERE id = %s"
        idle.execute(age, int(expired))
        for path in ("/reports/status", "/reports/download"):
            answers = [
                bob.get(path, params={"account_title": "Bob's", "report_id": report_id}),
                ann.get(path, params={**US, "report_id": str(int(expired) + 1)}),
                ann.get(path, params={**US, "report_id": expired}),
                ann.get(path, params={"account_title": "Shop DE", "report_id": report_id}),
            ]
            texts = {re.sub("[0-9]+", "N", answer.json()["message"]) for answer in answers}
            assert [answer.status_code for answer in answers] == [404] * 4
            assert len(texts) == 1

    assert (status["status"], status["progress"]) == ("processing", 0)
    assert (early.status_code, early.json()["code"]) == (409, 409)
    assert int(early.headers["retry-after"]) > 0


def test_a_report_of_several_currencies_names_that_of_each_row(shop: Served, ann: httpx.Client) -> None:
    world = {"group_title": "World"}
    _fill(shop.database, "de-2", 2)
    rows, tables = {}, {}
    for selector, value in (("dps_date", DAY), ("product_sku", "SKU-1"), ("last_updated_date", DAY)):
        asked = ann.post("/reports/request", params={**world, selector: str(value)})
        about = {**world, "report_id": asked.json()["report_id"]}
        _await(ann, about["report_id"], selection=world)
        rows[selector] = ann.get("/reports/download", params=about).json()
        table = ann.get("/reports/download", params={**about, "format": "csv"}).text
        tables[selector] = list(csv.DictReader(io.StringIO(table, newline="")))

    columns = [column.name for column in DAILY.columns]
    for selector, count in (("dps_date", 5), ("product_sku", 2)):
        assert len(rows[selector]) == count
        assert all(list(row) == [*columns, "currency"] for row in (*rows[selector], *tables[selector]))
        for row in (*rows[selector], *tables[selector]):
            assert row["currency"] == {"us-1": "USD", "de-2": "EUR"}[row["product_name"][5:9]]
    assert {row["purchase_date"][-6:] for row in rows["last_updated_date"]} == {"-08:00", "+01:00"}
    assert list(tables["last_updated_date"][0]) == [column.name for column in ORDERS.columns]


def test_a_report_whose_accounts_are_gone_fails_and_says_so(idle: Served, database_url: str, ann: httpx.Client) -> None:
    report_id = ann.post("/reports/request", params={"group_title": "Twins", "dps_date": str(DAY)}).json()["report_id"]
    set_group(idle.database, ANN, "Twins", ["fr-3"])
    with running_app(database_url, worker_pace=PACE):
        wait_for(lambda: idle.count_rows("service.report_jobs", "state <> 'processing'"))
    set_group(idle.database, ANN, "Twins", ["fr-3", "it-4"])
    status = _status(ann, report_id, group_title="Twins")
    answer = ann.get("/reports/download", params={"group_title": "Twins", "report_id": report_id})

    assert (status["status"], "no longer those" in status["message"]) == ("failed", True)
    assert (answer.status_code, answer.headers.get("retry-after")) == (409, None)


@pytest.mark.slow
def test_no_report_is_lost_or_doubled_when_a_worker_is_killed(idle: Served, database_url: str, tmp_path: Path) -> None:
    _fill(idle.database, "us-1", 1_000)
    variables = environment(tmp_path, SELLER_PLATFORM_SERVICE_DATABASE_URL=database_url)
    with idle.client(ANN) as client, locked_daily_sales(database_url) as lock:
        ids = [_request(client) for _ in range(8)]
        worker = subprocess.Popen([*COMMAND, "service", "worker"], env=variables)
        try:
            wait_for(lambda: idle.count_rows("service.report_jobs", _BEGUN))
        finally:
            worker.kill()
            worker.wait()
        interrupted = idle.count_rows("service.report_jobs", _BEGUN)
        lock.rollback()
        with running_app(database_url, worker_pace=PACE):
            states = {_await(client, report_id)["status"] for report_id in ids}
        [text] = {_download(client, report_id).text for report_id in ids}

    assert (states, len(json.loads(text))) == ({"completed"}, 1_000)
    # Each interruption counts as an attempt.
    assert idle.stored("SELECT sum(attempts) - 8 FROM service.report_jobs") == [(interrupted,)] != [(0,)]


def test_stopped_workers_and_lost_connections_use_up_no_attempts(idle: Served, database_url: str) -> None:
    with idle.client(ANN) as client, locked_daily_sales(database_url) as lock:
        report_id = _request(client)
        for _ in range(PACE.attempts + 1):
            with running_app(database_url, worker_pace=PACE):
                wait_for(lambda: idle.stored(_END_WRITER))
                wait_for(lambda: idle.count_rows("service.report_jobs", _BEGUN) == 1)
            assert idle.count_rows("service.report_jobs", "state = 'processing' AND attempts = 0") == 1
        lock.rollback()
        with running_app(database_url, worker_pace=PACE):
            assert _await(client, report_id)["status"] == "completed"


def test_a_report_that_is_broken_or_kills_its_workers_fails(idle: Served, database_url: str, ann: httpx.Client) -> None:
    killing, broken = _request(ann), _request(ann)
    kill = "UPDATE service.report_jobs SET attempts = 5 WHERE id = %s"
    idle.execute(kill, int(killing))
    idle.execute("ALTER TABLE seller.daily_product_sales RENAME COLUMN taxes TO taxed")
    with running_app(database_url, worker_pace=PACE):
        statuses = [_await(ann, report_id) for report_id in (killing, broken)]

    assert [status["status"] for status in statuses] == ["failed", "failed"]
    assert "failed in each of 5 attempts" in statuses[0]["message"]
    assert statuses[1]["message"] == "the report could not be written; request it again"


async def _write_with_two_workers(store: Store) -> None:
    async with store.connection() as first, store.connection() as second:
        async with first.transaction(), second.transaction():
            job = await reserve_report(first)
            assert job is not None
            assert await reserve_report(second) is None
            await write_report(store, first, job, most_bytes=1 << 30)
        async with second.transaction():
            assert await reserve_report(second) is None


def test_a_report_is_written_by_one_at_a_time_and_once(idle: Served, database_url: str, ann: httpx.Client) -> None:
    report_id = _request(ann)
    with_store(database_url, _write_with_two_workers)

    assert _status(ann, report_id)["status"] == "completed"
    assert len(_rows(ann, report_id)) == 3


@pytest.mark.slow
def test_a_large_report_streams_in_little_memory(idle: Served, database_url: str, ann: httpx.Client) -> None:
    name, rest = "椿, =x\n" * 500, (None, 1, *[Decimal(1)] * 4, DAY)
    idle.insert_rows(DAILY, "us-1", [(DAY, f"S-{number}", name, *rest) for number in range(4_000)])
    report_id = _request(ann)
    tracemalloc.start()
    try:
        with_store(database_url, _write_with_two_workers)
        _, while_written = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        sizes = []
        for form in ("json", "csv"):
            query = {**US, "report_id": report_id, "format": form}
            with ann.stream("GET", "/reports/download", params=query) as got:
                sizes.append(sum(len(chunk) for chunk in got.iter_bytes()))
        _, while_read = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert min(sizes) > 16_000_000
    assert while_written < 12_000_000
    assert while_read < 16_000_000


@pytest.mark.parametrize(
    "command",
    [
        ["worker"],
        ["run", "--port", "0", "--no-worker"],
        pytest.param(["run", "--port", "0", "--workers", "2"], marks=pytest.mark.nightly),
    ],
    ids=" ".join,
)
@pytest.mark.slow
def test_a_worker_and_a_server_write_reports_unless_that_is_disabled(
    idle: Served, database_url: str, tmp_path: Path, command: list[str]
) -> None:
    with (tmp_path / "log").open("w+") as log, idle.client(ANN) as client:
        variables = environment(tmp_path, SELLER_PLATFORM_SERVICE_DATABASE_URL=database_url)
        report_id = _request(client)
        process = subprocess.Popen([*COMMAND, "service", *command], env=variables, stdout=log, stderr=log)
        try:
            if "run" in command:
                url = announced_address(process, tmp_path / "log")
                assert httpx.get(f"{url}/service-status", timeout=PATIENCE_SECONDS).status_code == 200
            if "--no-worker" not in command:
                assert _await(client, report_id)["status"] == "completed"
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
            process.wait()
        status = _status(client, report_id)["status"]
        lines = (tmp_path / "log").read_text()

    assert status == ("processing" if "--no-worker" in command else "completed")
    assert ("writing reports" in lines) is (command == ["worker"])
    assert "Traceback" not in lines
