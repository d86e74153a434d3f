"""Tests that every schema, table, view, column and function has a comment."""

import pytest
from sqlalchemy import text

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.comments import SCHEMAS

_OURS = "nspname = ANY (:schemas)"
_WITHOUT = {
    "schemas": "SELECT nspname FROM pg_namespace WHERE nspname = ANY (:schemas) "
    "AND obj_description(oid, 'pg_namespace') IS NULL",
    "tables and views": "SELECT nspname || '.' || relname FROM pg_class "
    "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
    f"WHERE relkind IN ('r', 'v', 'm', 'p') AND NOT relispartition AND {_OURS} "
    "AND obj_description(pg_class.oid, 'pg_class') IS NULL ORDER BY 1",
    "columns": "SELECT nspname || '.' || relname || '.' || attname FROM pg_attribute "
    "JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace "
    f"WHERE relkind IN ('r', 'v', 'm', 'p') AND NOT relispartition AND attnum > 0 AND NOT attisdropped AND {_OURS} "
    "AND col_description(attrelid, attnum) IS NULL ORDER BY 1",
    "functions": "SELECT nspname || '.' || proname FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace "
    f"WHERE prorettype <> 'trigger'::regtype AND {_OURS} "
    "AND obj_description(pg_proc.oid, 'pg_proc') IS NULL ORDER BY 1",
}


@pytest.mark.parametrize("what", _WITHOUT)
def test_nothing_is_without_a_comment(database: Database, what: str) -> None:
    without = database.execute(text(_WITHOUT[what]), {"schemas": list(SCHEMAS)}).scalars().all()

    assert without == []


def test_every_schema_of_the_database_has_its_sentence(database: Database) -> None:
    schemas = database.execute(
        text(
            "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%' "
            "AND nspname NOT IN ('information_schema', 'public')"
        )
    ).scalars()

    assert set(schemas) == set(SCHEMAS)
