"""Reports why runs of Dagster failed, unless a problem says the same; a reason once a day."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from seller_platform.alerts.causes import key_of, without_names
from seller_platform.alerts.messages import LONGEST_SENTENCE, title_part
from seller_platform.alerts.sending import write
from seller_platform.commands import runnable
from seller_platform.errors import InputProblemError
from seller_platform.settings import Settings
from seller_platform.warehouse.monitoring.problems import problems
from seller_platform.warehouse.postgres.database import Database


def write_failed_run(
    database: Database,
    settings: Settings,
    run_id: str,
    failures: Iterable[tuple[str, Mapping[str, str]]],
    shown: Callable[[str], str],
) -> None:
    """Report the failures of a run.

    A mart that waits for an input has not failed: the input is reported.

    Args:
        failures: Each asset or job that failed, and why, by partition.
        shown: Returns a sentence as runs show it.
    """
    # A run says the next step together with the reason.
    foreseen = {shown(runnable(f"{each.message} {each.next_step or ''}")).rstrip(" .") for each in problems(database)}
    for subject, reasons in failures:
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
        link = f"\nRun: {settings.dagster_url}/runs/{run_id}" if settings.dagster_url else ""
        cause = key_of("run failed", subject, without_names(reason, filter(None, (each for each, *_ in accounts))))
        with database.begin() as connection:
            write(connection, settings, cause, f"{title}\n{reason}{link}", title=title, within=timedelta(days=1))
