"""`seller-platform sandbox`: fills the service's database with generated sellers."""

import click

from seller_platform.cli.installation import make_home
from seller_platform.cli.output import Output, json_option
from seller_platform.cli.terminal.groups import CommandGroup
from seller_platform.clocks import utc_now
from seller_platform.errors import WarehouseInUseError
from seller_platform.sandbox import SandboxReport, load_sandbox
from seller_platform.settings import read_settings
from seller_platform.warehouse.connections.accounts import connection_names
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import sandbox_url
from seller_platform.warehouse.postgres.urls import parsed_url


@click.group(cls=CommandGroup)
def sandbox() -> None:
    """Fill the service's database with generated sellers."""


@sandbox.command()
@click.option("--accounts", default=3, show_default=True, type=click.IntRange(1), help="How many accounts.")
@click.option(
    "--months", default=4, show_default=True, type=click.IntRange(1), help="How many months, up to yesterday."
)
@click.option("--orders-per-month", type=click.IntRange(1), help="Orders of the largest account in a month.")
@click.option("--seed", default=1, show_default=True, help="The same seed generates the same sellers.")
@click.option(
    "--database-url", help="The service's database, without connections to an API; by default the embedded server's."
)
@json_option
def load(
    *, accounts: int, months: int, orders_per_month: int | None, seed: int, database_url: str | None, output: Output
) -> None:
    """Replace the generated sellers in the service's database."""
    if database_url is not None:
        parsed_url(database_url, "--database-url")
    url = database_url
    if url is None:
        settings = read_settings()
        make_home(settings)
        url = sandbox_url(settings)
    with Database(url) as database:
        if names := connection_names(database):
            raise WarehouseInUseError(database.where, names)
        database.migrate()
        rows = generate(
            database, output, accounts=accounts, months=months, orders_per_month=orders_per_month, seed=seed
        ).rows
    output.document({"rows": rows})
    output.table("Generated", ("table", "rows"), list(rows.items()))


def generate(
    database: Database,
    output: Output,
    *,
    accounts: int = 3,
    months: int = 4,
    orders_per_month: int | None = None,
    seed: int = 1,
) -> SandboxReport:
    """Load the sandbox with a progress bar, and return the report of the load."""
    options = {} if orders_per_month is None else {"orders_per_month": orders_per_month}
    with output.progress("Generating sellers", None) as show:
        return load_sandbox(
            database,
            accounts=accounts,
            months=months,
            seed=seed,
            today=utc_now(),
            progress=show,
            **options,
        )
