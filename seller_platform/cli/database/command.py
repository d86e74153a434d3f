"""`seller-platform migrate`, `backup`, `restore`, `prune` and `database`: work on the whole database."""

import secrets
import shlex
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from seller_platform.cli.installation import open_installation
from seller_platform.cli.output import Output, json_option
from seller_platform.errors import ReaderRightsError
from seller_platform.settings import read_settings
from seller_platform.warehouse.loads.retention import RECEIPT_DAYS, SNAPSHOT_DAYS
from seller_platform.warehouse.loads.retention import prune as remove_old
from seller_platform.warehouse.postgres.backup import back_up
from seller_platform.warehouse.postgres.backup import restore as fill
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url
from seller_platform.warehouse.schema.readers import remove_reader, save_reader, set_password_in_psql

_days = click.IntRange(1, 36_500)


@click.command()
@json_option
def migrate(*, output: Output) -> None:
    """Migrate the database to the schema of this version, and Dagster's tables with it.

    Every program migrates when it starts. Run this first where several programs start at once, or where they have
    fewer rights. Readers continue meanwhile.
    """
    from seller_platform.orchestration.instance.home import open_instance  # Dagster alone takes a second to import

    with open_installation() as installation:
        with open_instance(installation.settings.home) as instance:
            instance.upgrade()
        version = installation.database.version()
        where = installation.database.where
    output.result(f"{where} is at version {version}.", {"database": where, "version": version})


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def backup(*, file: Path, output: Output) -> None:
    """Write the database to FILE: rows, receipts, grants, Dagster's runs and events.

    The backup is one consistent snapshot. Grants are encrypted in it; keep the key (SELLER_PLATFORM_SECRET_KEY, or
    `secret.key` in the home folder) elsewhere.
    """
    back_up(warehouse_url(read_settings()), file)
    size = file.stat().st_size
    text = f"{file}: {size / (1 << 20):,.1f} MiB. Next: keep the secret key elsewhere, and test a restore."
    output.result(text, {"file": str(file), "bytes": size})


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def restore(*, file: Path, output: Output) -> None:
    """Fill the empty database of the settings from a backup, and migrate it.

    Refresh tokens work once: grants that were refreshed after the backup must be authorised again. Roles of PostgreSQL
    are not in a backup: grants to roles that this server lacks are left out, and the reason is printed.
    """
    url = warehouse_url(read_settings())
    left_out = fill(url, file)
    with Database(url) as database:
        database.migrate()
        version = database.version()
    text = f"Restored, at version {version}. Next: `seller-platform doctor`."
    for problem in left_out:
        text += f"\nA grant was left out: {problem}. A reader is made by `seller-platform database reader NAME`."
    output.result(text, {"file": str(file), "version": version, "grants_left_out": left_out})


@click.command()
@click.option(
    "--snapshot-days",
    default=SNAPSHOT_DAYS,
    show_default=True,
    type=_days,
    help="Keep every daily snapshot for this many days; then one a month.",
)
@click.option(
    "--receipt-days",
    default=RECEIPT_DAYS,
    show_default=True,
    type=_days,
    help="Keep every receipt for this many days; then those in use.",
)
@click.option(
    "--dagster-days",
    default=None,
    type=_days,
    help="Keep Dagster's events, runs and checks for this many days; then those the UI shows of each partition. "
    "The default is SELLER_PLATFORM_DAGSTER_RETENTION_DAYS (30).",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed.")
@json_option
def prune(*, snapshot_days: int, receipt_days: int, dagster_days: int | None, dry_run: bool, output: Output) -> None:
    """Delete old snapshots except one a month, receipts that nothing refers to, and old events and runs of Dagster.

    Rows of dated lists are never deleted. Every partition keeps its last state in Dagster, and the schedule
    `prune_daily` does the same with the defaults.
    """
    from seller_platform.orchestration.instance.home import open_instance  # Dagster alone takes a second to import
    from seller_platform.orchestration.instance.retention import prune_instance

    now = datetime.now(UTC)
    with open_installation() as installation:
        pruned = remove_old(
            installation.database,
            snapshots_before=now.date() - timedelta(days=snapshot_days),
            receipts_before=now.date() - timedelta(days=receipt_days),
            dry=dry_run,
        )
        settings = installation.settings
        before = now - timedelta(days=dagster_days or settings.dagster_retention_days)
        with open_instance(settings.home) as instance:
            dagster = prune_instance(instance, before=before, dry=dry_run)
    document = {"dry_run": dry_run, "rows": pruned.rows, "receipts": pruned.receipts, "dagster": dagster}
    output.document(document)
    rows = [*pruned.rows.items(), ("receipts", pruned.receipts)]
    rows += [(f"{name} of Dagster", count) for name, count in dagster.items()]
    output.table("Would be removed" if dry_run else "Removed", ("what", "rows"), rows)


@click.group()
def database() -> None:
    """Manage who may read the database with SQL."""


@database.command()
@click.argument("name")
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read the password from the first line of this file.",
)
@click.option("--remove", is_flag=True, help="Take all grants away, and drop the role.")
@json_option
def reader(*, name: str, password_file: Path | None, remove: bool, output: Output) -> None:
    """Create the role NAME of PostgreSQL, which may read all tables for people and write nothing.

    It reads the schemas seller, history and marts, and of platform the accounts, receipts, reports and cost plans. It
    reads no grant, token, secret or user, and none of Dagster's tables. The password is asked for, or generated and
    shown once. Run it again to change the password.
    """
    if remove and password_file is not None:
        raise click.UsageError("--remove needs no password; leave --password-file out")
    with open_installation() as installation:
        if remove:
            remove_reader(installation.database, name)
            output.result(f"{name} was removed.", {"reader": name, "removed": True})
            return
        generated = None
        if password_file is not None:
            password = password_file.read_text().partition("\n")[0]
        else:
            password = _asked_password() or (generated := secrets.token_urlsafe(24))
        is_set = save_reader(installation.database, name, password)
        if not is_set and generated is None:
            raise ReaderRightsError(name, [set_password_in_psql(name)])
        psql = f"psql {shlex.quote(installation.database.url_of_user(name))}"
        is_embedded = installation.settings.database_url is None
    lines = [f"{name} may read the tables for people."]
    if not is_set:
        generated = None
        lines.append("Its password is as it was: only an administrator may change it.")
    if generated is not None:
        lines.append(f"Password, which is not shown again: {generated}")
    lines.append(psql)
    if is_embedded:
        lines.append("Only your user of this machine reaches the embedded server, while one of its programs runs.")
    output.document({"reader": name, "password": generated, "psql": psql})
    output.line("\n".join(lines))


def _asked_password() -> str:
    """Return the password that a user types; an empty text without a terminal."""
    if not sys.stdin.isatty():
        return ""
    prompt = "Password (empty: generate one)"
    return str(
        click.prompt(prompt, hide_input=True, confirmation_prompt=True, default="", show_default=False, err=True)
    )
