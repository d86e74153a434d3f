"""Writes the next migration, from the newest one to the tables that the code declares."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.operations.ops import MigrationScript

from seller_platform.warehouse import migrations
from seller_platform.warehouse.postgres.database import Database, revisions

_FOLDER = Path(migrations.__file__).parent
_HOOKS = {"check": "check --fix --quiet REVISION_SCRIPT_FILENAME", "format": "format --quiet REVISION_SCRIPT_FILENAME"}


def write_migration(database: Database, message: str, folder: Path = _FOLDER) -> Path | None:
    """Write the next migration and return its file; None if none is needed.

    Args:
        message: The first line of its docstring, and its name.
        folder: Holds `env.py`, the template and `versions`.
    """
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_section_option("post_write_hooks", "hooks", ", ".join(_HOOKS))
    for name, options in _HOOKS.items():
        for key, value in {"type": "exec", "executable": "ruff", "options": options}.items():
            config.set_section_option("post_write_hooks", f"{name}.{key}", value)
    number = f"{int(revisions()[-1]) + 1:04d}"
    with database.begin() as connection:
        config.attributes["connection"] = connection
        command.revision(
            config, message, autogenerate=True, rev_id=number, process_revision_directives=_write_no_empty_one
        )
    return next((folder / "versions").glob(f"{number}_*.py"), None)


def _write_no_empty_one(_: object, __: object, directives: list[MigrationScript]) -> None:
    if all(directive.upgrade_ops is None or directive.upgrade_ops.is_empty() for directive in directives):
        directives.clear()
