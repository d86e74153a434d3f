"""The asset `platform/sample`, which compares months with the upstream at random, and the schedule that updates it."""

import dagster as dg

from seller_platform.clocks import utc_now
from seller_platform.errors import ReadingHeldError, UpstreamUnavailableError
from seller_platform.orchestration.failures import PartitionLoop
from seller_platform.orchestration.mounting import Contribution, Mounted
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.orchestration.tags import under_way
from seller_platform.sampling.comparing import compare_sample
from seller_platform.sampling.draws import sample
from seller_platform.warehouse.loads.receipts import newest_load

SAMPLE = dg.AssetKey(["platform", "sample"])
SCHEDULE = "sample"
_GROUP = "platform"
_HOURLY = "40 * * * *"

_DOC = """
How many stored slices differ from the upstream at most, with 95 % confidence.

Each hour, months that are drawn at random are requested again and compared value by value; what differs is loaded, or
held. That takes a hundredth of the requests of a day at most. The numbers are plotted over time, settled months apart
from those that may still change. The check comparisons_agree of each list names the settled ones that differed.
"""


def definitions(mounted: Mounted) -> Contribution:
    """Return the asset and its schedule, of a component that reads all accounts and wants them."""
    if SCHEDULE not in mounted.extras or not mounted.placement.is_whole:
        return Contribution()
    return Contribution(sample_definitions(mounted.placement))


def sample_definitions(placement: Placement = WHOLE) -> dg.Definitions:
    """Return the asset and its schedule; they need the resources `warehouse` and `seller_api`."""
    key, name = placement.key(SAMPLE), placement.name_of(SCHEDULE)

    @dg.asset(
        key=key,
        group_name=placement.group_of(_GROUP),
        description=_DOC.strip(),
        kinds={"postgres"},
        pool=placement.pool,
        op_tags=placement.tags,
    )
    def compared_sample(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> dg.MaterializeResult[None]:
        database, now = warehouse.database, utc_now()
        loop, changed = PartitionLoop(context.log, placement), 0
        results = compare_sample(
            seller_api.loader(context, now),
            requests_per_day=warehouse.settings.requests_per_day,
            second_reading_seconds=warehouse.settings.second_reading_seconds,
        )
        for result in results:
            if isinstance(result.error, ReadingHeldError | UpstreamUnavailableError):
                context.log.warning("%s was not compared, or differs: %s", result.request, result.error)
            elif result.error is not None:
                loop.add(result.request.account, result.error, subject=str(result.request))
            elif result.receipt is not None and result.receipt.changed:
                changed += 1
                context.log.warning("%s differed, and was loaded", result.request)
        measured = sample(database, now)
        metadata: dict[str, str | int | float] = {"sample": str(measured), "loaded_anew": changed}
        for stratum, each in measured.strata.items():
            metadata |= {f"{stratum}_compared": each.comparisons, f"{stratum}_differed": each.different}
            if each.bound is not None:
                metadata[f"{stratum}_differing_at_most_percent"] = round(100 * each.bound, 3)
        context.add_output_metadata(metadata)
        loop.fail("months could not be compared; the next tick draws others")
        return dg.MaterializeResult()

    @dg.schedule(
        target=dg.AssetSelection.assets(key),
        description="Compares months that are drawn at random with the upstream, value by value.",
        **placement.schedule(SCHEDULE, _HOURLY),
    )
    def evaluate(context: dg.ScheduleEvaluationContext, warehouse: WarehouseResource) -> dg.RunRequest | dg.SkipReason:
        if newest_load(warehouse.database) is None:
            return dg.SkipReason("nothing was ever loaded")
        if context.instance.get_runs_count(under_way(tags={"dagster/schedule_name": name})):
            return dg.SkipReason("under way: the run of an earlier tick")
        return dg.RunRequest()

    return dg.Definitions(assets=[compared_sample], schedules=[evaluate])
