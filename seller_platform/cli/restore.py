"""`seller-platform restore`: the database as a backup holds it."""

from pathlib import Path

import click

from seller_platform.cli.output import Output, json_option
from seller_platform.settings import read_settings
from seller_platform.warehouse.postgres.backup import restore as fill
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def restore(*, file: Path, as_json: bool) -> None:
    """Fill the empty database that the settings name from a backup, and bring it to today's schema.

    Refresh tokens work once: grants that were refreshed after the backup must be authorised again.
    """
    output = Output(as_json=as_json)
    url = warehouse_url(read_settings())
    fill(url, file)
    with Database(url) as database:
        database.migrate()
        version = database.version()
    if as_json:
        output.document({"file": str(file), "version": version})
        return
    output.say(f"Restored, at version {version}. Next: `seller-platform doctor`.")
