"""The jobs `accept_held` and `acknowledge`: what a person decides about held readings and about problems."""

from collections.abc import Collection, Iterator
from datetime import date
from typing import Annotated

import dagster as dg
from pydantic import AfterValidator, Field

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, dataset_named
from seller_platform.contract.window import read_month
from seller_platform.counts import count_of
from seller_platform.errors import RequestError, first_few
from seller_platform.ingest.loads.acceptance import accept_load
from seller_platform.orchestration.assets.checks import problem_name
from seller_platform.orchestration.assets.events import load_event
from seller_platform.orchestration.assets.reporting import Source, owners_read, report_after_step
from seller_platform.orchestration.failures import CheckedConfig, Month, PartitionLoop, foreseen
from seller_platform.orchestration.jobs.loading import DatasetName
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts_named
from seller_platform.warehouse.loads.holds import AN_OPERATOR
from seller_platform.warehouse.loads.receipts import Receipt, keep_reported, open_holds
from seller_platform.warehouse.monitoring.problems import acknowledge
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


_Day = Annotated[str, AfterValidator(lambda text: date.fromisoformat(text).isoformat())]


class Acknowledge(CheckedConfig):
    """The problems that a person knows."""

    kind: str = Field(description="The kind, such as mismatched: the word that `status` and alerts begin with.")
    dataset: str | None = Field(default=None, description="Only of this dataset, or of a mart as marts.NAME.")
    account: str | None = Field(default=None, description="Only of the account with this key or title.")
    month: Month | None = Field(default=None, description="Only this month: 2026-03.")
    until: _Day | None = Field(
        default=None, description="The last day, as 2026-03-31; by default until the problem ends or gets worse."
    )
    note: str | None = Field(default=None, max_length=500, description="Why it is no problem.")


def acknowledge_job(sources: Collection[Source], placement: Placement = WHOLE) -> dg.JobDefinition:
    """Return the job, after which the checks of datasets and marts follow; it needs the resource `warehouse`."""

    @placement.job(
        "acknowledge",
        "note_problems",
        "Notes that a person knows problems: they send no alert and end no command with an exit code any more.",
        calls_api=False,
    )
    def note_problems(context: dg.OpExecutionContext, config: Acknowledge, warehouse: WarehouseResource) -> None:
        with foreseen(placement):
            found = acknowledge(
                warehouse.database,
                config.kind,
                dataset=config.dataset,
                account=config.account,
                accounts=owners_read(warehouse.database, placement),
                month=read_month(config.month) if config.month else None,
                until=date.fromisoformat(config.until) if config.until else None,
                note=config.note,
            )
        context.log.info("%s acknowledged", count_of(len(found), "problem", "is"))
        known = {each.dataset for each in found}
        named = {problem_name(each): each for each in sources}
        report_after_step(context, warehouse.database, placement, *(named[name] for name in known & named.keys()))

    return note_problems
