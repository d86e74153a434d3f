"""What Alembic's commands run: `upgrade` of `seller-platform migrate`, and those that a developer types."""

from alembic import context
from sqlalchemy import Connection

from seller_platform.settings import read_settings
from seller_platform.warehouse.derived import tables as mart_tables  # noqa: F401  # imported, its tables join METADATA
from seller_platform.warehouse.postgres.database import DAGSTER_SCHEMA, PARTITIONS, Database
from seller_platform.warehouse.postgres.location import stored_warehouse_url
from seller_platform.warehouse.postgres.versions import VERSION_SCHEMA, VERSION_TABLE
from seller_platform.warehouse.schema.tables import declared


def _run(connection: Connection) -> None:
    context.configure(
        connection,
        target_metadata=declared(),
        include_schemas=True,
        # Dagster's schema is its own, and partitions follow their tables.
        include_name=lambda name, kind, _: kind != "schema" or name not in (DAGSTER_SCHEMA, PARTITIONS),
        compare_server_default=True,
        transaction_per_migration=True,
        version_table=VERSION_TABLE,
        version_table_schema=VERSION_SCHEMA,
    )
    with context.begin_transaction():
        context.run_migrations()


if "connection" in context.config.attributes:
    _run(context.config.attributes["connection"])
else:
    with Database(stored_warehouse_url(read_settings())) as database, database.connect() as opened:
        _run(opened)
