"""`service rates load` and `service products load`: what no list contains, from CSV files."""

from pathlib import Path

import click

from seller_platform.cli.output import Output
from seller_platform.counts import count_of
from seller_platform.service.commands.options import result_options
from seller_platform.service.csv_loads import LoadedProducts, LoadedRates, load_products, load_rates
from seller_platform.warehouse.postgres.database import Database

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def rates() -> None:
    """Manage exchange rates, which convert amounts for `currency`."""


@rates.command("load")
@click.argument("file", type=_FILE)
@result_options(LoadedRates)
def rates_load(*, file: Path, database: Database, output: Output) -> None:
    """Load exchange rates from a CSV file.

    Its columns are day, currency and per_euro: how many units of the currency one euro is. The euro has the rate 1 and
    needs no lines. A rate of the same day and currency is replaced. A file with an error is not loaded at all.
    """
    loaded = load_rates(database, file)
    days, currencies = f"{loaded.first_day}..{loaded.last_day}", ", ".join(loaded.currencies)
    output.result(f"{count_of(loaded.rates, 'exchange rate', 'was')} loaded: {currencies}, {days}.", loaded)


@click.group()
def products() -> None:
    """Manage products: their parents, offers and lead times."""


@products.command("load")
@click.argument("file", type=_FILE)
@result_options(LoadedProducts)
def products_load(*, file: Path, database: Database, output: Output) -> None:
    """Load products from a CSV file.

    Its columns are account and sku, and any of asin, parent_asin, product_name, buybox_price, sales_rank and
    lead_time_days. An asin or product_name that is empty is taken from the stored rows. A product without a parent_asin
    stands for its own, as does one that is not in the file. A product of the same account and sku is replaced. A file
    with an error is not loaded at all.
    """
    loaded = load_products(database, file)
    count, accounts = count_of(loaded.products, "product", "was"), ", ".join(loaded.accounts)
    output.result(f"{count} loaded, {loaded.with_parent} with a parent, of {accounts}.", loaded)
