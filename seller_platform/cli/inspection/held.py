"""`seller-platform held` and `accept`: readings that were not published, and publishing one."""

from datetime import UTC, datetime

import click

from seller_platform.cli.installation import open_served_installation, open_stored_installation, report_loads
from seller_platform.cli.output import Document, Moment, Output, json_option, moment_text, with_title
from seller_platform.counts import count_of
from seller_platform.warehouse.connections.accounts import account_titles
from seller_platform.warehouse.loads.judgement import held_since
from seller_platform.warehouse.loads.receipts import Receipt, doubt_of, open_holds, slice_of


class HeldReading(Document, frozen=True):
    """A reading that was not published.

    Attributes:
        load: Its receipt. The number is what `accept` takes; the note `held` says why.
        held_since: When the first reading that says the same was held.
    """

    load: Receipt
    held_since: Moment


class HeldDocument(Document, frozen=True):
    """All readings that are held."""

    held: list[HeldReading]


@click.command()
@json_option(HeldDocument)
def held(*, output: Output) -> None:
    """List the readings that were not published, because they contradict the stored rows.

    Publish one with `seller-platform accept LOAD`. Each refresh reads these slices again.
    """
    with open_stored_installation() as installation, output.progress("Looking for held readings"):
        with installation.database.begin() as connection:
            holds = open_holds(installation.database)
            readings = [HeldReading(load=each, held_since=held_since(connection, each)) for each in holds]
        titles = account_titles(installation.database)
    output.document(HeldDocument(held=readings))
    if not readings:
        output.say("No reading is held.")
        return
    for each in readings:
        load, doubt = each.load, doubt_of(each.load)
        account = with_title(load.account, titles)
        output.line(f"load {load.id}: {load.dataset} of {account}, {load.first_day}..{load.last_day}")
        output.line(f"  {doubt.reason}")
        began = moment_text(each.held_since)
        output.line(f"  rows stored {doubt.rows_stored}, read {doubt.rows_read}; held since {began}")
    output.say("Publish one with `seller-platform accept LOAD`: it is read again, and published if it says the same.")


@click.command()
@click.argument("load", type=click.IntRange(1, 2**63 - 1))
@json_option(Receipt)
def accept(*, load: int, output: Output) -> None:
    """Publish the held reading of LOAD: it is read again, and published if it still says the same.

    What it replaces is kept in schema history; except for lists of accounts, `seller-platform revert` brings it back.
    """
    # Imported here because `held` and `diff`, which only read, need neither.
    from seller_platform.cli.connect import open_stored_apis
    from seller_platform.cli.installation import user_name
    from seller_platform.ingest.loads.acceptance import accept_load
    from seller_platform.ingest.loads.loading import SliceLoader

    with open_served_installation() as installation, open_stored_apis(installation) as api:
        adaptive = installation.settings.is_adaptive
        loader = SliceLoader(installation.database, api, datetime.now(UTC), adaptive=adaptive)
        receipt = accept_load(loader, load, by=user_name())
        report_loads(installation)
    text = f"{slice_of(receipt)}: {count_of(receipt.rows, 'row', 'is')} published by load {receipt.id}."
    output.result(text, receipt)
