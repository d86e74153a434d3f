"""Creates the tables of a new database, as they are declared, with their triggers."""

from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import DATASETS
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.comments import SCHEMAS
from seller_platform.warehouse.schema.tables import METADATA, SELLER

_SECURITY_EVENTS = """
CREATE FUNCTION service.keep_security_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < now() - interval '400 days' THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'service.security_events is append-only: rows are kept for 400 days and never changed';
END
$$;
CREATE TRIGGER keep_security_events BEFORE UPDATE OR DELETE ON service.security_events
FOR EACH ROW EXECUTE FUNCTION service.keep_security_events();
CREATE TRIGGER keep_all_security_events BEFORE TRUNCATE ON service.security_events
FOR EACH STATEMENT EXECUTE FUNCTION service.keep_security_events()
"""


def create_tables(connection: Connection) -> None:
    """Create every schema, table and trigger."""
    driver = driver_of(connection)
    for schema in SCHEMAS:
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    METADATA.create_all(connection, checkfirst=False)
    for dataset in DATASETS:
        # A refresh changes few rows of a large table; at the default share its dead rows would stay for months.
        table = sql.Identifier(SELLER, dataset.name)
        driver.execute(sql.SQL("ALTER TABLE {} SET (autovacuum_vacuum_scale_factor = 0.02)").format(table))
    driver.execute(_SECURITY_EVENTS)
