"""The job `accept_held`, which publishes readings that are held."""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, dataset_named
from seller_platform.counts import count_of
from seller_platform.errors import RequestError, first_few
from seller_platform.ingest.loads.acceptance import accept_load
from seller_platform.orchestration.assets.events import load_event
from seller_platform.orchestration.assets.partition_loop import PartitionLoop
from seller_platform.orchestration.assets.reporting import owners_read, report_after_step
from seller_platform.orchestration.failures import CheckedConfig, foreseen
from seller_platform.orchestration.jobs.loading import DatasetName
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts_named
from seller_platform.warehouse.loads.holds import AN_OPERATOR
from seller_platform.warehouse.loads.receipts import Receipt, keep_reported, open_holds
from seller_platform.warehouse.postgres.database import Database


class AcceptHeld(CheckedConfig):
    """The held readings to publish: one load, or those of some accounts and datasets."""

    load: int | None = Field(
        default=None,
        ge=1,
        description="The number of the held load, as the failed check and the command `held` show it.",
    )
    accounts: list[str] = Field(
        default=[], description="Only held readings of these accounts, by their keys or titles."
    )
    datasets: list[DatasetName] = Field(default=[], description="Only held readings of these datasets.")
    accepted_by: str = Field(
        default=AN_OPERATOR, min_length=1, max_length=100, description="Who accepts them, for the receipt."
    )
    reason: str | None = Field(default=None, max_length=500, description="Why they are right, for the receipt.")


def accept_job(placement: Placement = WHOLE) -> dg.JobDefinition:
    """Return the job; it needs the resources `warehouse` and `seller_api`."""

    @placement.job(
        "accept_held", "accept", "Publishes held readings: each is read again, and published if it still says the same."
    )
    def accept(
        context: dg.OpExecutionContext, config: AcceptHeld, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> Iterator[object]:
        database = warehouse.database
        with foreseen(placement):
            chosen = _chosen(database, config, placement)

        def publish(load: int) -> Receipt:
            loader = seller_api.loader(context, utc_now())
            return accept_load(loader, load, by=config.accepted_by, why=config.reason)

        loop = PartitionLoop(context.log, placement, "load ")
        datasets = set[Dataset]()
        for load, receipt in loop.attempt(chosen, publish):
            context.log.info("load %s is published by load %s: %s rows", load, receipt.id, receipt.rows)
            datasets.add(dataset_named(receipt.dataset))
            yield load_event(receipt, placement, warehouse.names)
            keep_reported(database, [receipt.id])
        report_after_step(context, database, placement, *datasets)
        reasons = "; ".join(str(error) for error in loop.failures.values())
        loop.fail(f"{len(loop.failures)} of {count_of(len(chosen), 'held reading', 'was')} not published: {reasons}")

    return accept


def _chosen(database: Database, config: AcceptHeld, placement: Placement) -> list[int]:
    """Return the loads of the held readings to publish.

    Raises:
        RequestError: The config names none, or nothing that it names is held, or another component reads it.
        UnknownAccountError: No listed account has that key or title.
    """
    if config.load is None and not config.accounts and not config.datasets:
        raise RequestError("the config names nothing to accept; give a load, accounts or datasets")
    read, names = owners_read(database, placement), {each.value for each in config.datasets}
    keys = {each.key for each in accounts_named(database, config.accounts)} if config.accounts else None
    held = {each.id: each for each in open_holds(database) if read is None or each.account in read}
    chosen = [
        load
        for load, each in held.items()
        if config.load in (None, load)
        and (keys is None or each.account in keys)
        and (not names or each.dataset in names)
    ]
    if not chosen:
        raise RequestError(
            "no reading that the config names is held",
            step=f"The loads of those that are held: {first_few([*map(str, held)]) or 'there is none'}.",
        )
    return chosen
