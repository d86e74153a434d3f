"""Measures how long pages of Dagster's UI take with many accounts and months.

`python -m seller_platform_tests.benchmarks.interface [--accounts 1000] [--months 36]` prints a table.

Dagster's tables say that every month of every account of the dated lists was loaded and checked. Then Chromium opens
pages of the platform's definitions. A page is complete when each of its queries has been answered once; repeated
queries do not count. The CPU is that of both visits together.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import httpx
from playwright.sync_api import Page, Request, Response, sync_playwright
from rich.console import Console
from rich.table import Table

from seller_platform.contract import LISTS, Dataset, Window
from seller_platform.contract.loads import CountVerdict
from seller_platform.orchestration.assets.checks import (
    LEDGERS_DO_NOT_REPEAT,
    checks_of,
    evaluations,
    judgement_of_repeats,
)
from seller_platform.orchestration.assets.events import materialization
from seller_platform.orchestration.partitions import add_accounts, asset_key, partition_key
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.benchmarks.serving import month_before
from seller_platform_tests.support.dagster_instance import connect_to_tables, postgres_instance
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.processes import environment, free_port

DATED = [dataset for dataset in LISTS if dataset.is_dated]
_PAGES = {
    "catalog": "/assets",
    "lineage": "/asset-groups",
    "asset, overview": "/assets/seller/orders?view=overview",
    "asset, partitions": "/assets/seller/orders?view=partitions",
    "asset, one account": "/assets/seller/orders?view=partitions&partition={partition}",
    "asset, checks": "/assets/seller/orders?view=checks",
    "asset, events": "/assets/seller/orders?view=events",
    "asset, plots": "/assets/seller/orders?view=plots",
    "asset, definition": "/assets/seller/orders?view=definition",
    "asset, lineage": "/assets/seller/orders?view=lineage",
    "asset, automation": "/assets/seller/orders?view=automation",
    "mart, partitions": "/assets/marts/account_profit_daily?view=partitions",
    "schedules and sensors": "/automation",
    "runs": "/runs",
    "backfills": "/runs?tab=backfills",
}
_QUIET_SECONDS = 2.0
_LONGEST_SECONDS = 180.0

_EVENTS = """
INSERT INTO event_logs (run_id, event, dagster_event_type, timestamp, step_key, asset_key, partition)
SELECT run_id, replace(replace(event, %(account)s, account), %(month)s, month), dagster_event_type, timestamp, step_key,
       asset_key, account || '|' || month
FROM event_logs, unnest(%(accounts)s::text[]) AS account, unnest(%(months)s::text[]) AS month
WHERE id = %(id)s AND (account, month) <> (%(account)s, %(month)s)
"""
_TAGS = """
INSERT INTO asset_event_tags (event_id, asset_key, key, value, event_timestamp)
SELECT id, asset_key, tag.key, tag.value, timestamp
FROM event_logs, LATERAL (VALUES ('dagster/partition/account', split_part(partition, '|', 1)),
                                 ('dagster/partition/month', split_part(partition, '|', 2))) AS tag (key, value)
WHERE dagster_event_type = 'ASSET_MATERIALIZATION'
  AND NOT EXISTS (SELECT FROM asset_event_tags AS known WHERE known.event_id = event_logs.id)
"""
_CHECKS = """
INSERT INTO asset_check_executions (asset_key, check_name, partition, run_id, execution_status, evaluation_event,
                                    evaluation_event_timestamp, evaluation_event_storage_id,
                                    materialization_event_storage_id)
SELECT done.asset_key, done.check_name, stored.partition, done.run_id, done.execution_status,
       replace(done.evaluation_event, done.partition, stored.partition), done.evaluation_event_timestamp,
       done.evaluation_event_storage_id, stored.id
FROM asset_check_executions AS done
JOIN event_logs AS stored
  ON stored.asset_key = done.asset_key AND stored.dagster_event_type = 'ASSET_MATERIALIZATION'
 AND stored.partition <> done.partition
"""


@dataclass
class Visit:
    """The queries of a page, and the times of their answers."""

    began: float
    last_answer: float = 0.0
    slow: dict[str, float] = field(default_factory=dict)
    asked: dict[Request, float] = field(default_factory=dict)
    questions: set[str] = field(default_factory=set)

    def on_request(self, request: Request) -> None:
        question = request.post_data or ""
        if "/graphql" in request.url and request.method == "POST" and question not in self.questions:
            self.questions.add(question)
            self.asked[request] = time.perf_counter()

    def on_response(self, response: Response) -> None:
        began = self.asked.pop(response.request, None)
        if began is None:
            return
        self.last_answer = time.perf_counter()
        name = str((response.request.post_data_json or {}).get("operationName"))
        self.slow[name] = max(self.slow.get(name, 0.0), self.last_answer - began)

    @property
    def slowest(self) -> str:
        three = sorted(self.slow.items(), key=lambda each: -each[1])[:3]
        return ", ".join(f"{name} {seconds:.1f}" for name, seconds in three)


def fill(url: str, folder: Path, accounts: Sequence[str], months: Sequence[Window]) -> None:
    """Store events in Dagster's tables: every month of every account was loaded and checked."""
    with postgres_instance(url, folder) as instance:
        with (folder / "dagster.yaml").open("a") as settings:
            settings.write("telemetry: {enabled: false}\nnux: {enabled: false}\n")
        add_accounts(instance, accounts)
        for dataset in DATED:
            key = partition_key(accounts[0], months[0])
            receipt = receipt_of(dataset, accounts[0], months[0])
            loaded = materialization(
                dataset, receipt, partition=key, endpoint_url="http://127.0.0.1/x", database_uri="postgresql://db/x"
            )
            instance.report_runless_asset_event(loaded)
            passed = list(evaluations(instance, dataset, receipt, key))
            if LEDGERS_DO_NOT_REPEAT in checks_of(dataset):
                name, target = LEDGERS_DO_NOT_REPEAT.name, passed[0].target_materialization_data
                passed.append(judgement_of_repeats(()).evaluation(asset_key(dataset), name, target, key))
            for evaluation in passed:
                instance.report_runless_asset_event(evaluation)
    with connect_to_tables(url) as connection:
        materializations = connection.execute(
            "SELECT id FROM event_logs WHERE dagster_event_type = 'ASSET_MATERIALIZATION'"
        )
        values = {
            "account": accounts[0],
            "month": str(months[0].start),
            "accounts": list(accounts),
            "months": [str(month.start) for month in months],
        }
        for (number,) in materializations.fetchall():
            connection.execute(_EVENTS, {**values, "id": number})
        connection.execute(_TAGS)
        connection.execute(_CHECKS)
        connection.execute("VACUUM ANALYZE")


def receipt_of(dataset: Dataset, account: str, month: Window) -> Receipt:
    now = datetime.now(UTC)
    return Receipt(
        id=1,
        dataset=dataset.name,
        account=account,
        window=month,
        requests=2,
        pages=1,
        body_bytes=50_000,
        announced=200,
        rows=200,
        digest=bytes(24),
        verdict=CountVerdict.MATCH,
        changed=True,
        restatement=None,
        notes=None,
        run_id=None,
        started_at=now,
        finished_at=now,
    )


@contextmanager
def webserver(folder: Path, history_start: date) -> Iterator[tuple[str, int]]:
    """Run Dagster's web server with the platform's definitions; yield its URL and its process id."""
    port = free_port()
    variables = environment(folder / "home", DAGSTER_HOME=str(folder), SELLER_PLATFORM_HISTORY_START=str(history_start))
    command = [sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", str(port)]
    module = ["-m", "seller_platform.orchestration.definitions"]
    with subprocess.Popen([*command, *module], env=variables, stdout=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(600):
                with suppress(httpx.HTTPError, KeyError, ValueError):
                    asked = {"query": "{ assetNodes { id } }"}
                    if httpx.post(f"{url}/graphql", json=asked, timeout=60).json()["data"]["assetNodes"]:
                        break
                time.sleep(0.2)
            yield url, process.pid
        finally:
            process.terminate()
            process.wait(30)


def used(process: int) -> tuple[int, float]:
    """Return the highest memory of a process in MB, and its seconds of CPU."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{process}/status").read_text()
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak) // 1_000, (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def visit(page: Page, url: str) -> Visit:
    """Open a page and wait until its queries are answered."""
    seen = Visit(time.perf_counter())
    page.on("request", seen.on_request)
    page.on("response", seen.on_response)
    page.goto(url)
    while True:
        page.wait_for_timeout(200)
        now = time.perf_counter()
        if seen.last_answer and not seen.asked and now - seen.last_answer > _QUIET_SECONDS:
            break
        if now - seen.began > _LONGEST_SECONDS:
            break
    page.remove_listener("request", seen.on_request)
    page.remove_listener("response", seen.on_response)
    return seen


def main() -> None:
    """Fill Dagster's tables, open the pages, and print the seconds of each page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accounts", type=int, default=1_000)
    parser.add_argument("--months", type=int, default=36)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--screenshots", type=Path, help="a folder for a picture of each page")
    chosen = parser.parse_args()
    today = datetime.now(UTC).date().replace(day=1)
    first = month_before(today, chosen.months - 1)
    months = list(Window(first, Window.month_of(today).end).months())
    accounts = [f"S{number:04}.US" for number in range(1, chosen.accounts + 1)]
    size = f"{chosen.accounts:,} accounts, {chosen.months} months"
    table = Table(title=f"Pages of Dagster's UI over {size}", title_justify="left")
    for name in ("page", "first s", "again s", "CPU of the web server s", "its slowest questions, s"):
        table.add_column(name, justify="right" if name.endswith(" s") else "left")
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        url = server.database("interface")
        began = time.perf_counter()
        fill(url, folder, accounts, months)
        count = len(accounts) * len(months) * len(DATED)
        checks = sum(len(checks_of(dataset)) for dataset in DATED) * len(accounts) * len(months)
        print(f"{count:,} materializations, {checks:,} evaluations written in {time.perf_counter() - began:.0f} s")
        with webserver(folder, first) as (base, process), sync_playwright() as playwright:
            arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
            browser = playwright.chromium.launch(executable_path=chosen.chromium, args=arguments)
            page = browser.new_page(viewport={"width": 1500, "height": 1100})
            page.set_default_timeout(1_000 * _LONGEST_SECONDS)
            for title, path in _PAGES.items():
                address = base + path.format(partition=partition_key(accounts[500 % len(accounts)], months[-1]))
                before = used(process)[1]
                visits = [visit(page, address) for _ in range(2)]
                taken = [f"{each.last_answer - each.began:.1f}" for each in visits]
                taken.append(f"{used(process)[1] - before:.1f}")
                table.add_row(title, *taken, visits[0].slowest)
                print(title, *taken, visits[0].slowest, sep="; ", file=sys.stderr)
                if chosen.screenshots:
                    page.screenshot(path=chosen.screenshots / f"{title.replace(', ', '-').replace(' ', '-')}.png")
            browser.close()
            table.caption = f"The web server used {used(process)[0]:,} MB at most."
        server.close()
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
