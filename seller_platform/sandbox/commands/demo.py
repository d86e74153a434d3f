"""`seller-platform demo`: connects to the sandbox, loads every list and all costs, and checks the rows."""

import re
import threading
from collections.abc import Sequence
from datetime import UTC, date, datetime
from html import unescape
from typing import Any
from urllib.parse import urljoin

import click
from sqlalchemy import Numeric, Select, Text, cast, delete, func, literal, select

from seller_platform.cli.connect import connect_upstream
from seller_platform.cli.installation import Installation, make_home, open_installation
from seller_platform.cli.output import Output, json_option, printable
from seller_platform.cli.sync import SliceOptions, SyncDocument, current_problems, problem_of, report, run_sync
from seller_platform.commands import PLAIN
from seller_platform.contract import LOCAL_DAY, REFRESHED, Dataset, Window
from seller_platform.contract.accounts import DEFAULT_CONNECTION
from seller_platform.errors import AuthorizationDeniedError, CheckFailedError
from seller_platform.ingest.connections.upstream import Upstream
from seller_platform.marts.insights import build_insights
from seller_platform.network import http_client
from seller_platform.sandbox.commands.fill import accounts_option, months_option
from seller_platform.sandbox.commands.local_stack import USER_EMAIL, LocalStack, open_local_stack
from seller_platform.sandbox.load import copy_rows
from seller_platform.sandbox.marketplaces import rates
from seller_platform.service.tables import EXCHANGE_RATES
from seller_platform.settings import DEMO_FOLDER, Settings
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.connections.accounts import accounts as listed
from seller_platform.warehouse.loads.history_start import extend_history, keep_history_start
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.tables import table_for

_NEXT_COMMANDS = (
    "--demo status",
    '--demo query "SELECT month, currency, sku, product_sales, net_profit FROM marts.product_performance_monthly '
    'WHERE rank <= 10 ORDER BY account, month, rank"',
    "dev",
)


class DemoDocument(SyncDocument, frozen=True):
    """What was loaded, and what to look at.

    Attributes:
        insights: Sentences about the stored rows, computed by the marts.
    """

    insights: list[str]


@click.command()
@accounts_option
@months_option
@json_option(DemoDocument)
def demo(*, accounts: int, months: int, output: Output) -> None:
    """Connect to the sandbox, load all lists and costs, check the rows, and print a table.

    It loads the newest 13 months: a year, and the same month of the year before. At its end it prints the command
    that loads the others.

    It uses the real parts: a service on a socket, OAuth over HTTP, PostgreSQL. `dev` shows in the Dagster UI what it
    has loaded. Its files are in the folder `sandbox` of the home folder. It can be run again at any time.
    """
    settings = make_home(DEMO_FOLDER)
    with (
        open_local_stack(settings.home, output, accounts=accounts, months=months, history_months=13) as stack,
        open_installation(settings=stack.use()) as installation,
    ):
        connect_local_stack(installation, stack, output)
        # All months are loaded now, also those before the history of an earlier `demo` or `dev`.
        extend_history(installation.database, installation.settings.history_start)
        since = keep_history_start(installation.database, installation.settings.history_start)
        synced = run_sync(installation, SliceOptions(full=True), output)
        problem = problem_of(synced, current_problems(installation)) or _difference(installation, stack, since)
        insights = list[str]()
        if problem is None:
            keys = [each.key for each in listed(installation.database)]
            _store_rates(installation.database, since, datetime.now(UTC).date())
            with output.progress("Building the marts", None):
                lines = build_insights(installation.database, keys, datetime.now(UTC).date())
            insights = [printable(" ".join(line.split())) for line in lines]
    report(output, synced, problem, DemoDocument, insights=insights)
    earlier = Window(stack.period.start, max(stack.period.start, since))
    of_period = "" if earlier.is_empty else f" since {since:%B %Y}"
    output.say(f"Every row{of_period} is stored exactly as the sandbox holds it.")
    for line in ("", *insights, ""):
        output.line(line)
    _show_next_steps(settings, output, earlier)


def _store_rates(database: Database, first: date, last: date) -> None:
    """Store the exchange rates, which no list has: an operator loads them from a file."""
    with database.begin() as connection:
        connection.execute(delete(EXCHANGE_RATES))
        copy_rows(driver_of(connection), EXCHANGE_RATES, rates(first, last))


def _show_next_steps(settings: Settings, output: Output, earlier: Window) -> None:
    """Print where the data is, and the exact commands that show it.

    Args:
        earlier: The months of the sandbox that are not loaded.
    """
    output.say(f"It is stored in {settings.home / DEMO_FOLDER}, apart from real connections. To see it:")
    for command in _NEXT_COMMANDS:
        output.say(f"  {PLAIN} {command}")
    output.say(
        "The last one runs the Dagster UI, http://127.0.0.1:3000. Profit by day is a chart of the asset: "
        "http://127.0.0.1:3000/assets/marts/account_profit_daily"
    )
    if not earlier.is_empty:
        output.say(f"The sandbox has sales since {earlier.start:%B %Y}. To load the earlier months, too:")
        output.say(f"  {PLAIN} --demo sync --from {earlier.start:%Y-%m} --to {earlier.last_day:%Y-%m}")
    output.say(f"To connect a real service: {PLAIN} connect")


def connect_local_stack(installation: Installation, stack: LocalStack, output: Output) -> Sequence[KnownAccount]:
    """Authorise as the sandbox's demo user, discover the accounts, and return them.

    History begins with the stack's first month, unless an earlier stack has stored where it begins.
    """
    keep_history_start(installation.database, installation.settings.history_start)

    def show(url: str) -> None:
        threading.Thread(target=approve, args=(url, USER_EMAIL, stack.credentials.password), daemon=True).start()

    upstream = Upstream.of(installation.settings)
    with output.progress("Authorising", None):
        return connect_upstream(installation, upstream, DEFAULT_CONNECTION, show=show, timeout_seconds=60)


def approve(url: str, email: str, password: str) -> None:
    """Log in and approve an authorisation over HTTP, as a user does in a browser.

    Raises:
        AuthorizationDeniedError: The pages did not lead back to the callback.
    """
    with http_client(url, follow_redirects=True, timeout=30) as browser:
        page = browser.get(url)
        for answers in ({"email": email, "password": password}, {"decision": "approve"}):
            form = re.search(r"<form[^>]*>.*?</form>", page.text, re.DOTALL)
            if form is None:
                raise AuthorizationDeniedError(
                    f"there is no form on the page at {page.url.path} (HTTP {page.status_code})"
                )
            action = re.search(r'<form[^>]*\baction="([^"]*)"', form[0])
            hidden = dict(re.findall(r'<input[^>]*type="hidden"[^>]*name="([^"]*)"[^>]*value="([^"]*)"', form[0]))
            fields = {name: unescape(value) for name, value in hidden.items()} | answers
            page = browser.post(urljoin(str(page.url), unescape(action[1]) if action else ""), data=fields)
        if not page.is_success:
            raise AuthorizationDeniedError(f"the approval ended with HTTP {page.status_code}")


def _difference(installation: Installation, stack: LocalStack, since: date) -> CheckFailedError | None:
    """Compare every row since a day with the sandbox's; return an error that names different tables."""
    datasets = [dataset for dataset in REFRESHED if not dataset.is_computed]
    with Database(stack.sandbox_url) as sandbox:
        expected = fingerprints(sandbox, datasets, since=since)
        stored = fingerprints(installation.database, datasets, since=since)
    different = [
        f"{dataset} of {account}"
        for dataset, account in sorted({*expected, *stored})
        if expected.get((dataset, account)) != stored.get((dataset, account))
    ]
    if not different:
        return None
    return CheckFailedError(
        f"these tables are not equal to the sandbox's: {', '.join(different)}. That is a bug of this program; report it"
    )


def fingerprints(
    database: Database, datasets: Sequence[Dataset], *, since: date = date.min
) -> dict[tuple[str, str], tuple[int, str]]:
    """Return the number of rows and a digest of their values, by dataset and account.

    Of snapshots only the newest counts. The digest covers the contract's columns and the local day, not the load of a
    row. It does not depend on the order of rows, nor on trailing zeros of amounts.

    Args:
        since: The first day of dated rows that count.
    """
    prints = {}
    with database.begin() as connection:
        for dataset in datasets:
            for account, rows, digest in connection.execute(_statement(dataset, since)):
                prints[(dataset.name, account)] = (rows, str(digest))
    return prints


def _statement(dataset: Dataset, since: date) -> Select[Any]:
    table = table_for(dataset)
    columns = [table.c[column.name] for column in (*dataset.columns, *dataset.tags)]
    values = [func.trim_scale(column) if isinstance(column.type, Numeric) else column for column in columns]
    day = [table.c[LOCAL_DAY]] if dataset.is_dated else []
    digest = func.hashtextextended(cast(func.row(*values, *day), Text), literal(0))
    statement = select(table.c.account, func.count(), func.sum(cast(digest, Numeric))).group_by(table.c.account)
    if dataset.is_dated:
        return statement.where(table.c[LOCAL_DAY] >= since)
    newest = table.alias()
    latest = select(func.max(newest.c[LOCAL_DAY])).where(newest.c.account == table.c.account).scalar_subquery()
    return statement.where(table.c[LOCAL_DAY] == latest)
