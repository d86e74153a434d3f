"""`seller-platform month`: closes months of accounts, and writes what was booked for programs of accounting."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import click

from seller_platform.books.chart_of_accounts import chart_of
from seller_platform.books.closing import Closing, close_month
from seller_platform.books.import_files import PROGRAMS, import_files
from seller_platform.books.journal_accounts import accounts_of
from seller_platform.books.months import BookMonth, book_months
from seller_platform.books.settings import BooksSettings
from seller_platform.cli.installation import Installation, open_stored_installation, user_name
from seller_platform.cli.output import Document, Outcome, Output, json_option
from seller_platform.cli.sync import account_option
from seller_platform.cli.terminal.months import Month
from seller_platform.contract import Window
from seller_platform.counts import count_of
from seller_platform.errors import PartsFailedError, SellerPlatformError, WarehouseUnavailableError
from seller_platform.files import make_folders, write_atomically
from seller_platform.marts.commands import report_to_dagster
from seller_platform.warehouse.connections.accounts import KnownAccount, account_named, accounts
from seller_platform.warehouse.derived.builds import Build

_COLUMNS = (
    *("account", "month", "entries", "adjusting_entries", "ledger_begins", "opening_balance", "opening_change"),
    *("paid_out", "balance", "closed_by"),
)


class CloseDocument(Outcome, frozen=True):
    """What was closed.

    Attributes:
        failures: Messages by account.
    """

    months: list[Closing]
    failures: dict[str, str]


class FilesDocument(Document, frozen=True):
    """The files of a month: how many lines of journal entries each has, by its path."""

    files: dict[str, int]


class MonthsDocument(Document, frozen=True):
    """The months of the books, by account and month."""

    months: list[BookMonth]


@click.group()
def month() -> None:
    """Close months, and write their journal entries for QuickBooks and Xero."""


@month.command()
@click.argument("month", type=Month())
@click.option("--unsettled", is_flag=True, help="Close it although days of it may still change.")
@account_option
@json_option(CloseDocument)
def close(*, month: date, unsettled: bool, chosen_accounts: tuple[str, ...], output: Output) -> None:
    """Close MONTH, such as 2026-03: what marts.journal_entries has of it is booked, and never changes.

    Without --account, the month of every account is closed. What changes later is an adjusting entry of the open month.
    It is not closed while days of it may still change; they are named with their money. Closing twice is closing once.
    """
    closings, builds, failures = list[Closing](), list[Build](), dict[str, SellerPlatformError]()
    with open_stored_installation() as installation:
        settings, chosen = installation.settings, _chosen(installation, chosen_accounts)
        books = accounts_of(settings.of(BooksSettings).journal_accounts)
        chart = chart_of(settings.of(BooksSettings).chart_of_accounts)
        with output.progress("Closing", len(chosen)) as show:
            for account in chosen:
                try:
                    closing, built = close_month(
                        installation.database,
                        account,
                        Window.month_of(month),
                        books,
                        closed_by=user_name(),
                        chart=chart,
                        adaptive=settings.is_adaptive,
                        unsettled=unsettled,
                    )
                    closings.append(closing)
                    builds += built
                except WarehouseUnavailableError:
                    raise
                except SellerPlatformError as error:
                    failures[account.key] = error
                show(len(closings) + len(failures))
        if builds:
            report_to_dagster(installation, builds)
    document = CloseDocument(months=closings, failures={key: str(error) for key, error in failures.items()})
    for result in ("closed", "closed before"):
        if months := [each.closed for each in closings if each.result == result]:
            output.table(result.capitalize(), months, _COLUMNS)
    for each in closings:
        if each.unsettled:
            output.say(f"{each.closed.account}: days that may still change are booked, {each.unsettled}.")
    failed = PartsFailedError(failures, "month", "closed", any_done=bool(closings))
    output.outcome(document, failed if len(failures) > 1 else next(iter(failures.values()), None))


@month.command("list")
@account_option
@json_option(MonthsDocument)
def list_(*, chosen_accounts: tuple[str, ...], output: Output) -> None:
    """List the months from the first closed one on, with what was paid out and what the marketplace owes.

    What is owed (the balance) follows from the whole stored ledger. The opening balance of the month that is closed
    first is to be booked before. Without a closed month, the list begins with the newest month that is over. The next
    payout is expected as many days after the last one as usually lie between two.
    """
    with open_stored_installation() as installation:
        keys = [each.key for each in _chosen(installation, chosen_accounts)] if chosen_accounts else None
        books = accounts_of(installation.settings.of(BooksSettings).journal_accounts)
        with installation.database.begin() as connection:
            months = book_months(connection, books, keys)
    output.document(MonthsDocument(months=months))
    output.table("Months", months, _COLUMNS)
    for each in months:
        for currency, payout in each.next_payout.items():
            output.line(
                f"{each.account}: by the ledger since {each.ledger_begins}, {payout.amount} {currency} is owed now; "
                f"the next payout is expected on {payout.day}."
            )
    if not any(each.closed_at for each in months):
        output.say("No month is closed. Close one with `seller-platform month close MONTH`.")


@month.command()
@click.argument("month", type=Month())
@click.option(
    "--for",
    "program",
    required=True,
    type=click.Choice(list(PROGRAMS)),
    help="The program that imports the files: QuickBooks Online or Xero.",
)
@click.option("--day-first", is_flag=True, help="Write days for QuickBooks as DD/MM/YYYY, as most regions read them.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where to write them; by default the present folder.",
)
@account_option
@json_option(FilesDocument)
def export(
    *, month: date, program: str, day_first: bool, folder: Path, chosen_accounts: tuple[str, ...], output: Output
) -> None:
    """Write the journal entries of MONTH, which is closed, as CSV files for a program of accounting.

    A file for QuickBooks has at most 1,000 rows, and one for Xero 300 and a single currency; further files are
    numbered, and none divides an entry. Days for QuickBooks are MM/DD/YYYY, as companies in the US read them; an option
    writes DD/MM/YYYY for others. With --account, each account has files of its own, whose names have its key.
    """
    with open_stored_installation() as installation:
        chart = chart_of(installation.settings.of(BooksSettings).chart_of_accounts)
        accounts_of_files = _chosen(installation, chosen_accounts)
        named = [(each.key, [each]) for each in accounts_of_files] if chosen_accounts else [("", accounts_of_files)]
        files = [
            file
            for name, of_name in named
            for file in import_files(
                installation.database,
                of_name,
                Window.month_of(month),
                program,
                name=name,
                day_first=day_first,
                chart=chart,
            )
        ]
    make_folders(folder, 0o777)
    for file in files:
        write_atomically(folder / file.name, file.text.encode(), 0o666)
    written = {str(folder / file.name): file.lines for file in files}
    output.document(FilesDocument(files=written))
    for path, lines in written.items():
        output.line(f"{path}: {count_of(lines, 'line')}")
    if not written:
        output.say("No line was booked in the month, so no file was written.")


def _chosen(installation: Installation, names: Sequence[str]) -> Sequence[KnownAccount]:
    """Return the accounts of these keys or titles, retired ones too; without names, every listed account."""
    database = installation.database
    return [account_named(database, name) for name in dict.fromkeys(names)] if names else accounts(database)
