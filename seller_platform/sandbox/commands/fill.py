"""`seller-platform sandbox load`: fills the service's database with generated sellers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import starmap
from typing import ParamSpec

import click

from seller_platform.cli.installation import make_home
from seller_platform.cli.output import Counted, Document, Output, json_option
from seller_platform.clocks import utc_now
from seller_platform.errors import ACCOUNTS_NAMED, RequestError, first_few
from seller_platform.sandbox.load import ACCOUNTS, MONTHS, ORDERS_PER_MONTH, SEED, load_sandbox
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import sandbox_url
from seller_platform.warehouse.postgres.urls import parsed_url

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
