"""Loads lists of the sandbox by runs of Dagster in this process.

It imports Dagster, and definitions that read the environment: `demo` and `dev` import it when that points at the stack.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from seller_platform.cli.installation import Installation
from seller_platform.cli.output import Output
from seller_platform.cli.sync import planner_for
from seller_platform.contract import DATASETS, REFRESHED, Window
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.ingest.loads.planner import DueSlice
from seller_platform.orchestration.assets.coverage import report_coverage
from seller_platform.orchestration.assets.reporting import report_checks
from seller_platform.orchestration.automation.runs import PlannedRun, RunEnd, execute, plan_loads
from seller_platform.orchestration.definitions import defs
from seller_platform.orchestration.instance.command_runs import end_dead_runs
from seller_platform.orchestration.instance.home import open_instance
from seller_platform.orchestration.partitions import account_partitions, partition_key
from seller_platform.orchestration.placement import WHOLE
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.history_start import keep_history_start, months_of_history
from seller_platform.warehouse.loads.receipts import pairs_read
from seller_platform.warehouse.marts import MARTS

_DAYS = 30
_JOB = defs.resolve_implicit_global_asset_job_def()


def load_history(installation: Installation, output: Output, since: date) -> list[RunEnd]:
    """Load all months since a day, and return the results of the runs."""
    planner = planner_for(installation, accounts(installation.database), since)
    slices = planner.requested(REFRESHED, months_of_history(None, None, since))
    with open_instance(installation.settings.home) as instance:
        return _load(instance, slices, f"Loading {count_of(len(planner.accounts), 'account')}", output)


def load_last_month(installation: Installation, output: Output) -> list[RunEnd]:
    """Load what is not stored yet of the last 30 days' months, with marts, checks and coverage.

    Slices that an earlier `dev` or `demo` loaded on the same day are not read again.

    Returns:
        The results of the runs.
    """
    database, now, ends = installation.database, datetime.now(UTC), list[RunEnd]()
    since = max(
        keep_history_start(database, installation.settings.history_start),
        (now - timedelta(days=_DAYS)).date().replace(day=1),
    )
    months = [Window.month_of(each.start) for each in Window(since, now.date() + timedelta(days=1)).months()]
    planner = planner_for(installation, accounts(database), since)
    # A schedule reads nothing twice on a day, but few rows of what was never loaded.
    slices = planner.due(REFRESHED, scheduled=bool(pairs_read(database, REFRESHED)))
    with open_instance(installation.settings.home) as instance:
        if slices:
            ends = _load(instance, slices, "Loading the last month", output)
            keys = {each.key for each in planner.accounts}
            keys_read = [key for key in account_partitions(instance) if key in keys]
            first, last = keys_read[0], keys_read[-1]
            partitions = partition_key(first, months[0]), partition_key(last, months[-1])
            monthly = tuple(mart for mart in MARTS if mart.is_monthly)
            others = tuple(mart for mart in MARTS if not mart.is_monthly)
            with output.progress("Building the marts", None):
                for run in (PlannedRun(monthly, *partitions), PlannedRun(others, first, last)):
                    ends.append(execute(run, _JOB, instance))
        report_coverage(instance, database)
        report_checks(instance, database, WHOLE, [*DATASETS, *MARTS])
    return ends


def _load(instance: dg.DagsterInstance, slices: Sequence[DueSlice], title: str, output: Output) -> list[RunEnd]:
    """Read the list of accounts, and then slices."""
    end_dead_runs(instance)
    with output.progress(title, len(slices)) as show:
        ends, done = [execute(PlannedRun((ACCOUNTS,)), _JOB, instance)], 0
        for run in plan_loads(slices, listed=account_partitions(instance)):
            ends.append(execute(run, _JOB, instance))
            done += run.slices
            show(done)
    return ends
