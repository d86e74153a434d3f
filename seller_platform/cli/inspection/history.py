"""`seller-platform diff` and `revert`: what changed in the stored rows, and undoing a load."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import click
import msgspec

from seller_platform.capabilities import contributed
from seller_platform.cli.inspection.explain import declared_dataset
from seller_platform.cli.installation import open_stored_installation, report_loads
from seller_platform.cli.output import Document, Output, json_option, moment_text, printable, with_title
from seller_platform.cli.terminal.months import Month, Since
from seller_platform.contract import Slicing, Window
from seller_platform.counts import count_of
from seller_platform.errors import RequestError
from seller_platform.warehouse.connections.accounts import account_named, account_titles
from seller_platform.warehouse.history.changes import Changes, changes_since, sums_of
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.loads.slices import revert as undo

_ROWS_AT_MOST = 20


class SumsOfChanges(Document, frozen=True):
    """Rows, or the sum of an amount, by kind of change.

    Attributes:
        name: `rows`, or the amount with its currency.
    """

    name: str
    came: str
    went: str
    changed_from: str
    changed_to: str


class DiffDocument(Changes, frozen=True):
    """How the stored rows differ from those of a moment."""

    dataset: str
    account: str
    sums: list[SumsOfChanges]


@click.command()
@click.argument("dataset")
@click.argument("account")
@click.argument("month", required=False, type=Month())
@click.option(
    "--since",
    type=Since(),
    help="Compare with this moment. By default, show what the newest load changed on days that were read before.",
)
@json_option(DiffDocument)
def diff(*, dataset: str, account: str, month: date | None, since: datetime | None, output: Output) -> None:
    """Show the rows that came, went and changed, with sums.

    ACCOUNT is the key or the title of an account.

    \b
    seller-platform diff orders us-1042
    seller-platform diff orders us-1042 2026-03 --since 2026-04-01
    """  # noqa: D301  # click reads the backspace, which keeps the lines of a paragraph apart
    declared = declared_dataset(dataset)
    if declared.slicing is Slicing.CONNECTION:
        raise RequestError(f"{declared.name} has no rows by account; query history.{declared.name}_as_of(moment)")
    if month is not None and not declared.is_dated:
        raise RequestError(f"{declared.name} has no months; leave {month:%Y-%m} out")
    window = None if month is None else Window.month_of(month)
    with open_stored_installation() as installation, output.progress(f"Comparing the rows of {declared.table}"):
        account = account_named(installation.database, account).key
        changes = changes_since(installation.database, declared, account, window, since=since)
        titles = account_titles(installation.database)
    by_kind = {
        "came": sums_of(declared, changes.came),
        "went": sums_of(declared, changes.went),
        "changed_from": sums_of(declared, (row.before for row in changes.changed)),
        "changed_to": sums_of(declared, (row.after for row in changes.changed)),
    }
    names = dict.fromkeys(["rows", *(name for each in by_kind.values() for name in each)])
    sums = [
        SumsOfChanges(name=name, **{kind: str(each.get(name, 0)) for kind, each in by_kind.items()}) for name in names
    ]
    facts = msgspec.structs.asdict(changes)
    output.document(DiffDocument(dataset=declared.name, account=account, sums=sums, **facts))
    began = f"since {moment_text(changes.since)}" if changes.since else "with the first load"
    loads = ", ".join(map(str, changes.load_ids)) or "none"
    output.table(
        f"{declared.table} of {with_title(account, titles)}, {began}",
        sums,
        ("name", "came", "went", "changed_from", "changed_to"),
    )
    output.line(f"Loads that changed rows: {loads}")
    for repair in changes.repairs:
        output.line(f"  {repair}")
    if not changes.load_ids and since is None:
        output.line("Every row is as it was when its day was first read; --since an earlier moment shows what came.")
    _list(output, "+", changes.came)
    _list(output, "-", changes.went)
    for row in changes.changed[:_ROWS_AT_MOST]:
        key, before = ", ".join(str(row.after[name]) for name in declared.key), row.before
        others = ((name, value) for name, value in row.after.items() if before[name] != value)
        values = "; ".join(f"{name} {before[name]} -> {value}" for name, value in others)
        output.line(printable(f"~ {key}: {values}"))
    if max(len(changes.came), len(changes.went), len(changes.changed)) > _ROWS_AT_MOST:
        output.say(f"The first {_ROWS_AT_MOST} rows of each kind are shown; --json has all of them.")


@click.command()
@click.argument("load", type=click.IntRange(1, 2**63 - 1))
@json_option(Receipt)
def revert(*, load: int, output: Output) -> None:
    """Make the window of LOAD what it was before that load.

    Later loads of the window are undone with it. Nothing is lost: what goes is kept in schema history, and the revert
    can be reverted. The next refresh reads the days again if they may still change.
    """
    with open_stored_installation() as installation:
        receipt = undo(installation.database, load)
        for follow in contributed("after_loads"):
            follow(installation.database, [receipt])
        report_loads(installation)
    changes = "; ".join(
        f"{name} {each['before']} -> {each['after']}" for name, each in (receipt.restatement or {}).items()
    )
    output.result(
        f"{receipt.dataset} of {receipt.account}, {receipt.window}, is what it was before load {load}: "
        f"{count_of(receipt.rows, 'row')} ({changes or 'nothing changed'}). This is load {receipt.id}; revert it to go "
        "back.",
        receipt,
    )


def _list(output: Output, sign: str, rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows[:_ROWS_AT_MOST]:
        values = ", ".join(f"{name}={value}" for name, value in row.items() if value is not None)
        output.line(printable(f"{sign} {values}"))
