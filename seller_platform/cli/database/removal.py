"""`seller-platform database remove`: deletes embedded servers."""

from pathlib import Path

import click

from seller_platform.cli.database.access import not_embedded
from seller_platform.cli.installation import note_home
from seller_platform.cli.output import Document, Output, json_option
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import EMBEDDED_FOLDER, nothing_stored
from seller_platform.warehouse.postgres.removal import remove_abandoned, remove_server
from seller_platform.warehouse.postgres.root_user import DATA, abandoned_folders


class RemovalDocument(Document, frozen=True):
    """The folders that were deleted."""

    deleted: list[str]


@click.command()
@click.argument("folders", nargs=-1, metavar="[FOLDER]...", type=click.Path(path_type=Path, resolve_path=True))
@click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
@json_option(RemovalDocument)
def remove(*, folders: tuple[Path, ...], yes: bool, output: Output) -> None:
    """Delete the embedded server of the home folder, with all rows, receipts, grants and runs.

    The home folder and the key in it stay. FOLDER is data that a deleted home folder has left behind, as
    `seller-platform doctor` lists it; then nothing else is deleted.
    """
    settings = read_settings()
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
        server = _server_of(settings)
        deleted = ((server / DATA).resolve(),)
        text = f"Delete the PostgreSQL server of {settings.home} and all its rows, in {deleted[0]} ({_size(*deleted)})"
    if not yes and not click.confirm(f"{text}?", err=True):
        output.result("Nothing was deleted.", RemovalDocument(deleted=[]))
        return
    for folder in folders:
        remove_abandoned(folder)
    if not folders:
        remove_server(server)
    names = [str(each) for each in deleted]
    output.result(f"Deleted: {', '.join(names)}.", RemovalDocument(deleted=names))


def _server_of(settings: Settings) -> Path:
    """Return the folder of the embedded server that this installation uses."""
    if settings.database_url is not None:
        with Database(settings.database_url.get_secret_value()) as database:
            raise not_embedded(database.where, "remove")
    server = settings.home / EMBEDDED_FOLDER
    if not server.is_dir():
        raise nothing_stored(settings)
    note_home(settings)
    return server


def _size(folder: Path) -> str:
    return f"{sum(path.lstat().st_size for path in folder.rglob('*')) / (1 << 20):,.0f} MiB"
