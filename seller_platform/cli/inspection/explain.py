"""`seller-platform explain`: the request, page, time and run of a stored row."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

import click

from seller_platform.capabilities import capabilities, referred
from seller_platform.cli.installation import open_stored_installation
from seller_platform.cli.output import Document, Output, json_option, moment_text, printable
from seller_platform.contract import DATASETS, Dataset, dataset_named
from seller_platform.counts import count_of
from seller_platform.errors import unknown_dataset
from seller_platform.warehouse.connections.accounts import account_named
from seller_platform.warehouse.history.changes import repairs_of
from seller_platform.warehouse.history.provenance import Provenance, conditions_of
from seller_platform.warehouse.history.provenance import explain as find_origins

_NO_URL = " of the Dagster UI (SELLER_PLATFORM_DAGSTER_URL is not set)"
_LOADS = ("id", "finished_at", "first_day", "last_day", "rows", "verdict", "restatement")


class ExplainedLine(Document, frozen=True):
    """A line of a journal entry.

    Attributes:
        rows: How many rows of the ledger it was summed from.
    """

    number: str
    line: str
    account_name: str
    currency: str
    debit: Decimal
    credit: Decimal
    rows: int


class ExplainDocument(Document, frozen=True):
    """Where stored rows came from.

    Attributes:
        found: How many rows have the key; the first ones are explained.
        lines: The lines of a journal entry that was asked for; else none.
        is_booked: Whether the month of the entry is closed; null without an entry.
    """

    asset: str
    table: str
    found: int
    rows: tuple[Provenance, ...]
    lines: list[ExplainedLine]
    is_booked: bool | None


@click.command()
@click.argument("dataset")
@click.argument("key", nargs=-1, required=True)
@click.option("--account", metavar="NAME", help="Of one account only, by its key or title.")
@json_option(ExplainDocument)
def explain(*, dataset: str, key: tuple[str, ...], account: str | None, output: Output) -> None:
    """Show the source of a stored row: request, page, time, run and restatements.

    KEY is the row's key, such as the id of an order, followed by the values of further key columns. Write the value of
    another column as column=value. The newest snapshot is searched, unless local_day=DAY names another. Name
    the account where tables are large: without it, the rows of all accounts are searched.

    Of marts.journal_entries, KEY is the number of an entry and, if wanted, a line. It shows the rows of the ledger
    that were summed, also those that are gone since.

    \b
    seller-platform explain orders 028-1234567-1234567 --account us-1042
    seller-platform explain transactions order_id=028-1234567-1234567
    seller-platform explain inventory SKU-1 local_day=2026-03-01 --account us-1042
    seller-platform explain journal_entries 1042-260304PUSD selling_fees
    """  # noqa: D301  # click reads the backspace, which keeps the lines of a paragraph apart
    computed = dataset.removeprefix("marts/").removeprefix("marts.")
    for each in capabilities():
        if computed in each.explains:
            referred(each.explains[computed])(key, account, output)
            return
    declared = declared_dataset(dataset)
    conditions = conditions_of(declared, key)
    with open_stored_installation() as installation, output.progress(f"Looking for the row in {declared.table}"):
        key_of_account = None if account is None else account_named(installation.database, account).key
        count, origins = find_origins(installation.database, declared, conditions, account=key_of_account)
    asset = f"seller/{declared.name}"
    output.document(
        ExplainDocument(asset=asset, table=declared.table, found=count, rows=origins, lines=[], is_booked=None)
    )
    show_rows(declared, origins, count, installation.settings.dagster_url, output)


def show_rows(
    declared: Dataset, origins: Sequence[Provenance], count: int, dagster_url: str | None, output: Output
) -> None:
    """Print the first of so many rows, with the loads of each."""
    for number, row in enumerate(origins, start=1):
        extra = {f"{name} (not in the contract)": value for name, value in (row.extra or {}).items()}
        part = {"account": row.account, "local_day": row.local_day, "connection": row.connection}
        slice_facts = {name: value for name, value in part.items() if value is not None}
        gone = {} if row.gone_load_id is None else {"gone": f"no longer listed by load {row.gone_load_id}"}
        _list(output, f"{declared.table}, row {number} of {count}", {**slice_facts, **gone, **row.row, **extra})
        _list(output, "It came from", _origin(row, dagster_url))
        for load in row.history:
            for repair in repairs_of(load.id, load.finished_at, load.notes):
                output.line(f"{repair}\n")
        if row.former_versions:
            output.table("Its former versions", row.former_versions, ("load_id", "gone_load_id", "differed"))
        output.table("Every load of its day", row.history, _LOADS)
    if count > len(origins):
        output.say(f"{count_of(count - len(origins), 'more row', 'matches')}; give more of the key.")


def declared_dataset(name: str) -> Dataset:
    """Return the dataset of a name, also written as its table or its asset; any other name is refused.

    Raises:
        RequestError: There is none.
    """
    names = [declared.name for declared in DATASETS]
    bare = name.removeprefix("seller/").removeprefix("seller.")
    if bare not in names:
        raise unknown_dataset(bare, names)
    return dataset_named(bare)


def _list(output: Output, title: str, facts: Mapping[str, object]) -> None:
    """Print facts in full, one a line; a table would cut them off."""
    width = max(map(len, facts))
    output.line(title)
    for name, value in facts.items():
        text = "–" if value is None else str(value)
        output.line(f"  {name:<{width}}  {printable(text)}")
    output.line("")


def _origin(row: Provenance, dagster_url: str | None) -> dict[str, object]:
    load, request = row.load, row.request
    if load is None or request is None:
        return {"load": f"{row.load_id}, whose receipt was pruned", "page": f"{row.page} of the load"}
    about = "" if request.is_exact else " (asks for the days of the rows on that page: the list was read in parts)"
    confirmed = row.confirmed_load_ids
    counts = f"{count_of(load.rows, 'row')}, {count_of(load.requests, 'request')}"
    first = [f" at {moment_text(each.finished_at)}" for each in row.history if each.id == row.first_load_id]
    return {
        "request": f"GET {request.url}{about}",
        "page": f"{row.page} of the {load.pages} that the load read of all its lists",
        "load": f"{load.id}: {load.first_day}..{load.last_day}, {load.verdict}, {counts}",
        "finished": moment_text(load.finished_at),
        "run": load.run_id or "none: no Dagster run made it",
        "open the run": load.run_id and f"{dagster_url or ''}/runs/{load.run_id}{'' if dagster_url else _NO_URL}",
        "first came": "with this load"
        if row.first_load_id == row.load_id
        else f"in another version, with load {row.first_load_id}{''.join(first)}",
        "last confirmed": f"{moment_text(row.confirmed_at)}, by load {confirmed[-1]}"
        if row.confirmed_at
        else "by this load",
    }
