"""A Dagster instance on PostgreSQL that processes and ticks open from its folder, and its tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import psycopg

from seller_platform.warehouse.postgres.database import DAGSTER_SCHEMA


@contextmanager
def postgres_instance(database_url: str, folder: Path, more: str = "") -> Iterator[dg.DagsterInstance]:
    """Yield an instance with our storage in a database, and its `dagster.yaml` in a folder.

    Args:
        more: Further lines of the `dagster.yaml`.
    """
    (folder / "dagster.yaml").write_text(
        "storage:\n  custom:\n    module: seller_platform.orchestration.storage\n    class: PooledPostgresStorage\n"
        f'    config: {{postgres_url: "{database_url}", schema: {DAGSTER_SCHEMA}}}\n{more}'
    )
    with dg.DagsterInstance.from_config(str(folder)) as opened:
        yield opened


def connect_to_tables(database_url: str) -> psycopg.Connection:
    """Connect to the database of such an instance; the names of tables are those of Dagster's."""
    return psycopg.connect(database_url, autocommit=True, options=f"-csearch_path={DAGSTER_SCHEMA}")
