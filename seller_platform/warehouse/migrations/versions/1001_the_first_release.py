"""The tables of the first release, as they are declared."""

from alembic import context, op

from seller_platform.warehouse.postgres.versions import FEW_PARTITIONS
from seller_platform.warehouse.schema.creation import create_tables

revision = "1001"
down_revision = None


def upgrade() -> None:
    create_tables(op.get_bind(), context.config.attributes.get("partitions", FEW_PARTITIONS))
