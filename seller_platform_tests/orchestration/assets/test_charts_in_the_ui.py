"""Tests that the installed Dagster UI shows a chart in metadata as an image."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import dagster as dg
import httpx
import pytest

from seller_platform.contract import Account, Window
from seller_platform.orchestration.assets.marts import materialization
from seller_platform.orchestration.partitions import add_accounts, partition_key
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.marts import mart_named
from seller_platform.warehouse.marts.builds import Build
from seller_platform_tests.support.browsers import PATIENCE_MILLISECONDS, open_browser
from seller_platform_tests.support.processes import environment, free_port
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.browser

ACCOUNT = "S1.US"
NAMED = KnownAccount(ACCOUNT, "default", Account(1, "Möbel & Söhne", "US", "USD", "UTC", "US", "S1"))
MARCH = Window.month_of(date(2026, 3, 1))


@pytest.fixture
def webserver(tmp_path: Path) -> Iterator[str]:
    """The URL of Dagster's web server with one materialized month of a mart."""
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        add_accounts(instance, [ACCOUNT])
        march = materialization(_march(), {}, database_uri="postgres://db/x", account=NAMED)
        instance.report_runless_asset_event(march)
    port = free_port()
    variables = environment(tmp_path / "home", DAGSTER_HOME=str(tmp_path), SELLER_PLATFORM_HISTORY_START="2026-01-01")
    command = [str(Path(sys.executable).with_name("dagster-webserver")), "-h", "127.0.0.1", "-p", str(port)]
    module = ["-m", "seller_platform.orchestration.definitions"]
    with subprocess.Popen(
        [*command, *module], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url)
            yield url
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def test_the_chart_of_a_partition_is_shown_as_an_image(webserver: str) -> None:
    partition = quote(str(partition_key(ACCOUNT, MARCH)))
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1500, "height": 1200})
        page.set_default_timeout(PATIENCE_MILLISECONDS)

        page.goto(f"{webserver}/assets/marts/account_profit_daily?view=partitions&partition={partition}")
        link = page.get_by_text("[Show Markdown]").first
        link.wait_for()
        link.dispatch_event("click")  # Dagster's welcome dialog would receive a click of the pointer
        image = page.locator("img[src^='data:image/svg+xml']")
        image.wait_for()
        width = image.evaluate("image => image.decode().then(() => image.naturalWidth)")
        words = image.get_attribute("alt") or ""

    assert width == 720
    assert words.startswith(
        "Sales and profit by day, Möbel & Söhne, US, USD (S1.US), March 2026, USD per day: Product sales from 10 to 40"
    )


def _march() -> Build:
    days = [MARCH.start + timedelta(days=index) for index in range(4)]
    rows = [
        {"label": day, "currency": "USD", "Product sales": 10 * index, "Profit": 4 * index}
        for index, day in enumerate(days, start=1)
    ]
    now = datetime(2026, 4, 1, tzinfo=UTC)
    return Build(
        id=1,
        mart=mart_named("account_profit_daily"),
        account=ACCOUNT,
        window=MARCH,
        rows=len(rows),
        digest=b"\x01",
        parameters={},
        loads={},
        check_results=(),
        chart_rows=tuple(rows),
        started_at=now,
        finished_at=now,
    )


def _wait(url: str) -> None:
    def answers() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{url}/server_info", timeout=PATIENCE_SECONDS).is_success
        return False

    wait_for(answers, pause_seconds=0.5)
