"""The sensors that send alerts: what is wrong with slices, and runs that failed for another reason."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import dagster as dg

from seller_platform.alerts.messages import LONGEST_SENTENCE, key_of, title_part, without_names
from seller_platform.alerts.sending import send_alerts, write
from seller_platform.alerts.settings import AlertsSettings
from seller_platform.clocks import utc_now
from seller_platform.commands import runnable
from seller_platform.errors import InputProblemError, WarehouseUnavailableError, followed
from seller_platform.orchestration.dagster_internals import SerializableErrorInfo
from seller_platform.orchestration.failures import in_the_ui
from seller_platform.orchestration.mounting import Contribution, Mounted
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.monitoring.problems import problems
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url

_SECONDS_BETWEEN_TICKS = 30
# Dagster notes that it starts a run again a moment after the run's failure.
_SETTLES_AFTER_SECONDS = 3.0
_WILL_RETRY, _RETRY = "dagster/will_retry", "dagster/auto_retry_run_id"
_TRACEBACK = "Open the run in the Dagster UI for the traceback, fix the cause and launch the run again."


def definitions(component: Mounted) -> Contribution:
    """Return both sensors, unless the component sends no alerts."""
    sends = component.settings.of(AlertsSettings).alerts if component.alerts is None else component.alerts
    return Contribution(alert_definitions(component.placement)) if sends else Contribution()


def alert_definitions(placement: Placement = WHOLE) -> dg.Definitions:
    """Return both sensors. Those of several components report a cause once altogether."""

    @placement.sensor(
        "alerts",
        "Reports what platform.problems names and security events of the service, once for each cause, to "
        "SELLER_PLATFORM_ALERT_WEBHOOK_URL and to the log.",
    )
    def alerts(_: dg.SensorEvaluationContext) -> dg.SkipReason:
        try:
            with _warehouse() as (database, settings):
                return dg.SkipReason(send_alerts(database, settings, placement.key_prefix))
        except WarehouseUnavailableError as error:
            return dg.SkipReason(str(error))

    @dg.run_failure_sensor(
        name=placement.name_of("run_failures"),
        description="Reports runs of the instance that failed for a reason that platform.problems does not name.",
        minimum_interval_seconds=_SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        monitor_all_code_locations=True,
    )
    def run_failures(context: dg.RunFailureSensorContext) -> None:
        record = context.instance.get_run_record_by_id(context.dagster_run.run_id)
        ended = record.end_time if record is not None and record.end_time else 0.0
        time.sleep(min(_SETTLES_AFTER_SECONDS, max(0.0, ended + _SETTLES_AFTER_SECONDS - utc_now().timestamp())))
        run = context.instance.get_run_by_id(context.dagster_run.run_id)
        if run is None or _RETRY in run.tags or run.tags.get(_WILL_RETRY) == "true":
            return  # the failure of the retry is reported
        with _warehouse() as (database, settings):
            _report(context, database, settings, placement)

    return dg.Definitions(sensors=[alerts, run_failures])


@contextmanager
def _warehouse() -> Iterator[tuple[Database, Settings]]:
    """Open the warehouse of the settings. Sensors of failed runs have no resources."""
    settings = read_settings()
    with Database(warehouse_url(settings), connections=1) as database:
        yield database, settings


def _report(context: dg.RunFailureSensorContext, database: Database, settings: Settings, placement: Placement) -> None:
    """Report why a run failed, unless a problem says the same; a reason once a day.

    A mart that waits for an input has not failed: the input is reported.
    """
    # A run says the next step together with the reason.
    sentences = (runnable(f"{each.message} {each.next_step or ''}") for each in problems(database))
    foreseen = {in_the_ui(each, placement=placement).rstrip(" .") for each in sentences}
    for subject, reasons in _failures(context):
        left = {
            part: reason
            for part, reason in reasons.items()
            if reason.rstrip(" .") not in foreseen and not reason.startswith(InputProblemError.begin)
        }
        if not left:
            continue
        accounts = [part.partition("|") for part in left]
        named = [f"{account}, {day[:7]}" if day else account for account, _, day in accounts if account]
        title = f"Run failed: {title_part(subject, named, len(named))}"
        reason = next(iter(left.values()))[:LONGEST_SENTENCE]
        link = f"\nRun: {settings.dagster_url}/runs/{context.dagster_run.run_id}" if settings.dagster_url else ""
        cause = key_of("run failed", subject, without_names(reason, filter(None, (each for each, *_ in accounts))))
        with database.begin() as connection:
            write(connection, settings, cause, f"{title}\n{reason}{link}", title=title, within=timedelta(days=1))


def _failures(context: dg.RunFailureSensorContext) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield what failed in a run, assets or the job, and the reasons by partition."""
    job, steps = f"job {context.dagster_run.job_name}", context.get_step_failure_events()
    for event in steps:
        step, raised = event.step_key or "", event.step_failure_data.user_failure_data
        facts = {} if raised is None else raised.metadata
        if facts and all(isinstance(each, dg.TextMetadataValue) for each in facts.values()):
            reasons = {name: str(each.value) for name, each in facts.items()}
        else:
            described = raised.description if raised is not None else None
            reasons = {"": described or followed(_first_line(event.step_failure_data.error), _TRACEBACK)}
        yield step.replace("__", "/") if "__" in step else job, reasons
    if not steps:
        event = context.failure_event
        error = getattr(event.event_specific_data, "error", None)  # none, if the run was ended from outside
        yield job, {"": followed(_first_line(error) or (event.message or "").partition("\n")[0], _TRACEBACK)}


def _first_line(error: SerializableErrorInfo | None) -> str:
    """Return the first line of an error. If Dagster has wrapped an error in it, that counts."""
    while error is not None and error.cause is not None and (error.cls_name or "").startswith("Dagster"):
        error = error.cause
    lines = error.message.strip().splitlines() if error is not None else []
    return lines[0].rstrip(".")[:500] if lines else ""
