"""The pages of the last load of each slice, which need not be decoded again."""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        CREATE TABLE platform.known_pages (
            load_id bigint NOT NULL,
            pages bytea NOT NULL,
            CONSTRAINT pk_known_pages PRIMARY KEY (load_id),
            CONSTRAINT fk_known_pages_load_id_loads FOREIGN KEY (load_id)
                REFERENCES platform.loads (id) ON DELETE CASCADE
        )
    """)
    op.execute("""
        COMMENT ON TABLE platform.known_pages
        IS 'The pages of the last load of each slice: one that is sent again is not decoded again.'
    """)
    op.execute("""
        COMMENT ON COLUMN platform.known_pages.load_id IS 'The load that read them: platform.loads.id.'
    """)
    op.execute("""
        COMMENT ON COLUMN platform.known_pages.pages IS 'What each page added to the slice, by its digest.'
    """)
