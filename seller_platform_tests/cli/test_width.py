"""Tests that no value is cut in a narrow terminal; other widths are those of `terminal/test_layout.py`."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import click
import msgspec
import pytest
from rich.cells import cell_len

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.contract.tokens import TokenPair
from seller_platform.errors import CheckFailedError
from seller_platform.service.oauth.applications import add_application
from seller_platform.service.users.groups import set_group
from seller_platform.service.users.store import add_user, grant_accounts
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.loads.holds import Doubt
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.command_line import COMMAND_LINE
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import environment
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts, list_accounts, store_slice
from seller_platform_tests.support.terminals import show

KEY, TITLE = "A4LL303DM980YE.A1SBX4US70Q2KD", "Köhler [Haus & Hof] 日本 DE"
EMAIL = "a.person.with.a.long.address@shop.example"
URI = "https://tools.example/oauth/callback/with/a/long/path?tenant=12345"
ORDER = "028-1234567-1234567"
REASON = "500 of 710 rows are missing on days that had them"
ORDERS, MARCH = dataset_named("orders"), Window.month_of(date(2026, 3, 1))


@pytest.fixture(scope="module")
def variables(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables of a shell over a warehouse and a service whose names and texts are long."""
    home = tmp_path_factory.mktemp("home")
    with databases.lent() as database:
        _fill(database, home)
        yield environment(home, SELLER_PLATFORM_DATABASE_URL=database.url)


def _fill(database: Database, home: Path) -> None:
    account = Account(1, TITLE, "DE", "EUR", "Europe/Berlin", "DE", "S1")
    connect_accounts(database, [(KEY, account)])
    list_accounts(database, {KEY: account})
    pair = TokenPair("access", "refresh", datetime.now(UTC), 3600)
    Grants(database, secret_box(home, None)).store("default", pair)
    for total in ("12345.67", "7654321.00"):
        sold = ("Shipped", Decimal(total), "EUR", 1, "SKU-1", "A", "Cup", "2026-03-01")
        store_slice(database, ORDERS, MARCH, [(ORDER, "2026-03-01T10:00:00Z", *sold)], KEY)
    notes = {"held": msgspec.to_builtins(Doubt("others", REASON, 710, 210, {}))}
    store_receipt(database, dataset_named("transactions"), KEY, MARCH, verdict="held", changed=False, notes=notes)
    refused = CheckFailedError("the upstream answered 403: this user may not read the sales of this account")
    keep_refusal(database, dataset_named("daily_product_sales"), KEY, MARCH, refused, run_id=None)
    add_user(database, EMAIL, "A Person", "zebra lamp quorum")
    grant_accounts(database, EMAIL, [KEY])
    set_group(database, EMAIL, "All shops of the north and of the south", [KEY])
    add_application(database, "A tool with a long name", URI)


CASES = [
    (["status"], [KEY, "daily_product_sales", "this user may not read the sales of this account"]),
    (["status", "--all"], [KEY, REASON, "seller-platform accept", "seller-platform sync"]),
    (["held"], [KEY, TITLE, REASON]),
    (["doctor"], ["Seller Platform", "PostgreSQL"]),
    (["status", "--datasets"], [KEY, TITLE, "cost_periods", "daily_product_sales", "never loaded"]),
    (["diff", "orders", KEY], [KEY, ORDER, "order_total EUR", "7654321.00", "12345.67"]),
    (["explain", "orders", ORDER], [KEY, ORDER, "7654321.00", "12345.67"]),
    (["service", "user", "list", "--replica"], [EMAIL, KEY, "A Person"]),
    (["service", "group", "list", EMAIL, "--replica"], [EMAIL, KEY, "All shops of the north and of the south"]),
    (["service", "application", "list", "--replica"], [URI, "A tool with a long name"]),
    (["service", "events", "--replica"], [EMAIL]),
]
SENTENCES = (
    ["status"],
    ["held"],
    ["diff", "orders", KEY],
    ["explain", "orders", ORDER],
    ["doctor"],
    ["diff", "no", KEY],
)


@pytest.mark.parametrize(("arguments", "values"), CASES, ids=[" ".join(arguments) for arguments, _ in CASES])
def test_every_value_is_shown_whole(arguments: list[str], values: list[str], variables: dict[str, str]) -> None:
    shown = show(arguments, variables, columns=60)

    assert shown.code in (0, 5), shown.text
    assert "…" not in shown.text
    words = shown.text.split()
    assert [word for value in values for word in value.split() if not any(word in shown for shown in words)] == []


def test_the_help_of_every_command_breaks_no_word_in_80_columns() -> None:
    helped, wide = (_help_of(COMMAND_LINE, None, "seller-platform", width) for width in (78, 10_000))

    broken = {path: set(text.split()) - set(wide[path].split()) for path, text in helped.items()}
    assert {path: words for path, words in broken.items() if words} == {}
    assert [line for text in helped.values() for line in text.splitlines() if len(line) > 80] == []


def _help_of(command: click.Command, parent: click.Context | None, name: str, width: int) -> dict[str, str]:
    """Return the help of a command and of those below it, by path."""
    context = click.Context(command, parent, name, terminal_width=width, max_content_width=width)
    texts = {context.command_path: command.get_help(context)}
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            texts |= _help_of(command.get_command(context, below) or command, context, below, width)
    return texts


@pytest.mark.parametrize("arguments", SENTENCES, ids=" ".join)
def test_sentences_are_broken_at_spaces_and_commands_nowhere(arguments: list[str], variables: dict[str, str]) -> None:
    lines = show(arguments, variables, columns=80).lines

    wide = [line for line in lines if cell_len(line) > 80 and not line.startswith(" ")]
    assert [line for line in wide if " " in line and not re.fullmatch(r"`[^`]*`\S*", line)] == []
