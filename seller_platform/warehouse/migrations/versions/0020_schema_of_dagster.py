"""Dagster's tables are in the schema `dagster`, not in the first schema of a role's search path.

Of several schemas with such tables, the one with the most events is moved. Views with the former names stay, so that
programs that were started before continue; `prune` drops them. Tables that this role does not own belong to another
Dagster, and stay.
"""

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

# In the order in which Dagster's own transactions lock them.
_TABLES = (
    "asset_event_tags",
    "event_logs",
    "asset_keys",
    "asset_check_executions",
    "run_tags",
    "runs",
    "snapshots",
    "backfill_tags",
    "bulk_actions",
    "job_ticks",
    "jobs",
    "instigators",
    "asset_daemon_asset_evaluations",
    "daemon_heartbeats",
    "dynamic_partitions",
    "kvs",
    "pending_steps",
    "concurrency_slots",
    "concurrency_limits",
    "instance_info",
    "secondary_indexes",
    "alembic_version",
)

# The comment of roles that may read tables for people. They could read Dagster's tables in the schema `seller`.
_READER = "Reads the tables of Seller Platform; made for"

_MOVE = """
DO $$
DECLARE
    tables CONSTANT text[] := '{TABLES}';
    candidate record;
    former text;
    events bigint;
    most bigint := -1;
    name text;
    options text := '';
    granted record;
BEGIN
    IF to_regnamespace('dagster') IS NULL THEN
        CREATE SCHEMA dagster;
    END IF;
    IF to_regclass('dagster.event_logs') IS NOT NULL THEN
        RETURN;
    END IF;
    FOR candidate IN
        SELECT namespace.nspname AS schema
        FROM pg_class AS logs
        JOIN pg_namespace AS namespace ON namespace.oid = logs.relnamespace
        JOIN pg_class AS runs ON runs.relnamespace = namespace.oid AND runs.relname = 'runs' AND runs.relkind = 'r'
        WHERE logs.relname = 'event_logs' AND logs.relkind = 'r' AND pg_has_role(logs.relowner, 'USAGE')
          AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = logs.oid AND attname = 'dagster_event_type')
          AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = runs.oid AND attname = 'run_body')
        ORDER BY namespace.nspname = 'public', namespace.nspname
    LOOP
        EXECUTE format('SELECT coalesce(max(id), 0) FROM %I.event_logs', candidate.schema) INTO events;
        IF events > most THEN
            former := candidate.schema;
            most := events;
        END IF;
    END LOOP;
    IF former IS NULL THEN
        RETURN;
    END IF;
    IF current_setting('server_version_num')::integer >= 150000 THEN
        options := 'WITH (security_invoker = true)';
    END IF;
    FOREACH name IN ARRAY tables LOOP
        IF (SELECT relkind FROM pg_class WHERE oid = to_regclass(format('%I.%I', former, name))) = 'r' THEN
            EXECUTE format('ALTER TABLE %I.%I SET SCHEMA dagster', former, name);
            EXECUTE format('CREATE VIEW %I.%I %s AS SELECT * FROM dagster.%I', former, name, options, name);
            EXECUTE format('COMMENT ON VIEW %I.%I IS %L', former, name, 'A table of Dagster, for programs that were '
                'started before it was moved to schema dagster. `seller-platform prune` drops it.');
            FOR granted IN
                SELECT CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(role.rolname) END AS grantee,
                       acl.privilege_type AS privilege,
                       coalesce(shobj_description(role.oid, 'pg_authid') LIKE 'READER%', false) AS is_reader
                FROM pg_class
                CROSS JOIN LATERAL aclexplode(coalesce(relacl, acldefault('r', relowner))) AS acl
                LEFT JOIN pg_roles AS role ON role.oid = acl.grantee
                WHERE pg_class.oid = to_regclass(format('dagster.%I', name))
                  AND acl.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
                  AND coalesce(role.rolname, '') <> current_user
            LOOP
                IF granted.is_reader THEN
                    EXECUTE format('REVOKE ALL ON dagster.%I FROM %s', name, granted.grantee);
                ELSE
                    EXECUTE format('GRANT %s ON %I.%I TO %s', granted.privilege, former, name, granted.grantee);
                    EXECUTE format('GRANT USAGE ON SCHEMA dagster TO %s', granted.grantee);
                END IF;
            END LOOP;
        END IF;
    END LOOP;
END $$
"""


def upgrade() -> None:
    op.execute(_MOVE.replace("TABLES", ",".join(_TABLES)).replace("READER", _READER))
