"""The job `acknowledge`, which notes that a person knows a problem."""

from collections.abc import Collection
from datetime import date
from typing import Annotated

import dagster as dg
from pydantic import AfterValidator, Field

from seller_platform.contract.window import read_month
from seller_platform.counts import count_of
from seller_platform.orchestration.assets.checks import problem_name
from seller_platform.orchestration.assets.reporting import Source, owners_read, report_after_step
from seller_platform.orchestration.failures import CheckedConfig, Month, foreseen
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.monitoring.problems import acknowledge

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
    """Return the job; it needs the resource `warehouse`.

    Args:
        sources: The datasets and marts whose checks follow.
    """

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
