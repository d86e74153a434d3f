"""The tables of schema `marts`, and the receipts of their builds."""

from sqlalchemy import BigInteger, Column, Date, DateTime, Identity, Index, LargeBinary, MetaData, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from seller_platform.warehouse.marts.declaration import MARTS_SCHEMA, Mart
from seller_platform.warehouse.marts.registry import MARTS
from seller_platform.warehouse.schema.tables import METADATA, PLATFORM, TYPES, Snapshot

ACCOUNT, BUILD_ID = "account", "build_id"

BUILDS = Table(
    "mart_builds",
    METADATA,
    Column(
        "id",
        BigInteger,
        Identity(),
        primary_key=True,
        comment="The number of the build; later builds have larger ones.",
    ),
    Column("mart", Text, nullable=False, comment="The table in schema marts that was built."),
    Column("account", Text, nullable=False, comment="Key of the account."),
    Column("window_start", Date, comment="The first day of the month; null where the whole account was built."),
    Column("window_end", Date, comment="The first day after it."),
    Column("rows", BigInteger, nullable=False, comment="Rows of the partition after the build."),
    Column("digest", LargeBinary, nullable=False, comment="Order-independent digest of the rows."),
    Column("parameters", JSONB, nullable=False, comment="The numbers that the computation was given."),
    Column(
        "loads",
        JSONB,
        nullable=False,
        comment="The newest load of each dataset that was read: dataset and platform.loads.id.",
    ),
    Column("version", Text, comment="Digest of the code that computed them; null for builds of earlier versions."),
    Column("run_id", Text, comment="The Dagster run."),
    Column("started_at", DateTime(timezone=True), nullable=False, comment="When the build began."),
    Column("finished_at", DateTime(timezone=True), nullable=False, comment="When its rows were stored."),
    Column(
        "snapshot",
        Snapshot,
        comment="Which transactions the build saw; null after a move to another server.",
    ),
    Index(None, "mart", "account", "window_start"),
    Index("ix_mart_builds_next_transaction", text("pg_snapshot_xmax(snapshot)")),
    schema=PLATFORM,
    comment="The receipts of marts: one row for each time a partition was built.",
)


def mart_table_for(mart: Mart, metadata: MetaData = METADATA) -> Table:
    """Return the mart's table: its columns, `account` (the account key) and `build_id` (platform.mart_builds.id)."""
    if mart.table in metadata.tables:
        return metadata.tables[mart.table]
    return Table(
        mart.name,
        metadata,
        *(
            Column(column.name, TYPES[column.kind], nullable=column.nullable and not column.key, comment=column.doc)
            for column in mart.columns
        ),
        Column(ACCOUNT, Text, nullable=False, comment="Key of the account."),
        Column(BUILD_ID, BigInteger, nullable=False, comment="The build that wrote the row: platform.mart_builds.id."),
        Index(f"ix_{mart.name}_partition", ACCOUNT, *([mart.day] if mart.day else [])),
        schema=MARTS_SCHEMA,
        comment=mart.doc,
    )


for _mart in MARTS:
    mart_table_for(_mart)
