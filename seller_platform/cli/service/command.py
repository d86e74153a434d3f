"""`seller-platform service`: runs the REST API, and manages its users, groups and applications."""

from datetime import timedelta

import click

from seller_platform.cli.output import Output
from seller_platform.cli.processes import PORT
from seller_platform.cli.service.applications import application
from seller_platform.cli.service.csv_loads import products, rates
from seller_platform.cli.service.doctor import doctor
from seller_platform.cli.service.events import events
from seller_platform.cli.service.options import database_options, open_service, result_options, say
from seller_platform.cli.service.users import user
from seller_platform.service.http.connections import ConnectionLimits
from seller_platform.service.limits.policy import limits_of, report_limits_of
from seller_platform.service.server import MetricsAddress, run_report_worker, run_service
from seller_platform.service.users.groups import groups_of, remove_group, set_group
from seller_platform.service.users.store import account_keys_named
from seller_platform.settings import listed, read_settings
from seller_platform.warehouse.postgres.database import Database


@click.group()
def service() -> None:
    """Run the REST API, and manage its users, groups and applications."""


service.add_command(application)
service.add_command(rates)
service.add_command(products)
service.add_command(doctor)
service.add_command(user)
service.add_command(events)


@service.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8700, show_default=True, type=PORT, help="The port to listen on; 0 takes a free one.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1), help="How many processes.")
@click.option(
    "--worker/--no-worker", "writes_reports", default=True, show_default=True, help="Whether to write reports as well."
)
@click.option("--metrics-port", type=PORT, help="Serve metrics to Prometheus on this port; 0 takes a free one.")
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
    url: str,
) -> None:
    """Serve the REST API over a database, until Ctrl-C.

    Without SELLER_PLATFORM_SERVICE_PUBLIC_URL it answers only requests for this machine's loopback, or for --host.
    """
    settings = read_settings()
    with Database(url) as database:
        database.migrate()
    metrics = MetricsAddress(metrics_host, metrics_port) if metrics_port is not None else None
    connection_limits = ConnectionLimits(
        connections=settings.service_connections,
        of_one_address=settings.service_connections_of_one_address,
        trusted_proxies=listed(settings.service_trusted_proxies),
    )
    run_service(
        url,
        host=host,
        port=port,
        public_url=settings.service_public_url,
        connection_limits=connection_limits,
        workers=workers,
        writes_reports=writes_reports,
        metrics=metrics,
        limits=limits_of(settings, host=host, has_public_url=settings.service_public_url is not None),
        log_format=settings.log_format,
        grant_lifetime=timedelta(days=settings.service_grant_days),
    )


@service.command()
@database_options
def worker(*, url: str) -> None:
    """Write requested reports, until Ctrl-C; several workers share the queue."""
    with Database(url) as database:
        database.migrate()
    settings = read_settings()
    run_report_worker(url, limits=report_limits_of(settings), log_format=settings.log_format)


@service.group()
def group() -> None:
    """Manage groups of a user's accounts, which `group_title` selects."""


@group.command("set")
@click.argument("email")
@click.argument("title")
@click.argument("accounts", nargs=-1, required=True, metavar="ACCOUNT...")
@result_options
def group_set(*, email: str, title: str, accounts: tuple[str, ...], url: str, output: Output) -> None:
    """Set the accounts of a user's group, and create the group if needed."""
    with open_service(url) as database:
        keys = account_keys_named(database, accounts)
        set_group(database, email, title, keys)
    document = {"email": email, "title": title, "accounts": keys}
    say(output, f"The group {title} of {email} holds {', '.join(keys)}.", document)


@group.command("list")
@click.argument("email")
@result_options
def group_list(*, email: str, url: str, output: Output) -> None:
    """List the groups of a user."""
    with open_service(url) as database:
        groups = groups_of(database, email)
    output.document({"groups": [{"title": title, "accounts": keys} for title, keys in groups.items()]})
    rows = [(title, ", ".join(keys) or "no account") for title, keys in groups.items()]
    output.table(f"Groups of {email}", ("title", "accounts"), rows)


@group.command("remove")
@click.argument("email")
@click.argument("title")
@result_options
def group_remove(*, email: str, title: str, url: str, output: Output) -> None:
    """Remove a group; its accounts stay the user's."""
    with open_service(url) as database:
        remove_group(database, email, title)
    say(output, f"The group {title} of {email} is removed.", {"email": email, "title": title})
