"""`seller-platform backup`: the whole database in one file."""

from pathlib import Path

import click

from seller_platform.cli.output import Output, json_option
from seller_platform.settings import read_settings
from seller_platform.warehouse.postgres.backup import back_up
from seller_platform.warehouse.postgres.location import warehouse_url


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def backup(*, file: Path, as_json: bool) -> None:
    """Write the database to FILE: rows, receipts, grants, Dagster's runs and events, as of one moment.

    Grants are in it encrypted; keep the key (SELLER_PLATFORM_SECRET_KEY, or `secret.key` in the home folder) elsewhere.
    """
    output = Output(as_json=as_json)
    back_up(warehouse_url(read_settings()), file)
    size = file.stat().st_size
    if as_json:
        output.document({"file": str(file), "bytes": size})
        return
    output.say(f"{file}: {size / (1 << 20):,.1f} MiB. Next: keep the secret key elsewhere, and try a restore.")
