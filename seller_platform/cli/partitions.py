"""Partitions of marts and exports, as commands choose them and print what became of them."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from typing import Literal

import click
import msgspec

from seller_platform.cli.installation import Installation
from seller_platform.cli.output import Document, MonthText, Output
from seller_platform.cli.sync import SliceOptions, account_option, selecting
from seller_platform.cli.terminal.months import Month
from seller_platform.clocks import utc_now
from seller_platform.contract import Window
from seller_platform.errors import NotConnectedError
from seller_platform.warehouse.connections.accounts import accounts_named, connections
from seller_platform.warehouse.loads.history_start import history_start_in, months_of_history


class PartitionOutcome(Document, frozen=True):
    """What became of a partition of a table.

    Attributes:
        account: Null where the table is of all accounts.
        month: Null where a partition is all of an account.
        rows: Null where it was not written.
        reason: Why it was not written; null where it was.
    """

    table: str
    account: str | None
    month: MonthText | None
    result: Literal["built", "exported", "failed", "skipped"]
    rows: int | None
    reason: str | None


class _AlikePartitions(msgspec.Struct, frozen=True):
    """The partitions of an account that have the same result, as a record of a table."""

    table: str
    account: str
    months: str
    rows: int | None
    result: str


partition_options = selecting(
    account_option,
    click.option("--month", type=Month(), help="Only this month."),
    click.option("--from", "first_month", type=Month(), help="First month; by default the first of history."),
    click.option("--to", "last_month", type=Month(), help="Last month; by default the current one."),
)


def chosen_partitions(installation: Installation, selection: SliceOptions) -> tuple[list[str], list[Window]]:
    """Return the keys of the accounts that the options choose, and the months of history that have begun for any.

    Raises:
        NotConnectedError: No connection is authorised yet.
        RequestError: There are no such accounts or months, or some are earlier than history may begin.
    """
    database = installation.database
    if not connections(database):
        raise NotConnectedError
    accounts, now = accounts_named(database, selection.accounts), utc_now()
    newest = max((now.astimezone(each.zone_or_utc).date() for each in accounts), default=now.date())
    since = history_start_in(database, installation.settings)
    months = months_of_history(selection.first_month, selection.last_month, since)
    return [each.key for each in accounts], [each for each in months if each.end > since and each.start <= newest]


def partition_name(table: str, account: str | None, month: Window | None) -> str:
    """Return a partition as sentences name it."""
    return " of ".join(filter(None, (table, account))) + (f", {month.start:%Y-%m}" if month else "")


def show_partitions(output: Output, title: str, partitions: Iterable[PartitionOutcome]) -> None:
    """Print what became of partitions; those of an account with the same result stand in one row."""
    groups: dict[tuple[str, str, str], list[PartitionOutcome]] = defaultdict(list)
    for each in partitions:
        result = each.reason if each.result == "skipped" and each.reason else each.result
        groups[each.table, each.account or "", result].append(each)
    records = [
        _AlikePartitions(
            table=table,
            account=account,
            months=months_of(each.month for each in alike),
            rows=None if alike[0].rows is None else sum(each.rows or 0 for each in alike),
            result=result,
        )
        for (table, account, result), alike in groups.items()
    ]
    output.table(title, records, ("account", "months", "rows", "result"), lambda each: each.table)


def months_of(months: Iterable[str | None]) -> str:
    """Return months as `2026-01 .. 2026-03, 2026-05`."""
    spans: list[list[date]] = []
    for month in sorted(date.fromisoformat(f"{month}-01") for month in months if month is not None):
        if spans and Window.month_of(spans[-1][-1]).end == month:
            spans[-1].append(month)
        else:
            spans.append([month])
    return ", ".join(" .. ".join(f"{month:%Y-%m}" for month in sorted({span[0], span[-1]})) for span in spans)
