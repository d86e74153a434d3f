"""Creates the tables of a new database, as they are declared, with their triggers and the queue of jobs."""

from procrastinate.schema import SchemaManager
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

# Reports of one user share a lock. When one ends, workers are notified as of a new job, so that they look for the next
# one at once; else they would look only at their next poll.
_WAITING_REPORTS = """
CREATE FUNCTION service.notify_of_waiting_reports() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM service.procrastinate_jobs WHERE lock = OLD.lock AND status = 'todo') THEN
        PERFORM pg_notify(
            'procrastinate_queue_v1#' || OLD.queue_name,
            json_build_object('type', 'job_inserted', 'job_id', OLD.id)::text
        );
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER notify_of_waiting_reports AFTER DELETE ON service.procrastinate_jobs
FOR EACH ROW WHEN (OLD.lock IS NOT NULL) EXECUTE FUNCTION service.notify_of_waiting_reports()
"""


def create_tables(connection: Connection) -> None:
    """Create every schema, table and trigger, and the tables of procrastinate in schema `service`."""
    driver = driver_of(connection)
    for schema in SCHEMAS:
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    METADATA.create_all(connection, checkfirst=False)
    for dataset in DATASETS:
        # A refresh changes few rows of a large table; at the default share its dead rows would stay for months.
        table = sql.Identifier(SELLER, dataset.name)
        driver.execute(sql.SQL("ALTER TABLE {} SET (autovacuum_vacuum_scale_factor = 0.02)").format(table))
    driver.execute("SET LOCAL search_path TO service")
    driver.execute(SchemaManager.get_schema())
    driver.execute("SET LOCAL search_path TO DEFAULT")
    for statements in (_SECURITY_EVENTS, _WAITING_REPORTS):
        driver.execute(statements)
