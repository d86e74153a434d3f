"""Runs the numbered migrations on the connection that `Database.migrate` hands over.

Then it creates functions and views again, because their columns are those of the tables, and grants readers what is
new. A new database gets the declared tables; all migrations count as run.
"""

from alembic import context

from seller_platform.warehouse.marts import tables as mart_tables  # noqa: F401  # imported, its tables join METADATA
from seller_platform.warehouse.postgres.database import IS_NEW, PARTITIONS, VERSION_SCHEMA, VERSION_TABLE, is_declared
from seller_platform.warehouse.schema import service_tables  # noqa: F401  # its tables join METADATA, too
from seller_platform.warehouse.schema.comments import comment_on_schemas
from seller_platform.warehouse.schema.creation import create_tables
from seller_platform.warehouse.schema.functions import create_functions
from seller_platform.warehouse.schema.latest_views import create_latest_views
from seller_platform.warehouse.schema.problems import create_problems
from seller_platform.warehouse.schema.readers import grant_to_readers
from seller_platform.warehouse.schema.slices import keep_slices
from seller_platform.warehouse.schema.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    include_schemas=True,
    include_name=is_declared,
    compare_server_default=True,
    version_table=VERSION_TABLE,
    version_table_schema=VERSION_SCHEMA,
)
connection = context.config.attributes["connection"]
with context.begin_transaction():
    is_new = context.config.attributes.get(IS_NEW)
    if is_new:
        create_tables(connection, context.config.attributes[PARTITIONS])
    context.run_migrations()
    if is_new is not None:
        for create in (
            keep_slices,
            create_functions,
            create_problems,
            create_latest_views,
            comment_on_schemas,
            grant_to_readers,
        ):
            create(connection)
