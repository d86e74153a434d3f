"""Tests that what is said to be current is what a fresh computation gives, after random sequences of changes."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable
from psycopg import sql
from sqlalchemy import text

from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import InputProblemError, RequestError
from seller_platform.lake.derived import exported_to
from seller_platform.lake.partitions import export_partitions
from seller_platform.settings import read_settings
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.due import Derived, partition_states
from seller_platform.warehouse.derived.registry import marts_with
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.holds import Judge
from seller_platform.warehouse.loads.receipts import Slice
from seller_platform.warehouse.loads.retention import prune
from seller_platform.warehouse.loads.slices import open_load, revert
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.readers.relations import SOURCES, Source
from seller_platform_tests.support.postgres import copied, drop_database, end_connections
from seller_platform_tests.support.stored_rows import connect_accounts

IN_CI = (1, 780)  # the last one prunes twice
SEEDS = [*IN_CI, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(500) if seed not in IN_CI)]
STEPS = 6
SELLERS = {
    "de-2": Account(2, "Laden", "DE", "EUR", "Europe/Berlin", "DE", "S2"),
    "us-1": Account(1, "Shop", "US", "USD", "America/Los_Angeles", "US", "S1"),
}
KEYS = tuple(SELLERS)
MONTHS = tuple(Window.month_of(date(2026, month, 1)) for month in (2, 3, 4))
MARCH, SNAPSHOTS = MONTHS[1], (date(2026, 3, 3), date(2026, 3, 20), date(2026, 4, 1), date(2026, 4, 2))
EXPORTED = {
    "orders": "platform_order_id, order_total, local_day",
    "inventory": "sku, afn_fulfillable_quantity, local_day",
    "product_performance_monthly": "sku, units, product_sales, currency",
}
SLICES = [
    (key, dataset_named(name), window)
    for names, windows in (
        (("transactions", "orders", "daily_product_sales", "sales_by_date"), MONTHS),
        (("inventory", "cost_periods", "warehouse_stock"), map(Window.day, SNAPSHOTS)),
    )
    for key, name, window in product(KEYS, names, windows)
]
FORMULAS = ("", "formula: own\nlines:\n  - {line: all, counts: yes, entries: [{type: '*'}]}\n")
ACCOUNTS = ("", "balance: {name: Due}\nlines:\n  - {line: payouts, name: Bank -- EUR, entries: [{type: Transfer}]}\n")
_DIFFER = """
WITH stored AS ({stored}), fresh AS MATERIALIZED ({query})
(TABLE stored EXCEPT ALL TABLE fresh) UNION ALL (TABLE fresh EXCEPT ALL TABLE stored) LIMIT 1
"""


class Story:
    """A warehouse and its exported tables, and what may happen to them."""

    def __init__(self, server: EmbeddedServer, database: Database, folder: Path, random: Random) -> None:
        self.server, self.database, self.folder, self.random = server, database, folder, random
        self.accounts, self.rules = dict(SELLERS), ("", "")
        self.known = dict[tuple[str, str], list[tuple[Source, Derived]]]()
        self.held: tuple[Slice, list[Row]] | None = None
        self.copies, self.backups, self.log = list[str](), list[str](), list[str]()

    def load(self, *, of: tuple[str, Dataset, Window] | None = None, judge: Judge | None = None) -> None:
        key, dataset, window = of or self.random.choice(SLICES)
        amount = Decimal(self.random.randrange(1, 4))
        rows = [] if judge else [self._row(dataset, window, amount, n) for n in range(self.random.randrange(4))]
        self._store(Slice(dataset, key, window), rows, judge)

    def hold(self) -> None:
        self.load(judge=Judge(frozenset(Window(MONTHS[0].start, MONTHS[-1].end).each_day()), is_second=True))

    def accept(self) -> None:
        if self.held:
            self._store(*self.held, None)
            self.held = None

    def _store(self, slice_: Slice, rows: list[Row], judge: Judge | None) -> None:
        account = self.accounts[slice_.account]
        slice_ = replace(slice_, time_zone=account.timezone, currency=account.currency_code)
        with open_load(self.database, slice_) as load:
            load.spool.write(rows, tags=("platform",) * len(slice_.dataset.tags), page=1)
            read_at = datetime(2026, 6, 1, tzinfo=UTC)
            receipt = load.store(LoadFacts(1, 1, 0, len(rows), CountVerdict.MATCH), started_at=read_at, judge=judge)
        if receipt.verdict is CountVerdict.HELD:
            self.held = slice_, rows

    def _row(self, dataset: Dataset, window: Window, amount: Decimal, number: int) -> Row:
        day = str(window.start + timedelta(days=number)) if dataset.is_dated else str(window.start)
        moment, sku = f"{day}T12:00:00-08:00", f"SKU-{number}"
        kind = ("Order", "Fee", "Transfer")[number % 3]
        return {
            "transactions": (moment, kind, sku, sku, kind, 1, amount, None, None, day),
            "orders": (sku, moment, "Shipped", amount, None, 1, sku, None, None, day),
            "daily_product_sales": (day, sku, sku, sku, 1, amount, "0", "0", "0", day),
            "sales_by_date": (day, 1, amount, None, "0", amount, None, None, None, day),
            "inventory": (sku, sku, sku, "X", int(amount), 0, 0, int(amount), None, None, None, None, day),
            "warehouse_stock": (sku, "Main", int(amount), None, "available", moment, day),
            "cost_periods": (sku, "2026-01-01", None, f'[{{"amount": {amount}, "currency": "USD"}}]', day),
        }[dataset.name]

    def revert(self) -> None:
        query = text("SELECT id FROM platform.loads WHERE verdict <> 'held'")
        if loads := self.database.execute(query).scalars().all():
            with suppress(RequestError):
                revert(self.database, self.random.choice(loads))

    def prune(self) -> None:
        prune(self.database, snapshots_before=date(2026, 4, 1), receipts_before=date(2030, 1, 1), dry=False)

    def relabel(self) -> None:
        key, other = self.random.choices(KEYS, k=2)
        changes = {"currency_code": "CHF"}, {"timezone": "Asia/Tokyo"}, {"id": 3}, vars(SELLERS[other])
        change = self.random.choice(changes)
        self.accounts[key] = replace(self.accounts[key], **change)
        save_accounts(self.database, "default", [*self.accounts.items()])

    def retire(self) -> None:
        listed = self.random.choice(KEYS)
        save_accounts(self.database, "default", [(listed, self.accounts[listed])])

    def change_rules(self) -> None:
        self.rules = (self.random.choice(FORMULAS), self.random.choice(ACCOUNTS))

    def back_up(self) -> None:
        self.backups.append(self._copied(str(self.database.engine.url.database)))

    def restore(self) -> None:
        if self.backups:
            name = self._copied(self.random.choice(self.backups))
            self.database.close()
            self.database = Database(self.server.url(name))

    def _copied(self, template: str) -> str:
        self.database.close()
        end_connections(self.server, template)
        name = f"sequence_{len(self.copies)}_{self.folder.name}"[:60]
        copied(self.server, name, template)
        self.copies.append(name)
        return name

    @property
    def sources(self) -> list[tuple[Source, Derived]]:
        if self.rules not in self.known:
            files = [self.folder / name if content else None for name, content in zip("fa", self.rules, strict=True)]
            for file, content in zip(files, self.rules, strict=True):
                if file is not None:
                    file.write_text(content)
            exported = [source for source in SOURCES if source.name in EXPORTED]
            settings = read_settings().model_copy(
                update=dict(zip(("profit_formula", "journal_accounts"), files, strict=True))
            )
            self.known[self.rules] = [(mart, Derived.of(mart)) for mart in marts_with(settings)]
            self.known[self.rules] += [(source, exported_to(source, str(self.folder))) for source in exported]
        return self.known[self.rules]

    def judge(self) -> Iterator[str]:
        """Yield what is said to be current, fail if it is not what a fresh computation gives, and make the others."""
        for source, derived in self.sources:
            with self.database.begin() as connection:
                states = partition_states(connection, derived, KEYS, MONTHS[1:2])
                for state in states:
                    if state.is_current:
                        named = f"{derived.folder and 'export of '}{source.name} of {state.account}"
                        compare = self._differs if derived.folder else self._is_outdated
                        assert not compare(driver_of(connection), source, state.account), (named, self.log)
                        yield named
            others = [(state.account, state.window) for state in states if state.reason is None]
            if derived.folder:
                export_partitions(self.database, source, others, derived.folder, run_id="run")
            elif isinstance(source, Mart):
                for account, month in others:
                    with suppress(InputProblemError):
                        build_partition(self.database, source, account, month, run_id="run")

    def _is_outdated(self, driver: psycopg.Connection[Any], mart: Source, key: str) -> bool:
        assert isinstance(mart, Mart)
        columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in mart.columns)
        stored = sql.SQL("SELECT {} FROM {} WHERE {}").format(columns, mart.identifier, mart.inside)
        bound = mart.bindings(key, MARCH if mart.is_monthly else None, mart.chosen_parameters({}))
        return driver.execute(sql.SQL(_DIFFER).format(stored=stored, query=mart.query), bound).fetchone() is not None

    def _differs(self, driver: psycopg.Connection[Any], source: Source, key: str) -> bool:
        names = EXPORTED[source.name].split(", ")
        is_monthly = exported_to(source, "").is_monthly
        filters: list[tuple[str, str, object]] = [("account", "=", key)]
        filters += [("month", "=", MARCH.start)] if is_monthly else []
        table = DeltaTable(self.folder / source.name).to_pyarrow_table(columns=names, filters=filters)
        day = "month" if isinstance(source, Mart) else "local_day"
        inside = f"{day} BETWEEN '{MARCH.start}' AND '{MARCH.last_day}'" if is_monthly else "true"
        query = f"SELECT {', '.join(names)} FROM {source.table} WHERE account = %s AND {inside}"
        stored = driver.execute(query, (key,)).fetchall()
        return Counter(stored) != Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_current_is_what_a_fresh_computation_gives(
    database: Database, postgres: EmbeddedServer, tmp_path: Path, seed: int
) -> None:
    connect_accounts(database, SELLERS.items())
    story, current = Story(postgres, database, tmp_path, Random(seed)), Counter[str]()
    happens: list[Callable[[], None]] = [
        *(story.load, story.hold, story.accept, story.revert, story.prune, story.relabel, story.retire),
        *(story.change_rules, story.back_up, story.restore),
    ]
    try:
        for slice_ in story.random.sample(SLICES, 40):
            story.load(of=slice_)
        current.update(story.judge())
        for _ in range(STEPS):
            for change in story.random.choices(happens, [8, 2, 2, 2, 1, 2, 1, 2, 1, 1], k=2):
                story.log.append(change.__name__)
                change()
            current.update(story.judge())
    finally:
        story.database.close()
        for name in story.copies:
            drop_database(postgres, name)

    assert len(current) >= 8
