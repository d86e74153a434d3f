"""`seller-platform backup` and `restore`: the whole database in a file."""

from pathlib import Path

import click

from seller_platform.cli.installation import expect_home, make_home
from seller_platform.cli.output import Document, Output, json_option
from seller_platform.errors import followed
from seller_platform.warehouse.postgres.backup import back_up
from seller_platform.warehouse.postgres.backup import restore as fill
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import stored_warehouse_url, warehouse_url

_jobs = click.IntRange(1, 100)


class BackupDocument(Document, frozen=True):
    """The file of a backup."""

    file: str
    bytes: int


class RestoreDocument(Document, frozen=True):
    """The database that was restored from a backup.

    Attributes:
        version: Of its schema.
        grants_left_out: Grants of PostgreSQL that could not be made, each with the reason.
    """

    file: str
    version: str | None
    grants_left_out: list[str]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--force", is_flag=True, help="Replace FILE even if it is no backup; with --jobs, only a folder that has a toc.dat."
)
@click.option("--jobs", type=_jobs, help="Make FILE a folder, and write so many tables or partitions at once.")
@json_option(BackupDocument)
def backup(*, file: Path, force: bool, jobs: int | None, output: Output) -> None:
    """Write the database to FILE: rows, receipts, grants, Dagster's runs and events.

    The backup is one consistent snapshot. Grants are encrypted in it; keep the key (SELLER_PLATFORM_SECRET_KEY, or
    `secret.key` in the home folder) elsewhere. A former backup is replaced. Where the connection is encrypted, it needs
    a pg_dump of the system, of the server's version or newer.
    """
    back_up(stored_warehouse_url(expect_home()), file, force=force, jobs=jobs)
    size = sum(each.stat().st_size for each in (file.iterdir() if file.is_dir() else [file]))
    text = f"{file}: {size / (1 << 20):,.1f} MiB. Next: keep the secret key elsewhere, and test a restore."
    output.result(text, BackupDocument(file=str(file), bytes=size))


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=_jobs,
    help="Fill so many tables at once; then an error leaves a database that has to be dropped.",
)
@json_option(RestoreDocument)
def restore(*, file: Path, jobs: int, output: Output) -> None:
    """Fill the empty database of the settings from a backup, and migrate it.

    Refresh tokens work once: grants that were refreshed after the backup must be authorised again. Roles of PostgreSQL
    are not in a backup: grants to roles that this server lacks are left out, and the reason is printed.
    """
    url = warehouse_url(make_home())
    left_out = fill(url, file, jobs=jobs)
    with Database(url) as database:
        database.migrate()
        version = database.version()
    text = f"Restored, at version {version}. Next: `seller-platform doctor`."
    for problem in left_out:
        step = "A reader is made by `seller-platform database reader NAME`."
        text += "\n" + followed(f"A grant was left out: {problem}", step)
    output.result(text, RestoreDocument(file=str(file), version=version, grants_left_out=left_out))
