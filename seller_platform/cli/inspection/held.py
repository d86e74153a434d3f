"""`seller-platform held` and `accept`: readings that were not published, and publishing one."""

from datetime import UTC, date, datetime

import click

from seller_platform.cli.installation import open_served_installation, open_stored_installation, report_loads
from seller_platform.cli.output import Document, Moment, Output, json_option, moment_text, with_title
from seller_platform.counts import count_of
from seller_platform.warehouse.connections.accounts import account_titles
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.slices import Receipt, doubt_of, held_since, slice_of


class HeldReading(Document, frozen=True):
    """A reading that was not published.

    Attributes:
        load_id: As `accept` takes it.
        rows_stored: The stored rows of these days.
        rows_read: The rows that were read.
        held_since: When the first reading that says the same was held.
    """

    load_id: int
    dataset: str
    account: str
    first_day: date
    last_day: date
    reason: str
    rows_stored: int
    rows_read: int
    held_since: Moment


class HeldDocument(Document, frozen=True):
    """All readings that are held."""

    held: list[HeldReading]


class AcceptDocument(Document, frozen=True):
    """The load that has published a held reading."""

    accepted_load_id: int
    load: Receipt


@click.command()
@json_option(HeldDocument)
def held(*, output: Output) -> None:
    """List the readings that were not published, because they contradict the stored rows.

    Publish one with `seller-platform accept LOAD`. Each refresh reads these slices again.
    """
    readings = []
    with open_stored_installation() as installation, output.progress("Looking for held readings"):
        for receipt in open_holds(installation.database):
            doubt = doubt_of(receipt)
            with installation.database.begin() as connection:
                since = held_since(connection, receipt)
            reading = HeldReading(
                load_id=receipt.id,
                dataset=receipt.dataset,
                account=receipt.account,
                first_day=receipt.first_day,
                last_day=receipt.last_day,
                reason=doubt.reason,
                rows_stored=doubt.rows_stored,
                rows_read=doubt.rows_read,
                held_since=since,
            )
            readings.append(reading)
        titles = account_titles(installation.database)
    output.document(HeldDocument(held=readings))
    if not readings:
        output.say("No reading is held.")
        return
    for each in readings:
        output.line(
            f"load {each.load_id}: {each.dataset} of {with_title(each.account, titles)}, "
            f"{each.first_day}..{each.last_day}"
        )
        output.line(f"  {each.reason}")
        began = moment_text(each.held_since)
        output.line(f"  rows stored {each.rows_stored}, read {each.rows_read}; held since {began}")
    output.say("Publish one with `seller-platform accept LOAD`: it is read again, and published if it says the same.")


@click.command()
@click.argument("load", type=click.IntRange(1, 2**63 - 1))
@json_option(AcceptDocument)
def accept(*, load: int, output: Output) -> None:
    """Publish the held reading of LOAD: it is read again, and published if it still says the same.

    What it replaces is kept in schema history; except for lists of accounts, `seller-platform revert` brings it back.
    """
    # Imported here because `held` and `diff`, which only read, need neither.
    from seller_platform.cli.connect import open_stored_apis
    from seller_platform.cli.costs import user_name
    from seller_platform.ingest.loads.acceptance import accept_load
    from seller_platform.ingest.loads.loading import SliceLoader

    with open_served_installation() as installation, open_stored_apis(installation) as api:
        adaptive = installation.settings.lookback == "adaptive"
        loader = SliceLoader(installation.database, api, datetime.now(UTC), adaptive=adaptive)
        receipt = accept_load(loader, load, by=user_name())
        report_loads(installation)
    output.result(
        f"{slice_of(receipt)}: {count_of(receipt.rows, 'row', 'is')} published by load {receipt.id}.",
        AcceptDocument(accepted_load_id=load, load=receipt),
    )
