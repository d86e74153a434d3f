"""Tests the output of `seller-platform metrics`, as Prometheus reads it."""

import re
import subprocess
from datetime import UTC, date, datetime
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.connections.sent_requests import take_requests
from seller_platform.warehouse.loads.receipts import Slice
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.processes import COMMAND, environment
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

STOCK = dataset_named("warehouse_stock")
SHOP = Account(1, 'Shop "1"', "US", "USD", "America/Los_Angeles", "US", "S1")


def test_the_receipts_are_in_the_metrics(database: Database, database_url: str, tmp_path: Path) -> None:
    save_connection(database, KnownConnection("ana", "http://api", "http://auth", "client"))
    save_accounts(database, "ana", [("us-1", SHOP)])
    began = datetime.now(UTC)
    for day, verdict in ((1, CountVerdict.MATCH), (2, CountVerdict.MISMATCH)):
        with open_load(database, Slice(STOCK, "us-1", Window.day(date(2026, 3, day)))) as load:
            load.store(LoadFacts(3, 2, 1000, 0, verdict), started_at=began)
    window = Window.day(date(2026, 3, 2))
    store_receipt(database, dataset_named("inventory"), "us-1", window, verdict="held", changed=False)
    assert take_requests(database, "ana", [began.date()], 4, per_day=96) is None
    march = Window.month_of(date(2026, 3, 1))
    store_receipt(database, dataset_named("orders"), "us-1", march, rows=9, started_at=began)
    variables = environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url, SELLER_API_REQUESTS_PER_DAY="96")
    command = [*COMMAND, "metrics", "--port", "0"]

    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = re.search(r"http\S+", process.stdout.readline())
        assert address is not None
        answer = httpx.get(address[0], timeout=PATIENCE_SECONDS)
        process.terminate()

    samples = {
        (sample.name, *(label for _, label in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["seller_platform_loads_total", "us-1", "warehouse_stock"] == 2
    assert samples["seller_platform_requests_total", "us-1", "warehouse_stock"] == 6
    for dataset, kind in (("warehouse_stock", "mismatched"), ("inventory", "held")):
        assert samples["seller_platform_problems", "us-1", "false", dataset, kind, "error"] == 1
    assert samples["seller_platform_read_at_seconds", "us-1", "warehouse_stock"] >= began.timestamp()
    assert ("seller_platform_read_at_seconds", "us-1", "inventory") not in samples
    assert samples["seller_platform_accounts", "listed"] == 1
    assert samples["seller_platform_requests_per_day", "ana"] == 96
    assert samples["seller_platform_requests_sent_today", "ana"] == 4
