"""Tests `seller_platform.read`: what it returns, and what it says where there is nothing to return."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from sqlalchemy import text

import seller_platform
import seller_platform.reading
from seller_platform.contract import Account, Window, dataset_named
from seller_platform.errors import NotLoadedError, RequestError, UnknownAccountError
from seller_platform.reading import MixedCurrenciesWarning
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform.warehouse.migrations.pending import migrate, version_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.schema.readers import save_reader
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.shop import Shop, mart_named
from seller_platform_tests.support.stored_rows import add_rows, connect_accounts
from seller_platform_tests.support.waiting import wait_for

US, DE, OLD = "us-1", "de-2", "us-3"
FEBRUARY, MARCH, APRIL = (Window.month_of(date(2026, month, 1)) for month in (2, 3, 4))
ORDERS, STOCK, PROFIT = dataset_named("orders"), dataset_named("warehouse_stock"), mart_named("account_profit_daily")


def _account(number: int, key: str, title: str) -> tuple[str, Account]:
    place = key[:2].upper()
    return key, Account(number, title, place, "USD", "America/New_York", place, f"S{key[3:]}")


@dataclass(frozen=True)
class Stored:
    """A warehouse with rows."""

    url: str
    database: Database

    def read(self, name: str, **options: Any) -> pd.DataFrame:
        frame = seller_platform.read(name, database_url=self.url, **options)
        assert isinstance(frame, pd.DataFrame)
        return frame


@pytest.fixture(scope="module")
def stored(databases: Databases) -> Iterator[Stored]:
    """Orders of February and March of two accounts, of February of a retired one, a mart, and two snapshots."""
    with databases.lent() as database:
        old = _account(3, OLD, "Twin")
        connect_accounts(database, [old])
        save_accounts(database, "default", [_account(1, US, "North Pine US"), _account(2, DE, "North Pine DE")])
        for key, months in ((US, (FEBRUARY, MARCH)), (DE, (FEBRUARY, MARCH)), (OLD, (FEBRUARY,))):
            for month in months:
                day = f"{month.start:%Y-%m}-10"
                sold = ("Shipped", Decimal("0.10"), "USD", 2, "A", None, None, day)
                row = (f"{key} {month.start:%m}", f"{day}T20:00:00Z", *sold)
                add_rows(database, ORDERS, [row], account=key, tags=("platform",))
            mark_loaded(database, ORDERS, key, *months)
        mark_loaded(database, ORDERS, US, APRIL)
        shelves = [(f"SKU {day}", *[None] * (len(STOCK.columns) - 1), f"2026-03-0{day}") for day in (1, 2)]
        add_rows(database, STOCK, shelves, account=US)
        mark_loaded(database, STOCK, US, *(Window.day(date(2026, 3, each)) for each in (1, 2)))
        Shop(database).sell("2026-03-02", "A", 3, "30.00")
        Shop(database).build(PROFIT, MARCH)
        listed = dataset_named("accounts")
        own = (1, "North Pine US", "US", "USD", "America/New_York", "US", "S1", "default")
        add_rows(database, listed, [own], account=US)
        mark_loaded(database, listed, "default", Window.day(date(2026, 3, 1)))
        yield Stored(database.url, database)


@pytest.mark.parametrize("account", [US, "North Pine US", "north pine us", ["North Pine US"]], ids=str)
def test_a_month_is_read_by_the_key_or_the_title_of_an_account(stored: Stored, account: str | list[str]) -> None:
    frame = stored.read("orders", account=account, month="2026-03")

    assert list(frame.columns[:3]) == ["account", "local_day", "platform_order_id"]
    assert list(frame["platform_order_id"]) == ["us-1 03"]
    assert list(frame["order_total"]) == [Decimal("0.10")]
    assert str(frame["purchase_date"].dtype) == "datetime64[us, UTC]"


def test_of_several_currencies_the_currency_is_first_and_a_warning_is_kept(stored: Stored) -> None:
    with _in_euros(stored.database, DE):
        one, stock = stored.read("orders", account=US), stored.read("warehouse_stock", account=US)
        profit = stored.read("marts.account_profit_daily", account=US, month="2026-03")
        with pytest.warns(MixedCurrenciesWarning, match="orders has amounts in EUR, USD: group by `currency`") as given:
            several = stored.read("orders")
        with pytest.warns(MixedCurrenciesWarning, match="EUR, USD"):
            table = seller_platform.read("orders", as_="arrow", database_url=stored.url)

    currencies = [each.attrs["currencies"] for each in (one, stock, profit, several)]
    assert currencies == [["USD"], [], ["USD"], ["EUR", "USD"]]
    assert [each.columns[0] for each in (one, stock, profit, several)] == ["account", "account", "account", "currency"]
    assert several.attrs["warning"] == str(given[0].message)
    assert given[0].filename == __file__
    assert table.column_names == list(several.columns)
    assert table["currency"].to_pylist() == several["currency"].tolist() == ["EUR", "EUR", "USD", "USD", "USD"]


@contextmanager
def _in_euros(database: Database, key: str) -> Iterator[None]:
    """The account and its orders have euros while the block runs."""
    statements = (
        "UPDATE seller.orders SET currency_code = '{}' WHERE account = '{}'",
        "UPDATE platform.accounts SET currency_code = '{}' WHERE key = '{}'",
    )
    for code in ("EUR", "USD"):
        for statement in statements:
            database.execute(text(statement.format(code, key)))
        if code == "EUR":
            yield


def test_months_are_a_range_or_all_that_are_stored(stored: Stored) -> None:
    both = stored.read("seller.orders", account=[US, DE], month="2026-02:2026-03")

    assert list(both["platform_order_id"]) == ["de-2 02", "de-2 03", "us-1 02", "us-1 03"]
    assert len(stored.read("orders", account=US)) == 2
    assert len(stored.read("orders", account=US, month="all")) == 2
    assert len(stored.read("orders", account=US, day="2026-03-10")) == 1


def test_every_account_includes_the_stored_months_of_retired_ones(stored: Stored) -> None:
    months = stored.read("orders", month="2026-02:2026-03")

    assert list(months["account"]) == [DE, DE, US, US, OLD]
    assert list(stored.read("orders")["account"]) == [DE, DE, US, US, OLD]
    assert list(stored.read("orders", account="all")["account"]) == [DE, DE, US, US, OLD]


def test_an_arrow_table_has_decimals_of_fixed_scale(stored: Stored) -> None:
    table = seller_platform.read("orders", account=US, month="2026-03", as_="arrow", database_url=stored.url)
    floats = seller_platform.read(
        "orders", account=US, month="2026-03", as_="arrow", amounts="float", database_url=stored.url
    )

    assert isinstance(table, pa.Table)
    assert table.schema.field("order_total").type == pa.decimal128(28, 8)
    assert floats.schema.field("order_total").type == pa.float64()
    assert floats.column_names == table.column_names
    assert floats["order_total"].to_pylist() == [0.1]
    frame = stored.read("orders", account=US, month="2026-03", amounts="float")
    assert (str(frame["order_total"].dtype), list(frame["order_total"])) == ("float64", [0.1])


def test_a_mart_is_read_like_a_list(stored: Stored) -> None:
    frame = stored.read("marts.account_profit_daily", account="North Pine US", month="2026-03")

    assert list(frame["units"]) == [3]
    assert len(stored.read("account_profit_daily")) == 1
    with pytest.raises(RequestError, match=r"marts\.account_profit_daily keeps no former rows\. Leave as_of out"):
        stored.read("account_profit_daily", as_of="2026-03-01")


def test_of_snapshots_the_newest_is_read_or_that_of_a_day(stored: Stored) -> None:
    assert list(stored.read("warehouse_stock", account=US)["sku"]) == ["SKU 2"]
    assert list(stored.read("warehouse_stock", account=US, day=date(2026, 3, 1))["sku"]) == ["SKU 1"]
    assert list(stored.read("warehouse_stock", account=US, month="2026-03")["sku"]) == ["SKU 1", "SKU 2"]
    with pytest.raises(NotLoadedError, match=r"never loaded: warehouse_stock of us-1, 2026-03-03\."):
        stored.read("warehouse_stock", account=US, day="2026-03-03")


def test_the_accounts_are_read_as_a_whole(stored: Stored) -> None:
    assert list(stored.read("accounts")["account_title"]) == ["North Pine US"]
    for options in ({"account": US}, {"month": "2026-03"}):
        with pytest.raises(RequestError, match=r"seller\.accounts has one row for each account"):
            stored.read("accounts", **options)


def test_rows_are_read_as_they_were_stored_at_a_moment(stored: Stored) -> None:
    tomorrow = datetime(2999, 1, 1, tzinfo=UTC)

    assert len(stored.read("orders", account=US, month="2026-03", as_of=tomorrow)) == 1
    assert list(stored.read("warehouse_stock", account=US, as_of="2999-01-01")["sku"]) == ["SKU 2"]
    with pytest.raises(RequestError, match="as_of is 'yesterday', which is not a moment; write it as 2026-03-01T06"):
        stored.read("orders", as_of="yesterday")


@pytest.mark.parametrize(
    ("name", "options", "absent"),
    [
        ("orders", {"account": US, "month": "2026-03"}, "orders of us-1, 2026-03"),
        ("orders", {"account": US}, "orders of us-1"),
        ("orders", {"month": "2026-03"}, "orders of de-2, 2026-03; orders of us-1, 2026-03"),
        ("orders", {}, "orders of de-2; orders of us-1; orders of us-3"),
        ("warehouse_stock", {"account": US}, "warehouse_stock of us-1"),
        ("accounts", {}, "accounts of default"),
    ],
    ids=str,
)
def test_before_its_first_load_the_moment_of_that_is_named(
    stored: Stored, name: str, options: dict[str, Any], absent: str
) -> None:
    with pytest.raises(NotLoadedError) as caught:
        stored.read(name, as_of="2026-01-01", **options)

    message = f"not stored yet at 2026-01-01T00:00:00+00:00: {absent}. The first load of it ended at "
    assert str(caught.value).startswith(message)
    assert "sync" not in str(caught.value)
    assert caught.value.first_load is not None
    stored.read(name, as_of=caught.value.first_load, **options)


def test_what_was_never_loaded_is_named_before_what_was_loaded_later(stored: Stored) -> None:
    with pytest.raises(NotLoadedError, match=r"^never loaded: orders of de-2, 2026-04\. Run .* --account de-2"):
        stored.read("orders", account="de-2", month="2026-03:2026-04", as_of="2026-01-01")


@pytest.mark.parametrize(
    ("name", "options", "command"),
    [
        (
            "orders",
            {"account": "North Pine DE", "month": "2026-03:2026-05"},
            "sync --dataset orders --account de-2 --from 2026-04 --to 2026-05",
        ),
        ("orders", {"month": "2026-04"}, "sync --dataset orders --account de-2 --from 2026-04 --to 2026-04"),
        ("transactions", {"month": "2026-04"}, "sync --dataset transactions --from 2026-04 --to 2026-04"),
        ("inventory", {"account": US}, "sync --dataset inventory --account us-1"),
        ("report_rows", {"account": US}, "report request --account us-1"),
        (
            "account_profit_daily",
            {"account": US, "month": "2026-02"},
            "marts build account_profit_daily --account us-1 --from 2026-02 --to 2026-02",
        ),
    ],
    ids=["months", "every account", "never loaded", "snapshots", "reports", "a mart"],
)
def test_what_was_never_loaded_is_named_with_the_command(
    stored: Stored, name: str, options: dict[str, Any], command: str
) -> None:
    with pytest.raises(NotLoadedError) as caught:
        stored.read(name, **options)

    assert f"Run `seller-platform {command}`, or materialize" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("orders", {"month": "2098-12"}, r"2098-12 has not begun; the last that can be read is 20\d\d-\d\d"),
        ("orders", {"month": "2026-03:2098-12"}, "2098-12 has not begun"),
        ("transactions", {"month": "2098-12"}, "2098-12 has not begun"),
        ("warehouse_stock", {"account": US, "day": "2098-12-31"}, r"2098-12-31 has not begun; .* 20\d\d-\d\d-\d\d$"),
    ],
    ids=["a month", "the last of months", "never loaded", "a day"],
)
def test_what_has_not_begun_cannot_be_loaded(stored: Stored, name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        stored.read(name, **options)

    assert "sync" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("ordrs", {}, RequestError, r"no asset or table 'ordrs' \(did you mean 'orders'\?\); choose one of"),
        ("profit_daily", {}, RequestError, "did you mean 'marts.account_profit_daily'"),
        ("orders", {"account": "Nort Pine US"}, UnknownAccountError, "did you mean 'North Pine US'"),
        ("orders", {"account": []}, RequestError, "account is an empty list; leave it out"),
        ("orders", {"month": "2026-13"}, RequestError, r"'2026-13' is not a month; .* or months as 2026-01:2026-03"),
        ("orders", {"month": "2026-03:2026-01"}, RequestError, "Write the earlier one first"),
        ("orders", {"day": 20260301}, RequestError, "Write a day as 2026-10-31"),
        ("orders", {"as_of": 5}, RequestError, "as_of is 5, which is not a moment"),
        ("orders", {"account": 5}, RequestError, "account is 5; write a key, a title, or a list of them"),
        ("orders", {"day": "03/01"}, RequestError, "Write a day as 2026-10-31"),
        ("orders", {"day": "2026-03-01", "month": "2026-03"}, RequestError, "give one of them"),
        ("inventory_health", {"month": "2026-03"}, RequestError, "as a whole, and no days. Leave month and day out"),
        (
            "orders",
            {"as_": "arow"},
            RequestError,
            r"as_ is 'arow' \(did you mean 'arrow'\?\); it must be \"pandas\" or",
        ),
        ("orders", {"amounts": "int"}, RequestError, "amounts is 'int'; it must be"),
        ("orders", {"home": "x"}, RequestError, "database_url and home name two warehouses"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_with_the_next_step(
    stored: Stored, name: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        stored.read(name, **options)


def test_a_home_that_was_never_connected_is_named_and_stays_as_it_was(tmp_path: Path) -> None:
    home = tmp_path / "home"

    with pytest.raises(RequestError, match=rf"in the home folder {home}\. Run `seller-platform connect`"):
        seller_platform.read("orders", home=home)

    assert not home.exists()


def test_the_home_of_the_demo_is_named(tmp_path: Path) -> None:
    (tmp_path / "sandbox" / "postgres" / "data").mkdir(parents=True)

    with pytest.raises(RequestError) as caught:
        seller_platform.read("orders", home=tmp_path)

    assert caught.value.__notes__ == [
        f"In Python, the data of `seller-platform demo` is read with home='{tmp_path}/sandbox'."
    ]


def test_a_database_that_has_no_tables_stays_as_it_was(postgres: EmbeddedServer) -> None:
    url = postgres.database("empty")

    for absent in (url, postgres.url("absent")):
        with pytest.raises(RequestError, match="has no tables of Seller Platform; nothing was ever connected there"):
            seller_platform.read("orders", database_url=absent)

    with Database(url) as database:
        assert version_of(database) is None


def test_a_reader_of_the_database_may_read(stored: Stored) -> None:
    save_reader(stored.database, "reads_in_python", "a password of a reader")

    frame = seller_platform.read("orders", month="2026-03", database_url=stored.database.url_of_user("reads_in_python"))

    assert len(frame) == 2


def test_a_home_is_read_with_its_own_server_and_without_open_connections() -> None:
    with temporary_folder() as home:
        server = EmbeddedServer(home / "postgres")
        with Database(server.database("warehouse")) as database:
            migrate(database)
            connect_accounts(database, [_account(1, US, "Shop")])
            mark_loaded(database, ORDERS, US, MARCH)

        frame = seller_platform.read("orders", account="shop", home=home)

        with Database(server.url("postgres")) as database:

            def is_unused() -> bool:
                count = text("SELECT count(*) FROM pg_stat_activity WHERE datname = 'warehouse'")
                return bool(database.execute(count).scalar_one() == 0)

            wait_for(is_unused)  # a backend ends a moment after its connection
        assert frame.empty
        with pytest.raises(
            NotLoadedError, match=rf"Run `SELLER_PLATFORM_HOME={home} seller-platform sync --dataset orders"
        ):
            seller_platform.read("orders", account="shop", month="2026-02", home=home)
        server.close()
