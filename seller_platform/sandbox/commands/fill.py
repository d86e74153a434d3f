"""`seller-platform sandbox`: fills the service's database with generated sellers, and advances them day by day."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import starmap
from typing import ParamSpec

import click

from seller_platform.cli.installation import make_home
from seller_platform.cli.output import Counted, Document, Output, json_option
from seller_platform.clocks import utc_now
from seller_platform.counts import count_of
from seller_platform.errors import ACCOUNTS_NAMED, RequestError, first_few
from seller_platform.sandbox.load import ACCOUNTS, MONTHS, ORDERS_PER_MONTH, SEED, load_sandbox
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import sandbox_url
from seller_platform.warehouse.postgres.urls import parsed_url

DAYS_AGO = 60
"""How many days ago a live sandbox begins."""

_DAY = click.DateTime(["%Y-%m-%d"])
_Values = ParamSpec("_Values")

accounts_option = click.option(
    "--accounts", default=ACCOUNTS, show_default=True, type=click.IntRange(1), help="How many generated accounts."
)
months_option = click.option(
    "--months", default=MONTHS, show_default=True, type=click.IntRange(1), help="How many months of sales."
)
_OPTIONS = (
    accounts_option,
    months_option,
    click.option(
        "--orders-per-month",
        default=ORDERS_PER_MONTH,
        type=click.IntRange(1),
        help="Orders of the largest account in a month.",
    ),
    click.option("--seed", default=SEED, show_default=True, help="The same seed generates the same sellers."),
    click.option(
        "--database-url",
        help="The service's database, without connections to an API; by default the embedded server's.",
    ),
)


def fill_options(command: Callable[_Values, None]) -> Callable[_Values, None]:
    """Add the options that say which sellers are generated, and where."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class FillDocument(Document, frozen=True):
    """What was generated.

    Attributes:
        rows: The rows of each table, by schema and name.
    """

    rows: dict[str, int]


@click.command()
@fill_options
@json_option(FillDocument)
def load(*, database_url: str | None, output: Output, **sellers: int) -> None:
    """Replace the generated sellers in the service's database."""
    with open_sandbox(database_url) as database, output.progress("Generating sellers", None) as show:
        rows = load_sandbox(database, **sellers, today=utc_now(), progress=show).rows
    output.document(FillDocument(rows=dict(rows)))
    output.table("Generated", starmap(Counted, rows.items()), ("name", "rows"))


@contextmanager
def open_sandbox(database_url: str | None) -> Iterator[Database]:
    """Open the service's database, migrated; without a URL, the embedded server's.

    Raises:
        RequestError: It is a warehouse, whose rows come from connections.
    """
    if database_url is not None:
        parsed_url(database_url, "--database-url")
    with Database(database_url or sandbox_url(make_home(""))) as database:
        migrate(database)
        if names := [each.name for each in connections(database)]:
            raise RequestError(
                f"{database.where} is a warehouse with the connections {first_few(names, ACCOUNTS_NAMED)}; generated "
                "rows would replace its rows",
                code="WarehouseInUseError",
                step="Name another database in --database-url, or leave it out to use the sandbox of the home folder.",
            )
        yield database


@click.command()
@click.option(
    "--days-per-second",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0, 1000, min_open=True),
    help="How many days it advances in a second until today is reached; then a day lasts a day.",
)
@click.option("--from", "since", type=_DAY, help=f"The day on which it begins; by default {DAYS_AGO} days ago.")
@click.option("--until", type=_DAY, help="End when this day is reached; by default, go on until Ctrl-C.")
@click.option("--continue", "continues", is_flag=True, help="Go on where it ended; give all other options again.")
@fill_options
def live(
    *,
    days_per_second: float,
    since: datetime | None,
    until: datetime | None,
    continues: bool,
    database_url: str | None,
    **sellers: int,
) -> None:
    """Generate sellers as of a day in the past, and advance them day by day.

    Orders are placed, shipped, cancelled and refunded, fees are listed late, and fees of a closed month are restated.
    Each day is a line of the output. When today is reached, the next day begins when it does in the zone of each
    account.
    """
    # Here, because numpy costs every command a tenth of a second.
    from seller_platform.sandbox.live import LiveOptions, LiveSandbox

    output, today = Output(as_json=False), utc_now().date()
    first = since.date() if since else today - timedelta(days=DAYS_AGO)
    last = until.date() if until else None
    if first > today:
        raise RequestError(f"--from is {first}, after today, {today}. Name today or a day before")
    if last is not None and last < first:
        raise RequestError(f"--until is {last}, before the first day, {first}. Name a later day")
    options = LiveOptions(first, **sellers)
    with open_sandbox(database_url) as database:
        if not continues:
            with output.progress("Generating sellers", None) as show:
                load_sandbox(database, **sellers, today=first, progress=show)
            accounts, months = count_of(sellers["accounts"], "account"), count_of(sellers["months"], "month")
            output.line(f"{first}  {accounts} with {months} of sales")
        lasts = 1 / days_per_second
        began = time.monotonic()
        for step in LiveSandbox(database, options).steps(utc_now, until=last):
            if step is not None:
                output.line(f"{step}  stored")
                time.sleep(max(0.0, began + lasts - time.monotonic()))
                began = time.monotonic()
            else:
                time.sleep(1.0)
