"""Loads the last month of the sandbox, builds its marts and shows its coverage, before the UI of `dev` opens."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from seller_platform.cli.installation import Installation
from seller_platform.cli.output import Output
from seller_platform.contract import DATASETS, REFRESHED, Window
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.ingest.loads.planner import Planner
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.history_start import keep_history_start
from seller_platform.warehouse.loads.receipts import pairs_read
from seller_platform.warehouse.marts import MARTS

_DAYS = 30


def load_last_month(installation: Installation, output: Output) -> Sequence[str]:
    """Load what is not stored yet of the last 30 days' months, with marts, checks and coverage.

    Slices that an earlier `dev` or `demo` loaded on the same day are not read again.

    Returns:
        A sentence for each partition that was not loaded or built.
    """
    # Imported here because Dagster takes a second to import, which `--help` does not need.
    from seller_platform.orchestration.assets.coverage import report_coverage
    from seller_platform.orchestration.assets.freshness import report_freshness
    from seller_platform.orchestration.assets.reporting import report_checks
    from seller_platform.orchestration.automation.runs import PlannedRun, execute, plan_loads
    from seller_platform.orchestration.definitions import defs
    from seller_platform.orchestration.instance.command_runs import end_dead_runs
    from seller_platform.orchestration.instance.home import open_instance
    from seller_platform.orchestration.partitions import account_partitions, partition_key
    from seller_platform.orchestration.placement import WHOLE

    database, now = installation.database, datetime.now(UTC)
    since = max(
        keep_history_start(database, installation.settings.history_start),
        (now - timedelta(days=_DAYS)).date().replace(day=1),
    )
    months = [Window.month_of(each.start) for each in Window(since, now.date() + timedelta(days=1)).months()]
    job, problems = defs.resolve_implicit_global_asset_job_def(), dict[str, str]()
    with open_instance(installation.settings.home) as instance:
        end_dead_runs(instance)
        listed = account_partitions(instance)
        # As by a schedule, which reads nothing twice on a day; but a schedule asks for few rows of what is new to it.
        is_known = bool(pairs_read(database, REFRESHED))
        planner = Planner(database, accounts(database), since, now)
        planned = plan_loads(planner.due(REFRESHED, scheduled=is_known), listed=listed)
        if planned:
            with output.progress("Loading the last month", len(planned) + 1) as show:
                for number, run in enumerate([PlannedRun((ACCOUNTS,)), *planned]):
                    show(number)
                    problems.update(execute(run, job, instance).failures)
            with output.progress("Building the marts", None):
                monthly = tuple(mart for mart in MARTS if mart.is_monthly)
                others = tuple(mart for mart in MARTS if not mart.is_monthly)
                keys_read = [key for key in listed if key in {each.key for each in planner.accounts}]
                first, last = keys_read[0], keys_read[-1]
                ends = partition_key(first, months[0]), partition_key(last, months[-1])
                for run in (PlannedRun(monthly, *ends), PlannedRun(others, first, last)):
                    problems.update(execute(run, job, instance).failures)
        report_coverage(instance, database)
        report_checks(instance, database, WHOLE, [*DATASETS, *MARTS])
        report_freshness(instance, database, REFRESHED)
    return [f"{name}: {problem}" for name, problem in problems.items()]
