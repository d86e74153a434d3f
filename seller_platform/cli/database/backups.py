"""`seller-platform backup` and `restore`: the whole database in a file."""

from pathlib import Path

import click

from seller_platform.capabilities import contributed
from seller_platform.cli.installation import expect_home, make_home
from seller_platform.cli.output import Document, DoneDocument, Output, json_option
from seller_platform.errors import followed
from seller_platform.warehouse.migrations.pending import migrate, version_of
from seller_platform.warehouse.postgres.backup import back_up
from seller_platform.warehouse.postgres.backup import restore as fill
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import stored_warehouse_url, warehouse_url


class RestoreDocument(Document, frozen=True):
    """The database that was restored from a backup.

    Attributes:
        version: Of its schema.
        grants_left_out: Grants of PostgreSQL that could not be made, each with the reason.
        outdated_exports: How many partitions of exported tables may have other rows; null without any.
    """

    file: str
    version: str | None
    grants_left_out: list[str]
    outdated_exports: str | None


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE even if it is no backup.")
@json_option(DoneDocument)
def backup(*, file: Path, force: bool, output: Output) -> None:
    """Write the database to FILE: rows, receipts, grants, Dagster's runs and events.

    The backup is one consistent snapshot. Grants are encrypted in it; keep the key (SELLER_PLATFORM_SECRET_KEY, or
    `secret.key` in the home folder) elsewhere. A former backup is replaced. Where the connection is encrypted, it needs
    a pg_dump in PATH, of the server's version or newer.
    """
    back_up(stored_warehouse_url(expect_home()), file, force=force)
    size = file.stat().st_size / (1 << 20)
    output.done(f"{file}: {size:,.1f} MiB. Next: keep the secret key elsewhere, and test a restore.")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option(RestoreDocument)
def restore(*, file: Path, output: Output) -> None:
    """Fill the empty database of the settings from a backup, and migrate it.

    Refresh tokens work once: grants that were refreshed after the backup must be authorised again. Roles of PostgreSQL
    are not in a backup: grants to roles that this server lacks are left out, and the reason is printed.
    """
    settings = make_home()
    url = warehouse_url(settings)
    left_out = fill(url, file)
    with Database(url) as database:
        migrate(database)
        version = str(version_of(database))
        findings = [each for examine in contributed("examine") for each in examine(database, settings)]
        outdated = next((each for each in findings if each.next_step), None)
    text = f"Restored, at version {version}. Next: `seller-platform doctor`."
    for problem in left_out:
        step = "A reader is made by `seller-platform database reader NAME`."
        text += "\n" + followed(f"A grant was left out: {problem}", step)
    if outdated:
        text += "\n" + followed(outdated.message, f"Next: {outdated.next_step}.")
    document = RestoreDocument(
        file=str(file), version=version, grants_left_out=left_out, outdated_exports=outdated and outdated.message
    )
    output.result(text, document)
