"""Opens an installation: its settings, its migrated warehouse, and the key of its secrets."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from seller_platform.files import make_private_folder
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.connections.secrets import SecretBox, secret_box
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url


@dataclass(frozen=True)
class Installation:
    """The settings, the warehouse, and the box that decrypts its secrets."""

    settings: Settings
    database: Database
    box: SecretBox


@contextmanager
def open_installation() -> Iterator[Installation]:
    """Open the warehouse that the environment names, and migrate it.

    Raises:
        SettingsError: A setting cannot be used.
        WarehouseError: PostgreSQL cannot be used.
    """
    settings = read_settings()
    make_private_folder(settings.home)
    with Database(warehouse_url(settings)) as database:
        database.migrate()
        key = settings.secret_key.get_secret_value() if settings.secret_key else None
        yield Installation(settings, database, secret_box(settings.home, key))


def open_warehouse() -> Database:
    """Return the warehouse that the environment names, for reading; it is not migrated.

    Use it in a `with` statement, which closes its connections.

    Raises:
        SettingsError: A setting cannot be used.
        WarehouseError: PostgreSQL cannot be used.
    """
    settings = read_settings()
    make_private_folder(settings.home)
    return Database(warehouse_url(settings))
