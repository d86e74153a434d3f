"""The job that requests reports, the sensor that polls them, and their asset.

The sensor keeps its state in `platform.report_jobs`. It polls the jobs of that table, and requests a run for each
account with a report to load or a failure to report. Ticks that time out and runs that are killed lose nothing: the
table still has the work, and the next tick requests it again, in a run with a key of its own.
"""

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from itertools import islice

import dagster as dg
from msgspec.structs import replace
from pydantic import Field, ValidationInfo, field_validator

from seller_platform.clocks import Clock, utc_now
from seller_platform.contract.datasets.reports import REPORT_ROWS
from seller_platform.counts import count_of
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.orchestration.account_names import AccountNames, tag_with_account
from seller_platform.orchestration.assets.events import dataset_asset, load_event, materialization_of_nothing, outputs
from seller_platform.orchestration.assets.reporting import report_after_step
from seller_platform.orchestration.failures import ACCOUNTS_FIELD, CheckedConfig, PartitionLoop, foreseen
from seller_platform.orchestration.mounting import Contribution, Mounted
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource, wait_log
from seller_platform.orchestration.tags import ACCOUNT_TAG, under_way
from seller_platform.reports.jobs import JobState, ReportJob, jobs_for_runs, move_job, ready_jobs
from seller_platform.reports.loading import (
    GIVE_UP_AFTER,
    REQUEST_SECONDS,
    ReportOrder,
    load_report,
    poll_due,
    request_report,
    take_failures,
)
from seller_platform.reports.selectors import DPS_DATE, JSON, Format, Selector, selector_problem
from seller_platform.warehouse.connections.accounts import KnownAccount, account_of, accounts_named
from seller_platform.warehouse.loads.receipts import Receipt, keep_reported, newest_receipts

RUN_TAG = "seller_platform/report_run"
"""The newest report of the account when the run was requested."""

_MOST_HOURS = 168
_STORED_WITHIN = timedelta(hours=6)
_NOT_STORED = "it was ready, but no run stored its rows within six hours; the log of each run says why"


class RequestReports(CheckedConfig):
    """The reports to request."""

    accounts: list[str] = Field(default=[], description=ACCOUNTS_FIELD)
    selector: Selector = Field(
        default=DPS_DATE,
        description="The content of the report: daily product sales of a day, all days of one SKU, or what was updated "
        "on a day.",
    )
    value: str | None = Field(
        default=None,
        description="A day as YYYY-MM-DD, or for product_sku the SKU; the default is yesterday in the account's zone.",
    )
    format: Format = Field(default=JSON, description="The format of the download.")
    give_up_after_hours: float = Field(
        default=GIVE_UP_AFTER / timedelta(hours=1),
        gt=0,
        le=_MOST_HOURS,
        description=f"How many hours to wait for a report before it is given up, at most {_MOST_HOURS}.",
    )

    @field_validator("value")
    @classmethod
    def _fits_the_selector(cls, value: str | None, info: ValidationInfo) -> str | None:
        problem = None if value is None else selector_problem(info.data.get("selector", DPS_DATE), value)
        if problem is not None:
            raise ValueError(problem)
        return value

    @property
    def order(self) -> ReportOrder:
        return ReportOrder(self.selector, self.value, self.format, timedelta(hours=self.give_up_after_hours))


def definitions(component: Mounted) -> Contribution:
    """Return the job, the sensor and the asset, and the step of the job `daily`, of a component that reads reports."""
    if REPORT_ROWS not in component.datasets:
        return Contribution()
    request = request_step(component.placement)
    defined = report_definitions(component.history_start, request, placement=component.placement)
    return Contribution(defined, daily=[request])


def report_definitions(
    history_start: date, request: dg.OpDefinition, *, clock: Clock = utc_now, placement: Placement = WHOLE
) -> dg.Definitions:
    """Return the job, the sensor and the asset of reports, which need the resources `warehouse` and `seller_api`."""
    asset = placement.asset_key(REPORT_ROWS)

    @dataset_asset(REPORT_ROWS, history_start, placement)
    def report_rows(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> Iterator[object]:
        tag_with_account(context, warehouse.names)
        database, log_wait = warehouse.database, wait_log(context.log)

        def load(job: ReportJob) -> Receipt | None:
            account, request = account_of(database, job.account), SliceRequest(REPORT_ROWS, job.account, None)
            api = seller_api.api(account.connection).listening(lambda wait: log_wait(request, str(wait)))
            return load_report(api, database, account, job, clock=clock, run_id=context.run.run_id)

        loop, stored = PartitionLoop(context.log, placement), newest_receipts(database, REPORT_ROWS)
        for account in context.partition_keys:
            failures, is_reported = len(loop.failures), False
            for _, receipt in loop.attempt(ready_jobs(database, account), load):
                if receipt is not None:
                    is_reported = True
                    yield load_event(receipt, placement, warehouse.names)
                    keep_reported(database, [receipt.id])
            loop.failures |= {error.subject: error for error in take_failures(database, account, now=clock())}
            if is_reported or len(loop.failures) > failures:
                continue
            if account not in stored:
                reason = f"No report was ever loaded; request one by the job {placement.name_of('request_reports')}."
                yield materialization_of_nothing(asset, account, reason)
            else:
                yield load_event(stored[account], placement, warehouse.names)
        yield from outputs(context)
        report_after_step(context, database, placement, REPORT_ROWS)
        _fail(loop, "loaded")

    @placement.sensor(
        "report_jobs",
        "Polls the requested reports, and requests runs that load those that are ready.",
        seconds=5,
        target=dg.AssetSelection.assets(asset),
    )
    def report_jobs(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        database = warehouse.database
        # Dagster ends an evaluation after 60 s.
        polls = poll_due(seller_api.api, database, clock=clock, seconds=40.0, limit=400)
        listed = frozenset(context.instance.get_dynamic_partitions(placement.accounts_name))
        requests = tuple(_run_requests(warehouse.names, context.instance, listed, clock()))
        yield from requests
        if not requests:
            yield dg.SkipReason(f"{count_of(polls, 'poll')}; nothing to load")

    jobs = [placement.job_of("request_reports", request)]
    return dg.Definitions(assets=[report_rows], jobs=jobs, sensors=[report_jobs])


def request_step(placement: Placement = WHOLE, clock: Clock = utc_now) -> dg.OpDefinition:
    """Return the step that requests reports, by default yesterday's daily product sales of every account."""

    @placement.op("request", "Requests one report for each account, unless a report with the same content is open.")
    def request(
        context: dg.OpExecutionContext,
        config: RequestReports,
        warehouse: WarehouseResource,
        seller_api: SellerApiResource,
    ) -> None:
        database, order, now = warehouse.database, config.order, clock()
        with foreseen(placement):
            chosen = placement.chosen(accounts_named(database, config.accounts))
            for account in chosen:
                order.value_for(account, now)  # raises before any report is requested

        def request_one(account: KnownAccount) -> ReportJob | None:
            api = seller_api.api(account.connection).impatient(REQUEST_SECONDS)
            return request_report(api, database, account, order, now=now)

        loop = PartitionLoop(context.log, placement)
        with ThreadPoolExecutor(8, thread_name_prefix="request") as threads:
            for account, job in zip(chosen, threads.map(request_one, chosen), strict=True):
                if job is None:
                    context.log.info("%s: a report with the same content is already open", account.key)
                elif job.state is JobState.REQUESTED:
                    context.log.warning("%s: it will be requested again, for %s", job, job.upstream_message)
                else:
                    context.log.info("%s: it is %s as report %s", job, job.state.value, job.report_id)
                loop.failures |= {error.subject: error for error in take_failures(database, account.key, now=now)}
        _fail(loop, "requested")

    return request


def _fail(loop: PartitionLoop, done: str) -> None:
    reasons = "; ".join(str(error) for error in loop.failures.values())
    loop.fail(f"{count_of(len(loop.failures), 'report', 'was')} not {done}: {reasons}")


def _run_requests(
    names: AccountNames, instance: dg.DagsterInstance, partitions: Collection[str], now: datetime
) -> Iterator[dg.RunRequest]:
    """Yield a run for each account with something to load or a failure to report.

    An account whose run is under way gets none. A run that failed is requested again in the next ten minutes of the
    hour; a report that no run stores is given up.
    """
    newest: dict[str, ReportJob] = {}
    for job in jobs_for_runs(names.database):
        if job.state is JobState.READY and now >= job.attempted_at + job.give_up_after + _STORED_WITHIN:
            move_job(names.database, job, replace(job, state=JobState.FAILED, problem=_NOT_STORED))
        if job.account in partitions:
            newest[job.account] = job
    # A new warehouse numbers its jobs from 1 again, and Dagster never runs a key twice: hence the time.
    jobs = {f"{job.id}.{job.requested_at:%Y%m%d%H%M%S}": job for job in newest.values()}
    if not jobs:
        return
    keys = {name: f"{name}:{now:%Y-%m-%dT%H:%M}"[:-1] for name in jobs}
    of_jobs = (under_way(tags={RUN_TAG: [*jobs]}), dg.RunsFilter(tags={"dagster/run_key": [*keys.values()]}))
    begun = {run.tags[RUN_TAG] for each in of_jobs for run in instance.get_runs(each)}
    for name in islice((name for name in jobs if name not in begun), 50):
        account = jobs[name].account
        tags = {ACCOUNT_TAG: account, RUN_TAG: name, **names.title_tags([account])}
        yield dg.RunRequest(keys[name], partition_key=account, tags=tags)
