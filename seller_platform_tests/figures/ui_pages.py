"""Measures pages of Dagster's UI, ticks, `sync --plan` and `status`, with many accounts and months.

Dagster's tables say that every month of every account of the dated lists was loaded and checked. Then Chromium opens
pages of the platform's definitions, each twice; the web server has just started before the first, and has emptied
caches. A page is complete when each of its queries has been answered once; repeated queries do not count. The CPU is
that of the web server, in seconds, until the page is complete. The ticks are those of one component, where nothing is
under way; the CPU of a tick and of a command is that of its process and of PostgreSQL together.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from playwright.sync_api import Page, Request, Response

from seller_platform.contract import LISTS, Window
from seller_platform.contract.loads import CountVerdict
from seller_platform.orchestration.account_names import AccountNames
from seller_platform.orchestration.assets.checks import checks_of, judgement_of
from seller_platform.orchestration.assets.events import load_event
from seller_platform.orchestration.assets.reporting import report_judgements
from seller_platform.orchestration.partitions import add_accounts, partition_key
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.fleet import fill_warehouse, ticks
from seller_platform_tests.figures.measuring import peak_mib, processor_seconds, spent, spent_by_command
from seller_platform_tests.figures.results import Samples
from seller_platform_tests.support.browsers import open_browser
from seller_platform_tests.support.dagster_instance import connect_to_tables, postgres_instance
from seller_platform_tests.support.installation import temporary_server
from seller_platform_tests.support.processes import COMMAND, environment

DATED = [dataset for dataset in LISTS if dataset.is_dated]
_PAGES = {
    "catalog": "/assets",
    "lineage": "/asset-groups",
    "asset, overview": "/assets/{prefix}seller/orders?view=overview",
    "asset, partitions": "/assets/{prefix}seller/orders?view=partitions",
    "asset, one account": "/assets/{prefix}seller/orders?view=partitions&partition={partition}",
    "asset, checks": "/assets/{prefix}seller/orders?view=checks",
    "asset, events": "/assets/{prefix}seller/orders?view=events",
    "mart, partitions": "/assets/{prefix}marts/account_profit_daily?view=partitions",
    "runs": "/runs",
}
# On a busy machine, the browser takes seconds between an answer and the next query.
_QUIET_SECONDS = 4.0
_LONGEST_SECONDS = 180.0
_ASSETS = "{ assetNodes { assetKey { path } isPartitioned isMaterializable } }"
_LAUNCH = """
mutation ($assets: [AssetKeyInput!]!) {
  launchPartitionBackfill(backfillParams: {assetSelection: $assets, allPartitions: true}) {
    __typename ... on PythonError { message }
  }
}
"""

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


@dataclass
class Visit:
    """The queries of a page; the time and the CPU of the web server at its last answer."""

    process: int
    began: float
    last_answer: float = 0.0
    processor_seconds: float = 0.0
    asked: set[Request] = field(default_factory=set)
    questions: set[str] = field(default_factory=set)

    @property
    def seconds(self) -> float:
        return self.last_answer - self.began

    def on_request(self, request: Request) -> None:
        question = request.post_data or ""
        if "/graphql" in request.url and request.method == "POST" and question not in self.questions:
            self.questions.add(question)
            self.asked.add(request)

    def on_response(self, response: Response) -> None:
        self.on_end(response.request)

    def on_end(self, request: Request) -> None:
        if request in self.asked:
            self.asked.remove(request)
            self.last_answer, self.processor_seconds = time.perf_counter(), processor_seconds(self.process)


def fill(url: str, folder: Path, accounts_of: Mapping[Placement, Sequence[str]], months: Sequence[Window]) -> None:
    """Store events in Dagster's tables: every month of every account was loaded and checked.

    Args:
        accounts_of: The accounts of each component.
    """
    quiet = "telemetry: {enabled: false}\nnux: {enabled: false}\n"
    with postgres_instance(url, folder, quiet) as instance, Database(url) as database:
        for placement, accounts in accounts_of.items():
            add_accounts(instance, accounts, placement.accounts_name)
            for dataset in DATED:
                now, key = datetime.now(UTC), placement.asset_key(dataset)
                receipt = Receipt(
                    id=1, dataset=dataset.name, account=accounts[0], window=months[0], requests=2, pages=1,
                    body_bytes=50_000, announced=200, rows=200, digest=bytes(24), verdict=CountVerdict.MATCH,
                    changed=True, restatement=None, notes=None, run_id=None, started_at=now, finished_at=now,
                )  # fmt: skip
                instance.report_runless_asset_event(load_event(receipt, placement, AccountNames(database)))
                checked = f"{len(accounts) * len(months):,} slices"
                passed = [
                    judgement_of(rule.name, rule.doc, checked, [], {"failed_slices": 0}) for rule in checks_of(dataset)
                ]
                report_judgements(instance, key, passed)
    with connect_to_tables(url) as connection:
        values = {"month": str(months[0].start), "months": [str(month.start) for month in months]}
        for accounts in accounts_of.values():
            of_component = {**values, "account": accounts[0], "accounts": list(accounts)}
            materializations = connection.execute(
                "SELECT id FROM event_logs WHERE partition = %(account)s || '|' || %(month)s", of_component
            )
            for (number,) in materializations.fetchall():
                connection.execute(_EVENTS, {**of_component, "id": number})
        connection.execute(_TAGS)
        connection.execute("VACUUM ANALYZE")


@contextmanager
def webserver(variables: dict[str, str]) -> Iterator[tuple[str, int]]:
    """Run Dagster's web server with the platform's definitions; yield its URL and its process id."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", str(port)]
    code = ["-m", "seller_platform.orchestration.definitions"]
    with subprocess.Popen([*command, *code], env=variables, stdout=subprocess.DEVNULL) as process:
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


def visit(page: Page, url: str, process: int) -> Visit:
    """Open a page of a web server and wait until its queries are answered."""
    seen = Visit(process, time.perf_counter())
    page.on("request", seen.on_request)
    page.on("response", seen.on_response)
    page.on("requestfailed", seen.on_end)
    page.goto(url)
    while time.perf_counter() - seen.began < _LONGEST_SECONDS:
        page.wait_for_timeout(200)
        if seen.last_answer and not seen.asked and time.perf_counter() - seen.last_answer > _QUIET_SECONDS:
            break
    page.remove_listener("request", seen.on_request)
    page.remove_listener("response", seen.on_response)
    page.remove_listener("requestfailed", seen.on_end)
    return seen


def launch(url: str) -> None:
    """Launch a backfill of every partition of all assets, as *Materialize all* does."""
    with httpx.Client(base_url=url, timeout=_LONGEST_SECONDS) as client:
        nodes = client.post("/graphql", json={"query": _ASSETS}).json()["data"]["assetNodes"]
        assets = [node["assetKey"] for node in nodes if node["isPartitioned"] and node["isMaterializable"]]
        asked = {"query": _LAUNCH, "variables": {"assets": assets}}
        launched = client.post("/graphql", json=asked).json()["data"]["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched


def measure(*, accounts: int = 1_000, months: int = 36) -> Samples:
    """Options: accounts, and months of each."""
    samples = Samples(f"Pages of Dagster's UI over {accounts:,} accounts, {months} months")
    listed = [Window.month_of(datetime.now(UTC).date())]
    while len(listed) < months:
        listed.insert(0, Window.month_of(listed[0].start - timedelta(days=1)))
    keys = [f"S{number:04}.US" for number in range(1, accounts + 1)]
    values = {"partition": partition_key(keys[accounts // 2], listed[-1]), "prefix": ""}
    with temporary_server() as (server, folder):
        variables = environment(
            folder / "home",
            DAGSTER_HOME=str(folder),
            SELLER_PLATFORM_HISTORY_START=str(listed[0].start),
            SELLER_PLATFORM_DATABASE_URL=server.database("ui"),
        )
        with Database(server.database("ui")) as database:
            database.migrate()
            fill_warehouse(database, keys, listed)
        fill(server.database("ui"), folder, {WHOLE: keys}, listed)
        with webserver(variables) as (base, process), open_browser() as browser:
            page = browser.new_page(viewport={"width": 1500, "height": 1100})
            page.set_default_timeout(1_000 * _LONGEST_SECONDS)
            for title, path in _PAGES.items():
                for turn in ("first", "again"):
                    before = processor_seconds(process)
                    seen = visit(page, base + path.format(**values), process)
                    samples.add(title, **{turn: seen.seconds, f"{turn}_CPU": seen.processor_seconds - before})
            before, began = processor_seconds(process), time.perf_counter()
            launch(base)
            seconds = time.perf_counter() - began
            samples.add("launch of *Materialize all*", first=seconds, first_CPU=processor_seconds(process) - before)
            samples.add("the web server's memory", MiB=peak_mib(process))
        for name, work in ticks(folder, variables).items():
            for turn in ("first", "again"):
                took = spent(work, server)
                samples.add(name, **{turn: took.seconds, f"{turn}_CPU": took.own + took.postgres})
        for command in (["status"], ["sync", "--plan"]):
            took = spent_by_command([*COMMAND, *command], variables, server)
            samples.add(f"`{' '.join(command)}`", first=took.seconds, first_CPU=took.own + took.postgres)
    return samples
