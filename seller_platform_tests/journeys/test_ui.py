"""`seller-platform dev` opens with the last month, and is used in Chromium.

The tests share one deployment, in their order.
"""

import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Error, Locator, Page, expect
from rich.console import Console
from rich.text import Text

from seller_platform.sandbox.commands.demo import approve
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform_tests.support.browsers import PATIENCE_MILLISECONDS, open_browser
from seller_platform_tests.support.deployment import LOADED, WEB_SERVER, Deployment, deployment
from seller_platform_tests.support.folders import ROOT_DATA
from seller_platform_tests.support.processes import completed, document, environment, left_behind, run, try_to_connect
from seller_platform_tests.support.stored_rows import count_rows, execute, stored
from seller_platform_tests.support.terminals import show
from seller_platform_tests.support.waiting import wait_for

pytestmark = [pytest.mark.journey, pytest.mark.timeout(1800)]

SCREENSHOTS = "SELLER_PLATFORM_SCREENSHOTS"
"""Names the folder of the screenshots, whose parent is then the home; by default both are in the test's own folder."""

PICTURES = (
    "backfill",
    "partition-that-failed",
    "reason-of-a-failure",
    "launchpad-request_reports",
    "checks",
    "reading-that-is-held",
    "profit-by-day",
    "status",
)
"""The screenshots that the README and the pages show; CONTRIBUTING.md says how they are renewed."""

OPTIONS = ("--accounts", "1", "--months", "2")
ORDERS = "/assets/seller/orders"
_PAGE_MILLISECONDS = 15_000
_ENDED = re.compile(r"^Status\s*(Succeeded|Failed|Canceled)")


@dataclass(frozen=True)
class DagsterPages:
    """The Dagster UI in a browser, and the folder of the screenshots."""

    page: Page
    place: Deployment
    folder: Path

    def open(self, path: str) -> None:
        self.page.goto(self.place.told["Dagster UI"] + path)

    def open_when_quiet(self, path: str) -> None:
        """Open a page after all runs have ended. A page of Dagster that is open meanwhile keeps the processor busy."""
        self.page.goto("about:blank")
        self.place.await_quiet()
        self.open(path)

    def click(self, words: str, *, inside: Locator | None = None) -> None:
        """Click the first button whose name contains these words; names of icons are part of it."""
        (inside or self.page).get_by_role("button", name=re.compile(words)).first.click()

    def await_text(self, words: str | re.Pattern[str]) -> str:
        """Wait until a text is visible, and return what its element says."""
        found = self.page.get_by_text(words, exact=isinstance(words, str)).filter(visible=True).first
        expect(found).to_be_visible(timeout=PATIENCE_MILLISECONDS)
        return found.inner_text()

    def keep(self, name: str) -> None:
        """Make a screenshot once nothing is loaded any more."""
        self.page.wait_for_load_state("networkidle")
        self.page.screenshot(path=self.folder / f"{name}.png", animations="disabled")

    def keep_part(self, name: str, part: Locator) -> None:
        part.screenshot(path=self.folder / f"{name}.png", animations="disabled")

    def keep_screen(self, name: str, arguments: list[str], *, columns: int = 110) -> None:
        """Make a picture of what a command leaves on a terminal."""
        variables = environment(self.place.sandbox)
        raw = show(arguments, variables, columns=columns).raw.replace(variables[ROOT_DATA], "/var/lib/seller-platform")
        console = Console(record=True, width=columns, file=io.StringIO())
        console.print(Text.from_ansi(raw.replace("\r\n", "\n")))  # progress ends with a carriage return alone
        self.page.set_content(console.export_html(inline_styles=True))
        self.page.add_style_tag(content="pre {display: inline-block; padding: 1em}")
        self.keep_part(name, self.page.locator("pre"))

    def materialize_orders(self, month: str | None = None) -> None:
        """Launch a run that loads one month of orders, or what failed or is missing, and wait for its end."""
        self.open(f"{ORDERS}?view=partitions")
        self.click("Materialize…")
        dialog = self.page.get_by_role("dialog")
        every_account, every_month = (dialog.get_by_role("button", name="All", exact=True).nth(each) for each in (0, 1))
        every_account.click()
        if month is None:
            every_month.click()
            dialog.get_by_text("Backfill only failed and missing").click()
        else:
            months = dialog.get_by_role("textbox").last
            months.fill(month)
            months.press("Enter")
        dialog.get_by_role("button", name=re.compile("Launch 1 run")).wait_for()
        self.click("Launch 1 run", inside=dialog)
        dialog.wait_for(state="detached")

    def launch(self, job: str, config: str | None = None) -> None:
        """Launch a job in the Launchpad, and wait until its run has succeeded."""
        self.open(f"/locations/seller_platform/jobs/{job}/playground")
        self.await_text("No errors")
        if config is not None:
            self.page.locator(".CodeMirror").first.click()
            self.page.keyboard.press("Control+A")
            self.page.keyboard.insert_text(config)
            self.await_text("No errors")
        self.keep(f"launchpad-{job}")
        self.click("Launch Run")
        self.page.wait_for_url("**/runs/*")
        self.open_when_quiet(urlsplit(self.page.url).path)
        self.await_text("Success")


@pytest.fixture
def page() -> Iterator[Page]:
    """A page of a Chromium; without one the test is skipped, or fails in CI."""
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        yield page


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A running `seller-platform dev` with its last month."""
    chosen = os.environ.get(SCREENSHOTS)
    home = Path(chosen).parent if chosen else tmp_path_factory.mktemp("dev") / "a home"
    with deployment(home, *OPTIONS) as running:
        yield running


def test_the_last_month_is_there_and_every_printed_command_works(place: Deployment, tmp_path: Path) -> None:
    assets = wait_for(place.assets, pause_seconds=1)
    known: tuple[dict[str, list[str]], ...] = ({}, {"marts/cost_coverage": ["sales_are_covered"]})
    wait_for(place.failed_checks, lambda failed: failed in known, pause_seconds=2)
    command = re.search(r"`(.+?)`", place.told["In another shell"])
    assert command is not None
    status = _run(command[1], tmp_path)
    connected = _connect_again(place)

    unfinished = {key for key, progress in assets.items() if not progress.is_whole}
    assert unfinished == {"seller/report_rows"}
    assert any(assets[key].materialized for key in LOADED)
    assert {f"marts/{mart.name}" for mart in MARTS} <= assets.keys() - unfinished
    assert "never loaded" not in status
    assert "Connected: 1 account" in connected
    assert f"Next: `SELLER_PLATFORM_HOME='{place.sandbox}' seller-platform sync`" in connected


# Charts, a partition that failed and its repair have tests without a browser in `orchestration`.
@pytest.mark.nightly
@pytest.mark.browser
def test_a_mart_is_shown_and_a_failure_repaired_in_the_dagster_ui(
    place: Deployment, tmp_path: Path, page: Page
) -> None:
    desk = DagsterPages(page, place, _folder_of_pictures(tmp_path))
    account, month = _closed_month(place)

    chart = _chart(desk, account, month)
    reason = _fail_and_repair(desk, place, account, month)
    repaired = place.assets()["seller/orders"]

    assert chart.startswith("Sales and profit by day, ")
    assert f"({account}), {date.fromisoformat(month):%B %Y}, " in chart
    assert "the upstream answered 404: there is no account of seller" in reason
    assert repaired.is_whole


# The jobs, the backfills, the checks and their pages have tests without a browser, which each change is tried with.
@pytest.mark.nightly
@pytest.mark.browser
def test_reports_checks_and_held_months_are_handled_in_the_dagster_ui(
    place: Deployment, tmp_path: Path, page: Page
) -> None:
    folder = _folder_of_pictures(tmp_path)
    desk = DagsterPages(page, place, folder)
    account, month = _closed_month(place)

    _materialize_all(desk, "/asset-groups")
    everything = place.assets()
    reports, evaluated = _request_a_report_and_execute_checks(desk, account)
    held = _accept_a_held_month(desk, place, account, month)
    still_held = document(run(["held", "--json"], environment(place.sandbox)))["held"]
    red = place.failed_checks()

    assert [key for key, progress in everything.items() if not progress.is_whole] == []
    assert reports == "Materialized"
    assert evaluated == "Passed"
    assert "stored rows was read" in held
    assert still_held == []
    assert "reading_is_plausible" not in red.get("seller/orders", [])
    assert not os.environ.get(SCREENSHOTS) or {path.stem for path in folder.glob("*.png")} >= set(PICTURES)


def test_a_program_that_dies_is_started_again(place: Deployment) -> None:
    place.kill(WEB_SERVER)

    assert place.assets()


def test_it_ends_in_order(place: Deployment) -> None:
    place.await_quiet()

    assert (place.end(), left_behind(place.home)) == (0, [])


def _folder_of_pictures(folder: Path) -> Path:
    return Path(os.environ.get(SCREENSHOTS) or folder / "screenshots")


def _run(command: str, folder: Path) -> str:
    """Run a printed command as in a shell of a person, in another folder."""
    installed = command.replace(" seller-platform ", f" {sys.executable} -m seller_platform.cli ")
    assert installed != command
    ended = completed(installed, check=True, shell=True, cwd=folder, env=environment(folder))  # as printed
    return ended.stdout


def _connect_again(place: Deployment) -> str:
    person = partial(approve, email=place.told["Sandbox login"], password=place.told["Sandbox password"])
    connected = try_to_connect(environment(place.sandbox), person)
    assert connected.returncode == 0, connected.stderr
    return connected.stdout + connected.stderr


def _materialize_all(desk: DagsterPages, path: str) -> None:
    """Click *Materialize all…* and *Launch backfill* on a page of assets, and wait until the backfill has succeeded."""
    desk.open(path)
    desk.click("Materialize all")
    desk.click("Launch backfill", inside=desk.page.get_by_role("dialog"))
    desk.page.get_by_role("dialog").wait_for(state="detached")
    desk.open("/runs?tab=backfills")
    desk.open_when_quiet(str(desk.page.locator("a[href^='/runs/b/']").first.get_attribute("href")))
    status = desk.page.locator("div").filter(has_text=_ENDED).last
    expect(status).to_be_visible(timeout=2 * PATIENCE_MILLISECONDS)
    expect(status).to_contain_text("Succeeded")
    desk.keep("backfill")


def _chart(desk: DagsterPages, account: str, month: str) -> str:
    """Return the words of the chart that Dagster shows for a month of a mart, once the browser has drawn it."""
    desk.open(f"/assets/marts/account_profit_daily?view=partitions&partition={account}%7C{month}")
    desk.page.get_by_text("[Show Markdown]").first.click()
    image = desk.page.locator("img[src^='data:image/svg+xml']").first
    image.wait_for()
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 720
    desk.keep_part("profit-by-day", image)
    return image.get_attribute("alt") or ""


def _fail_and_repair(desk: DagsterPages, place: Deployment, account: str, month: str) -> str:
    """Let a month fail because the account is taken away, give it back, and load what failed.

    Returns:
        What the page of the run says of the failure.
    """
    shell = environment(place.sandbox)
    user = place.told["Sandbox login"]
    assert run(["service", "user", "revoke", user, account], shell).returncode == 0
    desk.materialize_orders(month)
    desk.open_when_quiet(f"{ORDERS}?view=partitions")
    desk.await_text("Failed (1)")
    desk.await_text(account)  # whole: Dagster abbreviates longer keys in this list
    desk.open(f"{ORDERS}?view=partitions&partition={account}%7C{month}")
    desk.await_text(re.compile("failed, and did not materialize this asset"))
    desk.keep("partition-that-failed")
    desk.page.get_by_role("link", name="View logs").or_(desk.page.get_by_text("View logs")).first.click()
    reason = desk.await_text(re.compile("GET /sales/orders: the upstream answered 404"))
    desk.keep("reason-of-a-failure")
    assert run(["service", "user", "grant", user, account], shell).returncode == 0
    desk.materialize_orders()
    desk.open_when_quiet(f"{ORDERS}?view=partitions")
    desk.await_text("Materialized (2)")
    return reason


def _request_a_report_and_execute_checks(desk: DagsterPages, account: str) -> tuple[str, str]:
    """Request a report in the Launchpad, and execute the checks of orders while it is written.

    Returns:
        What is shown of the partition of reports, and of the check of orders.
    """
    partition = f"/assets/seller/report_rows?view=partitions&partition={account}"
    desk.launch("request_reports")
    desk.open(f"{ORDERS}?view=checks")
    desk.click("Execute all")
    desk.await_text(re.compile("Launched run"))
    desk.open_when_quiet(f"{ORDERS}?view=checks")
    evaluated = desk.await_text("Passed")
    desk.page.get_by_role("tab", name="Execution history").click()
    # Evaluations that are reported without a run have no link to one.
    desk.page.locator("a[href^='/runs/']").first.wait_for()
    desk.keep("checks")
    desk.page.goto("about:blank")
    with desk.place.databases() as (_, warehouse):
        wait_for(lambda: count_rows(warehouse, "platform.report_jobs", "state = 'loaded'"), pause_seconds=1)
    # Before, the partition says that no report was ever loaded.
    loaded = desk.page.get_by_text("announced_total", exact=True).filter(visible=True)
    wait_for(lambda: _appears_in(desk, partition, loaded), pause_seconds=2)
    reports = desk.await_text("Materialized")
    return reports, evaluated


def _appears_in(desk: DagsterPages, path: str, found: Locator) -> bool:
    """Open a page, and return whether an element becomes visible in the time that a page takes."""
    desk.open(path)
    try:
        found.first.wait_for(timeout=_PAGE_MILLISECONDS)
    except Error:
        return False
    return True


def _accept_a_held_month(desk: DagsterPages, place: Deployment, account: str, month: str) -> str:
    """Let the upstream forget a closed month, read it, and accept the reading that is held then.

    Returns:
        What the failed check says.
    """
    of_month = "account = %s AND to_char(local_day, 'YYYY-MM') = %s"
    with place.databases() as (served, _):
        execute(served, f"DELETE FROM seller.orders WHERE {of_month}", account, month[:7])
        execute(served, "DELETE FROM service.summaries WHERE account = %s", account)
    desk.materialize_orders(month)
    desk.open_when_quiet(f"{ORDERS}?view=checks&checkDetail=reading_is_plausible")
    step = desk.await_text(re.compile(r"accept_held of load \d+"))
    description = desk.await_text(re.compile("stored rows was read"))
    desk.keep("reading-that-is-held")
    desk.keep_screen("status", ["status"])
    load = re.findall(r"accept_held of load (\d+)", step)[-1]
    config = f"ops: {{accept: {{config: {{load: {load}, accepted_by: Kim, reason: the month was withdrawn}}}}}}\n"
    desk.launch("accept_held", config)
    desk.open(f"{ORDERS}?view=partitions&partition={account}%7C{month}")
    desk.await_text("Materialized (2)")
    return description


def _closed_month(place: Deployment) -> tuple[str, str]:
    """Return the account that the service serves, and the first day of its first month with orders."""
    statement = "SELECT account, to_char(min(local_day), 'YYYY-MM-01') FROM seller.orders GROUP BY 1"
    with place.databases() as (served, _):
        [(account, month)] = stored(served, statement)
    return account, month
