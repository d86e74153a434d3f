"""The job `read_orders_today`, which reads the orders of the present day, and its schedule.

A run loads the local today of every account and no other day, except that the half hour after midnight loads yesterday,
too. The lock of a slice keeps the daily refresh and such a run apart. Runs report only days that have changed. Where
the requests of a day are limited, a run uses those that the daily refresh does not need.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import dagster as dg

from seller_platform.clocks import utc_now
from seller_platform.contract import REFRESHED, Dataset, Window
from seller_platform.contract.datasets.sales import ORDERS
from seller_platform.counts import count_of
from seller_platform.ingest.loads.loading import load_each
from seller_platform.ingest.loads.planner import DueSlice, Planner
from seller_platform.orchestration.assets.events import load_event
from seller_platform.orchestration.assets.reporting import report_after_step
from seller_platform.orchestration.automation.schedules import reason_of
from seller_platform.orchestration.failures import PartitionLoop
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.orchestration.tags import FIRST_TAGS, under_way
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts
from seller_platform.warehouse.loads.history_start import history_start_in
from seller_platform.warehouse.loads.receipts import Receipt, keep_reported

SCHEDULE = "orders_today"
DATASET = ORDERS

_EVERY_15_MINUTES = "*/15 * * * *"
# Two ticks read the day before as well.
_AFTER_MIDNIGHT = timedelta(minutes=30)


def today_definitions(placement: Placement = WHOLE, refreshed: Sequence[Dataset] = REFRESHED) -> dg.Definitions:
    """Return the job and its schedule, which is off at first; they need the resources `warehouse` and `seller_api`."""

    @placement.job(
        "read_orders_today",
        "read_today",
        "Reads today's orders of every account, and yesterday's in the half hour after midnight.",
    )
    def read_today(
        context: dg.OpExecutionContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> Iterator[object]:
        database, now = warehouse.database, utc_now()
        since = history_start_in(database, warehouse.settings)
        chosen = placement.accounts_of(SCHEDULE, accounts(database))
        at = placement.refresh_at(now)
        planner = Planner.of(warehouse.settings, database, chosen, since, now, refresh_at=at)
        division = planner.beside_refresh(lambda each: today_slices(each.accounts, now), refreshed)
        if division.later:
            context.log.warning("not read: %s", reason_of(division.later))
        loader = seller_api.loader(context, now)
        # The refusals that `status` shows are about months, which the daily refresh reads.
        requests, pause = [each.request for each in division.fitting], warehouse.settings.second_reading_seconds
        results = load_each(requests, loader, second_reading_seconds=pause, records=False)
        loop, receipts = PartitionLoop(context.log, placement), list[Receipt]()
        for result in results:
            if result.error is not None:
                loop.add(result.request.account, result.error, subject=str(result.request))
            elif result.receipt is not None:
                receipts.append(result.receipt)
                if result.receipt.changed:
                    yield load_event(result.receipt, placement, warehouse.names)
        context.add_output_metadata(
            {
                "accounts": len(receipts),
                "changed_accounts": sum(receipt.changed for receipt in receipts),
                "rows": sum(receipt.rows for receipt in receipts),
            }
        )
        keep_reported(database, [receipt.id for receipt in receipts])
        report_after_step(context, database, placement, DATASET)
        loop.fail(
            f"today's {DATASET.name} of {count_of(len(loop.failures), 'account', 'was')} not read: "
            f"{', '.join(loop.failures)}. All others were. The next tick reads them again"
        )

    @dg.schedule(
        job=read_today,
        description="Reads today's orders of every account in one run. Switch it on if minutes matter.",
        **placement.schedule(SCHEDULE, _EVERY_15_MINUTES, is_on=False),
    )
    def orders_today(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if context.instance.get_runs_count(under_way(tags={"dagster/schedule_name": placement.name_of(SCHEDULE)})):
            return dg.SkipReason("under way: the run of an earlier tick; the next tick reads the orders again")
        return dg.RunRequest(tags=FIRST_TAGS)

    return dg.Definitions(jobs=[read_today], schedules=[orders_today])


def today_slices(listed: Iterable[KnownAccount], now: datetime) -> list[DueSlice]:
    """Return the slices of the local today of each account that can be read.

    Soon after midnight yesterday is read, too: its last orders came after the last reading.
    """

    def days_of(account: KnownAccount) -> Window:
        first, today = ((now - ago).astimezone(account.zone).date() for ago in (_AFTER_MIDNIGHT, timedelta()))
        return Window(first, today + timedelta(days=1))

    return [
        DueSlice(DATASET, each.key, part, part, whole=True, is_extra=True)
        for each in listed
        if each.account.problem is None
        for part in days_of(each).months()
    ]
