"""Tests that readings which contradict the stored rows are held, and that others are published."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import text

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import ImplausibleReadingError
from seller_platform.warehouse.history.reverts import revert
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.plausibility import Accepted, Judge
from seller_platform.warehouse.loads.receipts import AccountDay, days_due, days_read, latest_receipts, open_holds
from seller_platform.warehouse.loads.slices import Receipt, Slice, doubt_of, open_load
from seller_platform.warehouse.postgres.database import Database

TRANSACTIONS, STOCK, ACCOUNTS = (dataset_named(name) for name in ("transactions", "warehouse_stock", "accounts"))
ACCOUNT = "SELLER.market"
DAYS = Window(date(2026, 3, 1), date(2026, 3, 11))
SETTLED = frozenset(DAYS.each_day())
NOON = datetime(2026, 3, 20, 12, tzinfo=UTC)


def _entries(count: int, *, amount: str | None = "2.50", first_day: int = 0) -> list[Row]:
    """Return ledger entries, in turn on each of ten days."""
    rows: list[Row] = []
    for number in range(count):
        day = DAYS.start + timedelta(days=first_day + number % (10 - first_day))
        values = {
            "order_id": f"order-{number}",
            "amount": None if amount is None else Decimal(amount),
            "currency": "USD",
            str(TRANSACTIONS.day): f"{day}T10:00:00+00:00",
        }
        rows.append((*(values.get(column.name) for column in TRANSACTIONS.columns), day.isoformat()))
    return rows


def _load(
    database: Database,
    rows: Sequence[Row],
    judge: Judge | None = None,
    *,
    dataset: Dataset = TRANSACTIONS,
    window: Window = DAYS,
    announces: bool = True,
    at: datetime = NOON,
) -> Receipt:
    with open_load(database, Slice(dataset, ACCOUNT, window)) as load:
        load.spool.write(rows, page=1)
        facts = LoadFacts(1, 1, 0, len(rows) if announces else None, CountVerdict.MATCH)
        return load.store(facts, started_at=at, judge=judge)


def _count(database: Database, table: str = "seller.transactions") -> int:
    with database.begin() as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


@pytest.mark.parametrize(
    ("before", "after", "settled", "reason"),
    [
        (_entries(3), [], frozenset(), "no row was read; 3 are stored"),
        (_entries(600), _entries(590), SETTLED, "10 of 600 rows are missing on settled days"),
        (_entries(200), _entries(150), frozenset(), "50 of 200 rows are missing on days that had them"),
        (
            _entries(200),
            [row for row in _entries(600) if str(row[-1]) >= "2026-03-05"],
            frozenset(),
            "80 of 200 rows are missing on days that had them",
        ),
        (_entries(4), _entries(4, amount="0.00"), frozenset(), "no amount is other than zero or null; 4 rows had one"),
        (_entries(30), _entries(30, amount="0"), SETTLED, "no amount is other than zero or null; 30 rows had one"),
        (_entries(4), _entries(4, amount=None), frozenset(), "no amount is other than zero or null; 4 rows had one"),
    ],
    ids=["empty", "settled days shrink", "days shrink", "days shrink beside growth", "zeros", "settled zeros", "nulls"],
)
def test_what_contradicts_the_stored_rows_is_held_and_the_stored_rows_stay(
    database: Database, before: list[Row], after: list[Row], settled: frozenset[date], reason: str
) -> None:
    stored = _load(database, before)

    with pytest.raises(ImplausibleReadingError, match=reason):
        _load(database, after, Judge(settled))
    held = _load(database, after, Judge(settled, is_second=True))

    assert (held.verdict, held.changed, held.rows) == (CountVerdict.HELD, False, len(before))
    assert reason in doubt_of(held).reason
    assert _count(database) == len(before)
    assert _count(database, "history.transactions") == 0
    assert [receipt.id for receipt in latest_receipts(database)] == [stored.id]
    assert [receipt.id for receipt in open_holds(database)] == [held.id]


@pytest.mark.parametrize(
    ("before", "after", "settled"),
    [
        (_entries(600), _entries(595), SETTLED),
        (_entries(600), _entries(540), frozenset()),
        (_entries(20), _entries(1), frozenset()),
        (_entries(20), _entries(300, amount="1"), SETTLED),
        ([], _entries(20, amount="0"), frozenset()),
        ([], [], SETTLED),
    ],
    ids=["five of a settled slice", "a tenth", "few", "growth and other amounts", "zeros from the start", "nothing"],
)
def test_what_can_be_true_is_published(
    database: Database, before: list[Row], after: list[Row], settled: frozenset[date]
) -> None:
    _load(database, before)

    receipt = _load(database, after, Judge(settled))

    assert receipt.verdict is CountVerdict.MATCH
    assert _count(database) == len(after)


def test_an_amount_that_is_gone_from_every_row_is_held(database: Database) -> None:
    dataset = dataset_named("daily_product_sales")
    names = [column.name for column in dataset.columns]

    def load(taxes: str) -> Receipt:
        rows = []
        for number in range(10):
            values = {
                "date": "2026-03-01",
                "sku": f"SKU-{number}",
                "product_sales": Decimal(5),
                "taxes": Decimal(taxes),
            }
            rows.append((*(values.get(name) for name in names), "2026-03-01"))
        with open_load(database, Slice(dataset, ACCOUNT, DAYS)) as opened:
            opened.spool.write(rows, tags=("platform",), page=1)
            facts = LoadFacts(1, 1, 0, 10, CountVerdict.MATCH)
            return opened.store(facts, started_at=NOON, judge=Judge(is_second=True))

    load("1.50")

    assert doubt_of(load("0")).reason == "every taxes is zero or null; 10 rows had one"


def test_a_list_that_announces_no_total_any_more_is_held_if_rows_differ(database: Database) -> None:
    _load(database, _entries(3))

    assert not _load(database, _entries(3), Judge(), announces=False).changed
    _load(database, _entries(3))
    with pytest.raises(ImplausibleReadingError, match="announced no total, which it did before"):
        _load(database, _entries(4), Judge(), announces=False)


def test_a_first_snapshot_of_a_day_is_held_without_its_total(database: Database) -> None:
    def stock(day: int, *, announces: bool) -> Receipt:
        window = Window.day(date(2026, 3, day))
        empty = [None] * (len(STOCK.columns) - 2)
        rows = [(f"SKU-{number}", "Main", *empty, str(window.start)) for number in range(9 + day)]
        return _load(database, rows, Judge(is_second=True), dataset=STOCK, window=window, announces=announces)

    assert [stock(1, announces=True).verdict, stock(2, announces=False).verdict] == [
        CountVerdict.MATCH,
        CountVerdict.HELD,
    ]


def test_a_snapshot_is_compared_with_the_newest_one_before(database: Database) -> None:
    def stock(count: int, day: int) -> Receipt:
        window = Window.day(date(2026, 3, day))
        empty = [None] * (len(STOCK.columns) - 2)
        rows = [(f"SKU-{number}", "Main", *empty, str(window.start)) for number in range(count)]
        return _load(database, rows, Judge(is_second=True), dataset=STOCK, window=window)

    first, halved, gone, back = stock(10, 1), stock(5, 2), stock(2, 3), stock(6, 4)

    assert [each.verdict for each in (first, halved, back)] == [CountVerdict.MATCH] * 3
    assert "2 rows were read, less than half of the 5 before" in doubt_of(gone).reason
    assert open_holds(database) == ()


def test_after_an_empty_snapshot_was_believed_the_next_is_no_doubt(database: Database) -> None:
    def stock(count: int, day: int) -> Receipt:
        window = Window.day(date(2026, 3, day))
        empty = [None] * (len(STOCK.columns) - 2)
        rows = [(f"SKU-{number}", "Main", *empty, str(window.start)) for number in range(count)]
        at = NOON + timedelta(days=day)
        return _load(database, rows, Judge(is_second=True), dataset=STOCK, window=window, at=at)

    verdicts = [stock(count, day).verdict for day, count in enumerate((10, 0, 0, 0, 0, 0), start=1)]

    assert verdicts == [CountVerdict.MATCH, *[CountVerdict.HELD] * 2, *[CountVerdict.MATCH] * 3]


def test_a_held_reading_is_over_when_a_later_one_is_published(database: Database) -> None:
    _load(database, _entries(3))
    _load(database, [], Judge(is_second=True))
    part = Window.day(DAYS.start)

    _load(database, [], Judge(), window=Window.day(DAYS.last_day))
    still = open_holds(database)
    _load(database, [row for row in _entries(3) if row[-1] == str(part.start)], Judge(), window=part)
    _load(database, _entries(3), Judge())

    assert len(still) == 1
    assert open_holds(database) == ()


def test_an_accepted_reading_is_published_if_it_still_says_the_same(database: Database) -> None:
    _load(database, _entries(600))
    doubt = doubt_of(_load(database, _entries(300), Judge(is_second=True)))

    other = _load(database, _entries(200), Judge(is_second=True, accepted=Accepted(doubt)))
    same = _load(database, _entries(300), Judge(is_second=True, accepted=Accepted(doubt)))

    assert other.verdict is CountVerdict.HELD
    assert (same.verdict, _count(database), _count(database, "history.transactions")) == (CountVerdict.MATCH, 300, 300)
    assert (same.notes or {})["accepted"]["by"] == "an operator"


def test_an_accepted_reading_that_lost_more_since_is_held_again(database: Database) -> None:
    _load(database, _entries(600))
    doubt = doubt_of(_load(database, _entries(300), Judge(is_second=True)))

    emptied = _load(database, [], Judge(is_second=True, accepted=Accepted(doubt)))
    shorter = _load(database, _entries(295), Judge(is_second=True, accepted=Accepted(doubt)))

    assert (emptied.verdict, shorter.verdict) == (CountVerdict.HELD, CountVerdict.MATCH)


def test_amounts_that_stay_away_are_believed_though_rows_come(database: Database) -> None:
    _load(database, _entries(40))

    receipts = [
        _load(database, _entries(40 + day, amount="0"), Judge(is_second=True), at=NOON + timedelta(days=day))
        for day in range(3)
    ]

    assert [each.verdict for each in receipts] == [CountVerdict.HELD, CountVerdict.HELD, CountVerdict.MATCH]


def test_a_revert_and_a_hold_are_no_readings(database: Database) -> None:
    read_at = datetime(2026, 5, 1, tzinfo=UTC)
    _load(database, _entries(600), at=read_at)
    wrong = _load(database, _entries(300), at=read_at)
    revert(database, wrong.id)
    _load(database, [], Judge(is_second=True), at=datetime(2026, 6, 1, tzinfo=UTC))
    read = partial(days_read, database, TRANSACTIONS, ACCOUNT, DAYS, ZoneInfo("UTC"), now=datetime.now(UTC))

    assert read() == {}
    assert set(read(held_too=True).values()) == {read_at.date()}


@pytest.mark.parametrize(
    ("hours", "counts", "published"),
    [
        ((0, 20, 40), (300, 300, 300), True),
        ((0, 20, 39), (300, 300, 300), False),
        ((0, 1, 2), (300, 300, 300), False),
        ((0, 24, 48), (300, 200, 300), False),
        ((0, 24, 48), (302, 301, 300), True),
        ((0, 24, 48), (300, 300, 0), False),
        ((0, 24, 48), (0, 0, 0), True),
    ],
)
def test_three_refreshes_that_say_the_same_are_believed(
    database: Database, hours: tuple[int, ...], counts: tuple[int, ...], published: bool
) -> None:
    _load(database, _entries(600))

    receipts = [
        _load(database, _entries(count), Judge(is_second=True), at=NOON + timedelta(hours=hour))
        for hour, count in zip(hours, counts, strict=True)
    ]

    assert [each.verdict for each in receipts[:2]] == [CountVerdict.HELD] * 2
    assert (receipts[2].verdict is CountVerdict.MATCH) is published


def test_days_that_are_held_are_due_again_though_they_had_settled(database: Database) -> None:
    utc = ZoneInfo("UTC")
    _load(database, _entries(600), at=datetime(2026, 9, 1, tzinfo=UTC))
    today = AccountDay.at(datetime(2026, 9, 3, 12, tzinfo=UTC), ACCOUNT, utc)

    def due() -> dict[tuple[str, str], tuple[Window, ...]]:
        return days_due(database, [TRANSACTIONS], [today], since=DAYS.start)

    before = due()
    _load(database, [], Judge(is_second=True), at=datetime(2026, 9, 2, tzinfo=UTC))
    held = due()
    _load(database, [], Judge(is_second=True), at=datetime(2026, 9, 3, 1, tzinfo=UTC))
    again_today = due()

    key = (TRANSACTIONS.name, ACCOUNT)
    assert [due_days[key][0].start for due_days in (before, held)] == [DAYS.end, DAYS.start]
    assert again_today == before
    assert days_read(database, TRANSACTIONS, ACCOUNT, DAYS, utc, now=today.moment) == {}
