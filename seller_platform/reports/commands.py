"""`seller-platform report`: requests reports, lists, downloads and loads them."""

import shutil
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, get_args

import click
import msgspec

from seller_platform.cli.connect import open_stored_apis
from seller_platform.cli.installation import open_served_installation, open_stored_installation, report_loads
from seller_platform.cli.output import Document, Outcome, Output, json_option
from seller_platform.cli.sync import SyncDocument, Synced, account_option
from seller_platform.cli.sync import report as print_loads
from seller_platform.clocks import utc_now
from seller_platform.contract.datasets.reports import REPORT_ROWS
from seller_platform.errors import (
    PartsFailedError,
    ReportFailedError,
    RequestError,
    RetryableError,
    SellerPlatformError,
)
from seller_platform.files import replacing
from seller_platform.reports.endpoints import download_body
from seller_platform.reports.jobs import LOST, ReportJob, RequestedReport, job_of, newest_jobs, ready_jobs
from seller_platform.reports.loading import (
    GIVE_UP_AFTER,
    REQUEST_SECONDS,
    ReportOrder,
    await_report,
    load_report,
    poll_due,
    request_report,
    take_failures,
)
from seller_platform.reports.selectors import CSV, DPS_DATE, JSON, Format, Selector
from seller_platform.warehouse.connections.accounts import account_of, accounts_named
from seller_platform.warehouse.loads.receipts import Receipt

_COLUMNS = ("id", "account", "selector", "value", "state", "requested_at")


class ReportsDocument(Document, frozen=True):
    """Requested reports, the newest first."""

    reports: list[RequestedReport]


class ReportRequestDocument(Outcome, frozen=True):
    """The reports that were requested now.

    Attributes:
        open_before: The accounts of which a report with the same content is open.
    """

    reports: list[RequestedReport]
    open_before: list[str]


def _format_option(default: Format, help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    choice = click.Choice(get_args(Format))
    return click.option("--format", "form", type=choice, default=default, show_default=True, help=help)


@click.group()
def report() -> None:
    """Request reports, list them, download them, and load their rows.

    A report is written by the upstream, which takes minutes. Where Dagster's daemon runs, its sensor loads each report
    that is ready into seller.report_rows.
    """


@report.command()
@account_option
@click.option(
    "--selector",
    type=click.Choice(get_args(Selector)),
    default=DPS_DATE,
    show_default=True,
    help="The content: daily product sales of a day, all days of one SKU, or what was updated on a day.",
)
@click.option(
    "--value", help="A day as 2026-03-01, or for product_sku the SKU; the default is yesterday in the account's zone."
)
@_format_option(JSON, "The format in which its rows are loaded.")
@click.option(
    "--give-up-after",
    "hours",
    type=click.FloatRange(0, 168, min_open=True),
    default=GIVE_UP_AFTER / timedelta(hours=1),
    show_default=True,
    help="Hours to wait for the report before it is given up.",
)
@json_option(ReportRequestDocument)
def request(
    *,
    chosen_accounts: tuple[str, ...],
    selector: Selector,
    value: str | None,
    form: Format,
    hours: float,
    output: Output,
) -> None:
    """Request one report for each account, unless a report with the same content is open."""
    order = ReportOrder(selector, value, form, timedelta(hours=hours))
    with open_served_installation() as installation, open_stored_apis(installation) as apis:
        now, chosen = utc_now(), accounts_named(installation.database, chosen_accounts)
        for account in chosen:
            order.value_for(account, now)  # raises before any report is requested
        jobs: list[ReportJob] = []
        open_before: list[str] = []
        failures: list[ReportFailedError] = []
        with output.progress("Requesting reports", len(chosen)) as show:
            for done, account in enumerate(chosen, start=1):
                api = apis(account.connection).impatient(REQUEST_SECONDS)
                job = request_report(api, installation.database, account, order, now=now)
                open_before += [account.key] if job is None else []
                jobs += [] if job is None else [job]
                failures += take_failures(installation.database, account.key, now=now)
                show(done)
    document = ReportRequestDocument(
        reports=msgspec.convert(jobs, list[RequestedReport], from_attributes=True), open_before=open_before
    )
    output.table("Requested", document.reports, _COLUMNS)
    for key in open_before:
        output.say(f"{key}: a report with the same content is open; `seller-platform report list` shows it.")
    output.outcome(document, failures[0] if failures else None)
    output.say("Next: `seller-platform report list`, then `seller-platform report download NUMBER`.")


@report.command("list")
@account_option
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="The most reports to list."
)
@json_option(ReportsDocument)
def list_reports(*, chosen_accounts: tuple[str, ...], limit: int, output: Output) -> None:
    """List the requested reports with their states, the newest first."""
    with open_stored_installation() as installation, output.progress("Reading the reports", None):
        keys = [account.key for account in accounts_named(installation.database, chosen_accounts)]
        jobs = newest_jobs(installation.database, keys, limit=limit)
    listed = msgspec.convert(jobs, list[RequestedReport], from_attributes=True)
    output.document(ReportsDocument(reports=listed))
    if not jobs:
        output.say("No report was requested. Request one with `seller-platform report request`.")
        return
    output.table("Reports", listed, _COLUMNS)
    for job in jobs:
        if job.problem is not None:
            output.line(f"{job.id}: {job.problem}")


@report.command()
@click.argument("number", type=click.IntRange(1, 2**63 - 1))
@click.option(
    "--output",
    "target",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write this file instead of standard output.",
)
@_format_option(CSV, "The format to download.")
@click.option("--wait", is_flag=True, help="Wait until the upstream has completed the report.")
def download(*, number: int, target: Path | None, form: Format, wait: bool) -> None:
    """Write a completed report as the upstream sends it, to a file or to standard output.

    NUMBER is the number that `seller-platform report list` shows. Nothing is written unless the whole report came.
    """
    output = Output(as_json=False)
    with open_served_installation() as installation, open_stored_apis(installation) as apis:
        job = job_of(installation.database, number)
        account = account_of(installation.database, job.account)
        api = apis(account.connection)
        if wait and job.is_awaited:
            with output.progress(f"Waiting for {job}", None):
                job = await_report(api, installation.database, account, job, clock=utc_now)
        if job.state in LOST:
            raise ReportFailedError(str(job), job.problem or job.state.value)
        if job.is_awaited:
            raise RetryableError(
                f"{job} is not completed yet: it is {job.upstream_status or job.state.value}",
                code="ReportPendingError",
                step="Run the command again later, or with --wait.",
            )
        with tempfile.TemporaryFile() as body, output.progress(f"Downloading {job}", None):
            size = download_body(api, account.account, job.report_id or "", form, body)
            body.seek(0)
            _write(body, target)
    output.say(f"{size:,} bytes of {job}" + (f" are in {target}." if target else "."))


@report.command()
@account_option
@json_option(SyncDocument)
def load(*, chosen_accounts: tuple[str, ...], output: Output) -> None:
    """Poll the requested reports once, and load those that are ready into seller.report_rows.

    Where Dagster's daemon runs, its sensor does the same.
    """
    receipts, errors = list[Receipt](), dict[str, SellerPlatformError]()
    with open_served_installation() as installation, open_stored_apis(installation) as apis:
        database = installation.database
        chosen = accounts_named(database, chosen_accounts)
        with output.progress("Polling", None):
            poll_due(apis, database, clock=utc_now, seconds=40.0, limit=400)
        ready = [(account, job) for account in chosen for job in ready_jobs(database, account.key)]
        with output.progress("Loading reports", len(ready)) as show:
            for done, (account, job) in enumerate(ready, start=1):
                try:
                    receipt = load_report(apis(account.connection), database, account, job, clock=utc_now, run_id=None)
                    receipts += [] if receipt is None else [receipt]
                except SellerPlatformError as error:
                    errors[f"{REPORT_ROWS.table} {job}"] = error
                show(done)
        for account in chosen:
            errors |= {error.subject: error for error in take_failures(database, account.key, now=utc_now())}
        if receipts:
            report_loads(installation)
    if not ready:
        output.say("No report is ready. `seller-platform report list` shows the state of each.")
    failure = PartsFailedError(errors, "report", "loaded", any_done=bool(receipts)) if errors else None
    print_loads(output, Synced(receipts, {name: str(error) for name, error in errors.items()}), failure)


def _write(body: BinaryIO, target: Path | None) -> None:
    if target is None:
        shutil.copyfileobj(body, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        with replacing(target, 0o666) as draft, draft.open("wb") as file:
            shutil.copyfileobj(body, file)
    except OSError as error:
        raise RequestError(f"{target} cannot be written ({error.strerror}); name another file") from error
