"""`seller-platform sandbox live`: advances the sandbox day by day, until Ctrl-C."""

import time
from datetime import datetime, timedelta

import click

from seller_platform.cli.output import Output
from seller_platform.clocks import utc_now
from seller_platform.counts import count_of
from seller_platform.errors import RequestError
from seller_platform.sandbox.commands.fill import fill_options, open_sandbox
from seller_platform.sandbox.load import load_sandbox

DAYS_AGO = 60
"""How many days ago a live sandbox begins."""

_DAY = click.DateTime(["%Y-%m-%d"])


@click.command()
@click.option(
    "--days-per-second",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0, 1000, min_open=True),
    help="How many days it advances in a second until today is reached; then a day lasts a day.",
)
@click.option("--from", "since", type=_DAY, help=f"The day on which it begins; by default {DAYS_AGO} days ago.")
@click.option("--until", type=_DAY, help="End when this day is reached; by default, go on until Ctrl-C.")
@click.option("--continue", "continues", is_flag=True, help="Go on where it ended; give all other options again.")
@fill_options
def live(
    *,
    days_per_second: float,
    since: datetime | None,
    until: datetime | None,
    continues: bool,
    database_url: str | None,
    **sellers: int,
) -> None:
    """Generate sellers as of a day in the past, and advance them day by day.

    Orders are placed, shipped, cancelled and refunded, fees are listed late, and fees of a closed month are restated.
    Each day is a line of the output. When today is reached, orders are listed within a minute after they are placed,
    and the next day begins when it does in the zone of each account.
    """
    # Here, because numpy costs every command a tenth of a second.
    from seller_platform.sandbox.live import LiveOptions, LiveSandbox

    output, today = Output(as_json=False), utc_now().date()
    first = since.date() if since else today - timedelta(days=DAYS_AGO)
    last = until.date() if until else None
    if first > today:
        raise RequestError(f"--from is {first}, after today, {today}. Name today or a day before")
    if last is not None and last < first:
        raise RequestError(f"--until is {last}, before the first day, {first}. Name a later day")
    options = LiveOptions(first, **sellers)
    with open_sandbox(database_url) as database:
        if not continues:
            with output.progress("Generating sellers", None) as show:
                load_sandbox(database, **sellers, today=first, progress=show)
            accounts, months = count_of(sellers["accounts"], "account"), count_of(sellers["months"], "month")
            output.line(f"{first}  {accounts} with {months} of sales")
        lasts = 1 / days_per_second
        began = time.monotonic()
        for step in LiveSandbox(database, options).steps(utc_now, until=last):
            if step is not None:
                output.line(str(step))
                time.sleep(max(0.0, began + lasts - time.monotonic()))
                began = time.monotonic()
            else:
                time.sleep(1.0)
