"""The hash of each row, and schema `history` for the rows that a load no longer listed."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_DATASETS = (
    "accounts",
    "orders",
    "daily_product_sales",
    "transactions",
    "sales_by_product",
    "sales_by_date",
    "inventory",
    "warehouse_stock",
    "inbound_shipments",
    "notifications",
    "cost_periods",
    "report_rows",
)


def upgrade() -> None:
    op.execute("ALTER TABLE platform.loads ADD COLUMN sums jsonb")
    op.execute("COMMENT ON COLUMN platform.loads.sums IS 'Rows and amounts of the slice after the load, where known.'")
    op.execute("CREATE SCHEMA history")
    for name in _DATASETS:
        op.execute(f"ALTER TABLE seller.{name} ADD COLUMN row_hash uuid")
        op.execute(
            f"COMMENT ON COLUMN seller.{name}.row_hash IS "
            "'XXH3 of the row as text; null where the row was stored without it.'"
        )
        # A daily refresh changes a few rows of a large table: by default their space would hardly ever be freed.
        op.execute(f"ALTER TABLE seller.{name} SET (autovacuum_vacuum_scale_factor = 0.02)")
        op.execute(f"CREATE TABLE history.{name} (LIKE seller.{name} INCLUDING COMMENTS)")
        op.execute(f"ALTER TABLE history.{name} ADD COLUMN gone_load_id bigint NOT NULL")
        op.execute(f"COMMENT ON COLUMN history.{name}.gone_load_id IS 'The load that no longer listed the row.'")
        op.execute(f"COMMENT ON TABLE history.{name} IS 'Former rows of seller.{name}.'")
        indexed = "connection" if name == "accounts" else "account, local_day"
        op.execute(f"CREATE INDEX ix_history_{name}_slice ON history.{name} ({indexed})")
