"""Deletes the old rows of an instance in PostgreSQL, and the logs of deleted runs."""

from collections.abc import Mapping
from datetime import datetime

import dagster as dg
from dagster_postgres.event_log import PostgresEventLogStorage

from seller_platform.warehouse.postgres.dagster_tables import prune_dagster


def prune_instance(instance: dg.DagsterInstance, *, before: datetime, dry: bool) -> Mapping[str, int]:
    """Delete as `prune_dagster` does. An instance on another storage is left as it is; it returns nothing."""
    storage = instance.event_log_storage
    if not isinstance(storage, PostgresEventLogStorage):
        return {}

    def delete_logs(run_id: str) -> None:
        instance.compute_log_manager.delete_logs(prefix=[run_id])

    with storage.index_connection() as connection:
        return prune_dagster(connection, before=before, dry=dry, on_deleted_run=delete_logs)
