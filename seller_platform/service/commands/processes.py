"""`seller-platform service run` and `worker`: the processes of the service."""

from datetime import timedelta

import click

from seller_platform.capabilities import contributed
from seller_platform.cli.installation import command_settings
from seller_platform.cli.metrics import PORT
from seller_platform.errors import RequestError
from seller_platform.service.app import ServiceOptions
from seller_platform.service.commands.options import database_options
from seller_platform.service.http.public_url import Location
from seller_platform.service.limits import limits_of
from seller_platform.service.pages.sessions import LoginOptions
from seller_platform.service.reports.worker import Pace, run_worker
from seller_platform.service.server import run_service
from seller_platform.service.settings import ServiceSettings
from seller_platform.settings import listed
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8700, show_default=True, type=PORT, help="The port to listen on; 0 takes a free one.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1), help="How many processes.")
@click.option(
    "--worker/--no-worker", "writes_reports", default=True, show_default=True, help="Whether to write reports as well."
)
@click.option("--metrics-port", type=PORT, help="Serve metrics to Prometheus on this port; 0 takes a free one.")
@click.option("--mcp", "serves_agents", is_flag=True, help="Answer agents at /mcp, from a warehouse; needs the extra.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="The address of that port.")
@database_options
def run(
    *,
    host: str,
    port: int,
    workers: int,
    writes_reports: bool,
    metrics_port: int | None,
    metrics_host: str,
    serves_agents: bool,
    url: str,
) -> None:
    """Serve the REST API over a database, until Ctrl-C.

    Without SELLER_PLATFORM_SERVICE_PUBLIC_URL it answers only requests for this machine's loopback, or for --host.
    """
    settings = command_settings().of(ServiceSettings)
    if serves_agents and not any(contributed("routes")):  # imported before processes are started: an extra may lack
        raise RequestError("this installation has no tools for agents; leave --mcp out")
    with Database(url) as database:
        migrate(database)
    options = ServiceOptions(
        Location(settings.service_public_url, host),
        limits_of(settings, host=host, processes=workers),
        Pace() if writes_reports else None,
        timedelta(days=settings.service_grant_days),
        LoginOptions(
            settings.service_contact,
            timedelta(hours=settings.service_session_hours),
            timedelta(minutes=settings.service_session_idle_minutes),
        ),
        listed(settings.service_private_client_hosts),
        serves_agents,
    )
    run_service(
        url,
        options,
        host=host,
        port=port,
        connections=settings.service_connections,
        trusted_proxies=listed(settings.service_trusted_proxies),
        workers=workers,
        metrics=None if metrics_port is None else (metrics_host, metrics_port),
        log_format=settings.log_format,
    )


@click.command()
@database_options
def worker(*, url: str) -> None:
    """Write requested reports, until Ctrl-C; several workers share the queue."""
    with Database(url) as database:
        migrate(database)
    settings = command_settings().of(ServiceSettings)
    run_worker(url, limits_of(settings), settings.log_format)
