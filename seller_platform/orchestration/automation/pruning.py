"""The job that deletes old rows, events, runs and files of exports, as `seller-platform prune` does."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from seller_platform.orchestration.failures import ForeseenError
from seller_platform.orchestration.placement import WHOLE
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.settings import read_settings
from seller_platform.warehouse.loads.retention import RECEIPT_DAYS, SNAPSHOT_DAYS, UNCHANGED_DAYS, prune, prune_files


@WHOLE.op(
    "delete_old",
    "Deletes old snapshots except one a month, receipts that nothing refers to, and events, runs and executions of "
    "checks that are older than SELLER_PLATFORM_DAGSTER_RETENTION_DAYS. Every partition keeps its state. Exported "
    "tables are compacted, and their files are deleted a week after they were replaced.",
    calls_api=False,
)
def delete_old(context: dg.OpExecutionContext, warehouse: WarehouseResource) -> None:
    # It imports dagster-postgres and Alembic, which the definitions do without.
    from seller_platform.orchestration.instance.retention import prune_instance

    settings, now = read_settings(), datetime.now(UTC)
    files, error = next(filter(None, prune_files(warehouse.database, settings, dry=False)), (None, None))
    pruned = prune(
        warehouse.database,
        snapshots_before=now.date() - timedelta(days=SNAPSHOT_DAYS),
        receipts_before=now.date() - timedelta(days=RECEIPT_DAYS),
        unchanged_before=now.date() - timedelta(days=UNCHANGED_DAYS),
        dry=False,
    )
    before = now - timedelta(days=settings.dagster_retention_days)
    dagster = prune_instance(context.instance, before=before, dry=False)
    counts = {**pruned.rows, "receipts": pruned.receipts, **dagster}
    counts |= {} if files is None else {"exported files": files}
    metadata = {name.replace(" ", "_"): count for name, count in counts.items()}
    if error is not None:
        raise ForeseenError(str(error), metadata)
    context.add_output_metadata(metadata)


PRUNE = WHOLE.job_of("prune", delete_old)
"""The job; it needs the resource `warehouse`."""
