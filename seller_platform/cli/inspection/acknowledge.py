"""`seller-platform acknowledge`: notes that a person knows a problem."""

from datetime import date

import click

from seller_platform.cli.installation import open_stored_installation
from seller_platform.cli.output import Document, Output, json_option
from seller_platform.cli.terminal.months import Month
from seller_platform.counts import count_of
from seller_platform.warehouse.monitoring.problems import Acknowledged
from seller_platform.warehouse.monitoring.problems import acknowledge as acknowledge_problems


class AcknowledgeDocument(Document, frozen=True):
    """What is acknowledged.

    Attributes:
        until: The last day; null until the problem ends or gets worse.
    """

    kind: str
    until: date | None
    acknowledged: tuple[Acknowledged, ...]


@click.command()
@click.argument("kind")
@click.argument("dataset", required=False)
@click.argument("account", required=False)
@click.option("--month", type=Month(), help="Only this month.")
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), metavar="DAY", help="The last day; by default it has none.")
@click.option("--note", metavar="TEXT", help="Why it is no problem.")
@json_option(AcknowledgeDocument)
def acknowledge(
    *,
    kind: str,
    dataset: str | None,
    account: str | None,
    month: date | None,
    until: date | None,
    note: str | None,
    output: Output,
) -> None:
    """Store that a person knows the problems of KIND, of all datasets and accounts or of one.

    KIND is the word that `status` begins a line with. What is acknowledged is shown as such; it neither sends an alert
    nor ends a command with an exit code. That ends with the problem, at the day, or when it gets worse: more rows, more
    money, or another sentence. Acknowledge it again to change the day.
    """
    day = date(until.year, until.month, until.day) if until else None
    with open_stored_installation() as installation:
        known = acknowledge_problems(
            installation.database, kind, dataset=dataset, account=account, month=month, until=day, note=note
        )
    output.result(
        f"{count_of(len(known), 'problem', 'is')} acknowledged{f' until {day}' if day else ''}.",
        AcknowledgeDocument(kind=kind, until=day, acknowledged=known),
    )
