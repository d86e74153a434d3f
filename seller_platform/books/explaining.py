"""Shows the rows of the ledger that a journal entry was summed from."""

from collections.abc import Sequence

import click

from seller_platform.books.journal_accounts import accounts_of
from seller_platform.books.journal_entries import JOURNAL_ENTRIES
from seller_platform.books.line_rows import explain_entry
from seller_platform.books.settings import BooksSettings
from seller_platform.cli.inspection.explain import ExplainDocument, ExplainedLine, show_rows
from seller_platform.cli.installation import open_stored_installation
from seller_platform.cli.output import Output
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.counts import count_of
from seller_platform.warehouse.connections.accounts import account_named


def explain_key(key: Sequence[str], account: str | None, output: Output) -> None:
    """Print the rows of the ledger that a journal entry, or a line of it, was summed from.

    Args:
        key: The number of the entry, and perhaps the line.
    """
    if len(key) > 2:
        raise click.UsageError("journal_entries takes the number of an entry, and perhaps a line of it")
    number, line = key[0], key[1] if len(key) > 1 else None
    with open_stored_installation() as installation, output.progress(f"Looking for the rows of {number}"):
        accounts = accounts_of(installation.settings.of(BooksSettings).journal_accounts)
        key_of_account = None if account is None else account_named(installation.database, account).key
        entry = explain_entry(installation.database, accounts, number, line, key_of_account)
    lines = [ExplainedLine(**{name: each[name] for name in ExplainedLine.__struct_fields__}) for each in entry.lines]
    output.document(
        ExplainDocument(
            asset=f"marts/{JOURNAL_ENTRIES.name}",
            table=JOURNAL_ENTRIES.table,
            found=len(entry.rows),
            rows=entry.origins,
            lines=lines,
            is_booked=entry.is_booked,
        )
    )
    state = "booked" if entry.is_booked else "not booked yet"
    output.table(f"{number}, {state}", lines, ("line", "account_name", "debit", "credit", "rows"))
    output.line(f"{count_of(len(entry.rows), 'row')} of the ledger; they add up to {sum(entry.amounts)}.\n")
    show_rows(TRANSACTIONS, entry.origins, len(entry.rows), installation.settings.dagster_url, output)
