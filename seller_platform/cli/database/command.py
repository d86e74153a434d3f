"""`seller-platform database`: the database for other programs, and who may read it with SQL."""

import secrets
import shlex
import sys
from pathlib import Path

import click

from seller_platform.cli.database.access import require_embedded, run, url
from seller_platform.cli.installation import command_settings, note_home, open_stored_installation
from seller_platform.cli.output import Document, DoneDocument, Output, json_option
from seller_platform.warehouse.postgres.embedded import remove_abandoned, remove_server
from seller_platform.warehouse.postgres.location import EMBEDDED_FOLDER, WAREHOUSE, embedded_server, nothing_stored
from seller_platform.warehouse.postgres.programs import LOOPBACK
from seller_platform.warehouse.postgres.root_user import DATA, abandoned_folders
from seller_platform.warehouse.postgres.urls import READER_URL
from seller_platform.warehouse.schema.readers import remove_reader, rights_of_readers_lack, save_reader


class ReaderDocument(Document, frozen=True):
    """A role of PostgreSQL that may read.

    Attributes:
        password: The generated one, which is not shown again.
        psql: The command that connects.
    """

    reader: str
    password: str | None
    psql: str


@click.group()
def database() -> None:
    """Reach the database from other programs, manage its readers, and delete embedded servers."""


database.add_command(run)
database.add_command(url)


@database.command()
@click.argument("folders", nargs=-1, metavar="[FOLDER]...", type=click.Path(path_type=Path, resolve_path=True))
@click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
@json_option(DoneDocument)
def remove(*, folders: tuple[Path, ...], yes: bool, output: Output) -> None:
    """Delete the embedded server of the home folder, with all rows, receipts, grants and runs.

    The home folder and the key in it stay. FOLDER is data that a deleted home folder has left behind, as
    `seller-platform doctor` lists it; then nothing else is deleted.
    """
    settings = command_settings()
    if folders:
        homes = {folder.resolve(): home for folder, home in abandoned_folders(settings.root_data_folder)}
        for folder in folders:
            if folder not in homes:
                raise click.BadParameter(
                    f"{folder} is no data of a home folder that is gone; `seller-platform doctor` lists those"
                )
        deleted = folders
        text = "\n".join(f"Delete {each} ({_size(each)}), of {homes[each]}, which is gone" for each in folders)
    else:
        require_embedded(settings, "remove")
        server = settings.home / EMBEDDED_FOLDER
        if not server.is_dir():
            raise nothing_stored(settings)
        note_home(settings)
        deleted = ((server / DATA).resolve(),)
        text = f"Delete the PostgreSQL server of {settings.home} and all its rows, in {deleted[0]} ({_size(*deleted)})"
    if not yes and not click.confirm(f"{text}?", err=True):
        output.done("Nothing was deleted.")
        return
    for folder in folders:
        remove_abandoned(folder)
    if not folders:
        remove_server(server)
    output.done(f"Deleted: {', '.join(map(str, deleted))}.")


@database.command()
@click.argument("name")
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read the password from the first line of this file.",
)
@click.option("--remove", is_flag=True, help="Take all grants away, and drop the role.")
@json_option(ReaderDocument, DoneDocument)
def reader(*, name: str, password_file: Path | None, remove: bool, output: Output) -> None:
    """Create the role NAME of PostgreSQL, which may read all tables for people and write nothing.

    It reads the schemas seller, history and marts, and of platform the accounts, receipts, reports and cost plans. It
    reads no grant, token, secret or user, and none of Dagster's tables. The password is asked for, or generated and
    shown once. Run it again to change the password.
    """
    if remove and password_file is not None:
        raise click.UsageError("--remove needs no password; leave --password-file out")
    with open_stored_installation() as installation:
        if remove:
            remove_reader(installation.database, name)
            output.done(f"{name} was removed.")
            return
        generated = None
        if password_file is not None:
            password = password_file.read_text().partition("\n")[0]
        else:
            typed, prompt = "", "Password (empty: generate one)"
            if sys.stdin.isatty():
                typed = click.prompt(
                    prompt, hide_input=True, confirmation_prompt=True, default="", show_default=False, err=True
                )
            password = typed or (generated := secrets.token_urlsafe(24))
        is_set = save_reader(installation.database, name, password)
        if not is_set and generated is None:
            raise rights_of_readers_lack(name, [f"\\password {name}"])
        settings, url = installation.settings, installation.database.url_of_user(name)
        is_embedded = settings.database_url is None
        if is_embedded:
            port = embedded_server(settings.home, settings.root_data_folder).port
            url = f"postgresql://{name}@{LOOPBACK}:{port}/{WAREHOUSE}"
        psql = f"psql {shlex.quote(url)}"
    lines = [f"{name} may read the tables for people."]
    if not is_set:
        generated = None
        lines.append("Its password is as it was: only an administrator may change it.")
    if generated is not None:
        lines.append(f"Password, which is not shown again: {generated}")
    lines.append(psql)
    if is_embedded:
        lines.append("The embedded server is reached from this machine, while one of its programs runs.")
    else:
        lines.append(f"`query` and the tool `sql` log in with {READER_URL}: the URL of that line, with the password.")
    output.document(ReaderDocument(reader=name, password=generated, psql=psql))
    output.line("\n".join(lines))


def _size(folder: Path) -> str:
    return f"{sum(path.lstat().st_size for path in folder.rglob('*')) / (1 << 20):,.0f} MiB"
