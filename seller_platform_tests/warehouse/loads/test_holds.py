"""Tests that readings which contradict the stored rows are held, and that others are published."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from sqlalchemy import text

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import ImplausibleReadingError
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.day_changes import DayChange
from seller_platform.warehouse.loads.holds import RULES, Accepted, Claim, Contradiction, Judge
from seller_platform.warehouse.loads.receipts import Receipt, Slice, doubt_of, open_holds
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import latest_receipts, store_receipt

TRANSACTIONS, STOCK, ACCOUNTS = (dataset_named(name) for name in ("transactions", "warehouse_stock", "accounts"))
DAILY, COSTS = dataset_named("daily_product_sales"), dataset_named("cost_periods")
ACCOUNT, OTHER = "us-7", "us-8"
DAYS = Window(date(2026, 3, 1), date(2026, 3, 11))
SETTLED = frozenset(DAYS.each_day())
NOON = datetime(2026, 3, 20, 12, tzinfo=UTC)
_ROWS = text("SELECT ctid::text, * FROM seller.transactions WHERE account = :account ORDER BY 1")
_ROWS_WITH_EQUAL_CTIDS = text("""
SELECT ctid::text, * FROM seller.transactions AS stored
WHERE account = :account
  AND EXISTS (SELECT FROM seller.transactions AS other WHERE account <> :account AND other.ctid = stored.ctid)
ORDER BY 1
""")


def _entries(
    count: int,
    *,
    amount: str | None = "2.50",
    first: int = 0,
    marketplace: str = "market.example",
    start: date = DAYS.start,
) -> list[Row]:
    """Return ledger entries, in turn on each of ten days."""
    rows: list[Row] = []
    for number in range(first, first + count):
        day = start + timedelta(days=number % 10)
        values = {
            "order_id": f"order-{number}",
            "amount": None if amount is None else Decimal(amount),
            "currency": "USD",
            "quantity": 2,
            "marketplace_name": marketplace,
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
    account: str = ACCOUNT,
    verdict: CountVerdict = CountVerdict.MATCH,
    zone: str | None = None,
) -> Receipt:
    with open_load(database, Slice(dataset, account, window, time_zone=zone)) as load:
        load.spool.write(rows, page=1, tags=("platform",) * len(dataset.tags))
        facts = LoadFacts(1, 1, 0, len(rows) if announces else None, verdict)
        return load.store(facts, started_at=at, judge=judge)


def _stock(
    database: Database,
    count: int,
    day: int,
    *,
    times: int = 1,
    announces: bool = True,
    verdict: CountVerdict = CountVerdict.MATCH,
) -> Receipt:
    """Load a snapshot of so many products, each listed so many times."""
    window = Window.day(date(2026, 3, day))
    rows = [(f"SKU-{n}", "Main", *[None] * (len(STOCK.columns) - 2), str(window.start)) for n in range(count)]
    at, judge = NOON + timedelta(days=day), Judge(is_second=True)
    return _load(
        database, rows * times, judge, dataset=STOCK, window=window, announces=announces, at=at, verdict=verdict
    )


@pytest.mark.parametrize("first", [CountVerdict.MISMATCH, CountVerdict.MATCH])
@pytest.mark.parametrize("second", [CountVerdict.MISMATCH, CountVerdict.MATCH])
@pytest.mark.parametrize("is_dated", [True, False])
def test_a_first_reading_that_contradicted_itself_is_no_yardstick(
    database: Database, first: CountVerdict, second: CountVerdict, *, is_dated: bool
) -> None:
    """The list was cut, and has all rows now."""

    def load(count: int, verdict: CountVerdict) -> Receipt:
        if not is_dated:
            return _stock(database, count, 10, verdict=verdict)
        return _load(database, _entries(count), Judge(SETTLED, is_second=True), verdict=verdict)

    load(200, first)

    receipt = load(600, second)

    is_held = (first, second) != (CountVerdict.MISMATCH, CountVerdict.MATCH)
    assert (receipt.verdict is CountVerdict.HELD) is is_held
    if not is_held:  # and those that follow are measured by it
        assert load(200, second).verdict is CountVerdict.HELD


@pytest.mark.parametrize(
    ("account", "start"),
    [(OTHER, DAYS.start), (ACCOUNT, DAYS.end), (ACCOUNT, DAYS.start - timedelta(days=10))],
    ids=["another account", "the days after", "the days before"],
)
def test_a_reading_is_measured_by_its_own_slice_alone(database: Database, account: str, start: date) -> None:
    beside, hours = Window(start, start + timedelta(days=10)), timedelta(hours=21)

    def load_beside(count: int, zone: str, **options: Any) -> CountVerdict:
        judge = Judge(frozenset(beside.each_day()), is_second=True)
        rows = _entries(count, first=1000, start=start)
        return _load(database, rows, judge, window=beside, account=account, zone=zone, **options).verdict

    def load(rows: Sequence[Row], **options: Any) -> CountVerdict:
        return _load(database, rows, Judge(SETTLED, is_second=True), zone="UTC", **options).verdict

    def lie(number: int) -> CountVerdict:
        return load(_entries(100), announces=False, at=NOON + hours * number)

    load(_entries(100), verdict=CountVerdict.MISMATCH, announces=False)
    load_beside(200, "UTC")
    corrected = load(_entries(200), announces=False)
    load_beside(201, "UTC")
    without_total = load(_entries(201), announces=False)
    load_beside(201, "Asia/Tokyo")
    of_one_day_less = [row for number, row in enumerate(_entries(201)) if number % 10 or number >= 60]
    a_day_lacks_rows = load(of_one_day_less, announces=False)
    beside_held = [load_beside(100, "Asia/Tokyo", at=NOON + hours * number) for number in (1, 2)]
    lies = [lie(3), lie(4)]
    load_beside(202, "Asia/Tokyo", at=NOON + hours * 5)
    lies.append(lie(5))

    assert (corrected, without_total, a_day_lacks_rows) == (CountVerdict.MATCH, CountVerdict.MATCH, CountVerdict.HELD)
    assert (beside_held, lies[:2]) == ([CountVerdict.HELD] * 2, [CountVerdict.HELD] * 2)
    assert lies[2] is CountVerdict.MATCH, "a third reading that says the same is believed"


@pytest.mark.parametrize(("amount", "is_held"), [("2.4999999999999996", False), ("2.51", True)])
def test_amounts_are_equal_to_the_minor_unit_and_stored_as_they_were_sent(
    database: Database, amount: str, *, is_held: bool
) -> None:
    _load(database, _entries(40, amount=amount))

    receipt = _load(database, _entries(40), Judge(SETTLED, is_second=True))

    assert (receipt.verdict is CountVerdict.HELD) is is_held
    stored = database.execute(text("SELECT DISTINCT amount::text FROM seller.transactions")).scalars().all()
    assert stored == [amount if is_held else "2.50"]


def _stored(database: Database, account: str = ACCOUNT) -> Sequence[Any]:
    return database.execute(_ROWS, {"account": account}).all()


def _count(database: Database, table: str = "seller.transactions") -> int:
    return int(database.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


_ON_A_DAY = _entries(240)[::10]


@pytest.mark.parametrize(
    ("before", "after", "settled", "reason"),
    [
        (_entries(3), [], frozenset(), "none of 3 stored rows was read"),
        (
            _ON_A_DAY[:20],
            [*_ON_A_DAY, *(_entries(1, amount=amount)[0] for amount in "3456")],
            SETTLED,
            "8 of 28 rows are missing or others than before on 1 settled day",
        ),
        (_entries(600), _entries(590), SETTLED, "10 of 600 rows were added or are missing on 10 settled days"),
        (
            _entries(200),
            _entries(150),
            frozenset(),
            "50 of 200 rows are missing on 10 days (in all 50 of 200 rows, 125.00 of 500.00 in amount, 10 of 10 days)",
        ),
        (_entries(4), _entries(4, amount=None), SETTLED, "the sum of amount changes by 10.00, on 4 settled days"),
    ],
)
def test_what_contradicts_the_stored_rows_is_held_and_the_stored_rows_stay(
    database: Database, before: list[Row], after: list[Row], settled: frozenset[date], reason: str
) -> None:
    stored = _load(database, before)

    with pytest.raises(ImplausibleReadingError, match=re.escape(reason)):
        _load(database, after, Judge(settled))
    held = _load(database, after, Judge(settled, is_second=True))

    assert (held.verdict, held.changed, held.rows) == (CountVerdict.HELD, False, len(before))
    assert reason in doubt_of(held).reason
    assert _count(database) == len(before)
    assert _count(database, "history.transactions") == 0
    assert [receipt.id for receipt in latest_receipts(database)] == [stored.id]
    assert [receipt.id for receipt in open_holds(database)] == [held.id]


def test_rows_of_another_account_with_equal_ctids_stay_apart(database: Database) -> None:
    database.execute(text("TRUNCATE seller.transactions"))  # ctids begin anew
    for account in (ACCOUNT, OTHER):
        _load(database, _entries(600), account=account)
    before = database.execute(_ROWS_WITH_EQUAL_CTIDS, {"account": OTHER}).all()

    receipt = _load(database, [*_entries(1, amount="2.500"), *_entries(594, first=1)], Judge(SETTLED))

    assert receipt.verdict is CountVerdict.MATCH  # ten missing rows of settled days are held
    assert (len(before), _stored(database, OTHER)) == (600, before)


def test_a_list_that_announces_no_total_any_more_is_held_if_rows_differ(database: Database) -> None:
    _load(database, _entries(3))

    assert not _load(database, _entries(3), Judge(), announces=False).changed
    _load(database, _entries(3))
    with pytest.raises(ImplausibleReadingError, match="announced no total, which it did before"):
        _load(database, _entries(4), Judge(), announces=False)
    _load(database, _entries(5), announces=False)
    assert _load(database, _entries(6), Judge(), announces=False).changed


def test_a_first_snapshot_of_a_day_is_held_without_its_total(database: Database) -> None:
    receipts = [_stock(database, 10, 1), _stock(database, 11, 2, announces=False)]

    assert [each.verdict for each in receipts] == [CountVerdict.MATCH, CountVerdict.HELD]


def test_a_snapshot_is_compared_with_the_newest_one_with_rows_before(database: Database) -> None:
    first, fewer = _stock(database, 10, 1), _stock(database, 6, 2)
    for dataset, account, rows in ((STOCK, ACCOUNT, 0), (STOCK, OTHER, 5), (COSTS, ACCOUNT, 5)):
        store_receipt(database, dataset, account, Window.day(date(2026, 3, 3)), rows=rows)
    gone, back = _stock(database, 2, 4), _stock(database, 7, 5)
    no_holds = open_holds(database)
    store_receipt(database, STOCK, ACCOUNT, Window.day(date(2026, 3, 6)), notes={"accepted": {}})
    after_an_accepted_one = _stock(database, 1, 7)
    store_receipt(database, STOCK, ACCOUNT, Window.day(date(2026, 3, 20)), rows=9)
    database.execute(text("DELETE FROM seller.warehouse_stock WHERE local_day = '2026-03-05'"))

    assert [each.verdict for each in (first, fewer, back, after_an_accepted_one)] == [CountVerdict.MATCH] * 4
    assert "4 of 6 rows were added or are missing" in doubt_of(gone).reason
    assert no_holds == ()
    assert [_stock(database, count, day).verdict for count, day in ((4, 8), (3, 5))] == [CountVerdict.HELD] * 2


def test_a_snapshot_is_compared_by_value_while_one_is_held(database: Database) -> None:
    _stock(database, 5, 1)
    database.execute(text("UPDATE seller.warehouse_stock SET quantity = 9"))
    store_receipt(database, STOCK, ACCOUNT, Window.day(DAYS.start), verdict="held")

    assert _stock(database, 5, 1).changed


def test_under_another_zone_only_readings_of_all_days_count(database: Database) -> None:
    """Readings of days beside neither confirm a hold nor end it, and those of some days do not end the comparison."""

    def lie(number: int, rows: Sequence[Row] = _entries(90)) -> Receipt:
        at = NOON + number * timedelta(hours=21)
        return _load(database, rows, Judge(SETTLED, is_second=True), zone="Asia/Tokyo", at=at)

    def store_beside(number: int, **columns: Any) -> None:
        for day in (DAYS.start - timedelta(days=1), DAYS.end):
            at = NOON + number * timedelta(hours=21)
            store_receipt(database, TRANSACTIONS, ACCOUNT, Window.day(day), at=at, **columns)

    _load(database, _entries(100), zone="UTC")
    for part in (DAYS.since(date(2026, 3, 2)), DAYS.until(date(2026, 3, 10))):
        store_receipt(database, TRANSACTIONS, ACCOUNT, part, time_zone="Asia/Tokyo")
    first = lie(0)
    for number in (1, 2):
        store_beside(number, verdict="held", notes={"held": msgspec.to_builtins(doubt_of(first))})
    second = lie(3)
    store_beside(4)
    third = lie(4)
    of_a_day = lie(5, [row for row in _entries(90) if row[-1] != TWO_DAYS[0]])

    assert [each.verdict.value for each in (first, second, third)] == ["held", "held", "match"]
    assert ([*doubt_of(second).claim], [*doubt_of(of_a_day).claim]) == ([""], [TWO_DAYS[0]])


def test_an_accepted_reading_is_published_if_it_still_says_the_same(database: Database) -> None:
    _load(database, _entries(600))
    doubt = doubt_of(_load(database, _entries(300), Judge(is_second=True)))

    other, emptied, same = (
        _load(database, _entries(count), Judge(is_second=True, accepted=Accepted(doubt, why="a sale")))
        for count in (200, 0, 295)
    )

    assert [each.verdict.value for each in (other, emptied, same)] == ["held", "held", "match"]
    assert (_count(database), _count(database, "history.transactions")) == (295, 305)
    accepted = (same.notes or {})["accepted"]
    assert (accepted["by"], accepted["why"]) == ("an operator", "a sale")


@pytest.mark.parametrize(
    ("hours", "counts", "published"),
    [
        ((0, 20, 40), (300, 300, 300), True),
        ((0, 20, 39), (300, 300, 300), False),
        ((0, 24, 48), (300, 200, 300), False),
        ((0, 24, 48), (302, 301, 300), True),
        ((0, 24, 48), (300, 300, 0), False),
        ((0, 24, 48), (0, 0, 0), True),
        ((0, 24, 48, 72), (300, 200, 300, 300), False),
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

    assert {each.verdict for each in receipts[:-1]} == {CountVerdict.HELD}
    assert (receipts[-1].verdict is CountVerdict.MATCH) is published


def _with(name: str, value: Callable[[Any], object]) -> Callable[[list[Row]], list[Row]]:
    """Return what gives rows another value in a column."""
    place = [column.name for column in TRANSACTIONS.columns].index(name)
    return lambda rows: [(*row[:place], value(row[place]), *row[place + 1 :]) for row in rows]


TWO_DAYS = ("2026-03-04", "2026-03-05")


def test_accounts_are_compared_by_identity(database: Database) -> None:
    names = [column.name for column in ACCOUNTS.columns]

    def load(ids: Sequence[int]) -> Receipt:
        with open_load(database, Slice(ACCOUNTS, "default", DAYS)) as load:
            for each in ids:
                values = {"id": each, "seller_id": f"S{each}", "marketplace": "DE"}
                load.spool.write([(*map(values.get, names), "default")], page=1, account=f"de-{each}")
            facts = LoadFacts(1, 1, 0, None, CountVerdict.UNVERIFIABLE)
            return load.store(facts, started_at=NOON, judge=Judge(is_second=True))

    verdicts = [load(ids).verdict.value for ids in ((1, 2), (1, 2, 3), (2, 3), (4, 5), (3, 4, 5))]
    of_others = load((6, 7, 8))

    assert verdicts == ["unverifiable", "unverifiable", "unverifiable", "held", "unverifiable"]
    assert doubt_of(of_others).reason == "none of 3 stored rows was read (in all 3 of 3 rows)"


@pytest.mark.parametrize(
    ("claim", "other", "expected"),
    [
        ((0, "0"), (0, "0"), True),
        ((0, "0"), (1, "0"), False),
        ((1, "0"), (2, "0"), True),
        ((3, "0"), (1, "0"), False),
        ((100, "0"), (105, "0"), True),
        ((100, "0"), (106, "0"), False),
        ((9, "100"), (9, "105"), True),
        ((9, "-106"), (9, "-100"), False),
        ((9, "100"), (9, "-100"), False),
    ],
)
def test_two_readings_say_the_same_give_or_take_a_row_or_a_twentieth(
    claim: tuple[int, str], other: tuple[int, str], expected: bool
) -> None:
    one, two = (Claim(rows, Decimal(amount)) for rows, amount in (claim, other))

    assert one.agrees_with(two) is expected
    assert not one.agrees_with(Claim(two.rows, two.amount, "us-1 was account 1"))


@pytest.mark.parametrize(
    ("in_doubt", "with_rows", "held"),
    [("A", "A", "A"), ("A", "AB", "A"), ("AB", "AB", "ABxy"), ("AB", "ABC", "ABCxy"), ("ABC", "ABCDEF", "ABC")],
)
def test_more_than_half_of_the_days_in_doubt_put_all_that_change_in_doubt(
    in_doubt: str, with_rows: str, held: str
) -> None:
    changes = {day: DayChange(5, 5) for day in with_rows} | {"x": DayChange(0, 5), "y": DayChange(0, 0, others=1)}
    findings = {day: [Contradiction(RULES[0], ""), Contradiction(RULES[1], "")] for day in in_doubt}

    of_days, _ = Judge().held(findings, changes, {}, NOON)

    assert "".join(of_days) == held
    assert all(of_days[day] == findings.get(day, [Contradiction(RULES[0], "")]) for day in held)


def test_the_requests_of_a_reading_are_divided_among_its_parts(database: Database) -> None:
    _load(database, _entries(100))
    rows = [row for row in _entries(100) if row[-1] not in ("2026-03-05", "2026-03-08")]
    with open_load(database, Slice(TRANSACTIONS, ACCOUNT, DAYS)) as load:
        load.spool.write(rows, page=1)
        load.spool.remember(b"page", duplicate_keys=0, unknown_fields=frozenset())
        facts = LoadFacts(7, 5, 100, len(rows), CountVerdict.MATCH)
        last = load.store(facts, started_at=NOON + timedelta(days=1), judge=Judge(SETTLED, is_second=True))

    columns = "requests, pages, body_bytes, announced, rows"
    parts = database.execute(text(f"SELECT {columns} FROM platform.loads ORDER BY id OFFSET 1")).all()

    divided = [part[:3] for part in parts]
    assert [part[3:] for part in parts] == [(40, 40), (0, 10), (20, 20), (0, 10), (20, 20)]
    assert (last.window, last.verdict) == (Window.day(date(2026, 3, 8)), CountVerdict.HELD)
    assert [sum(numbers) for numbers in zip(*divided, strict=True)] == [7, 5, 100]
    assert [sorted(numbers) for numbers in zip(*divided, strict=True)] == [[1, 1, 1, 2, 2], [1] * 5, [20] * 5]
    assert _count(database, "platform.known_pages") == 0


@pytest.mark.parametrize(("busy", "held"), [(40, "a"), (60, "abc")])
def test_a_reading_most_of_whose_settled_rows_are_in_doubt_is_held_whole(busy: int, held: str) -> None:
    days = {
        "a": DayChange(busy, 5, lost=busy - 5, others=busy - 5),
        "b": DayChange(25, 24, lost=1),
        "c": DayChange(25, 25),
    }
    judge = Judge(frozenset(days))

    of_days, _ = judge.held(judge.findings(TRANSACTIONS, days, lacks_total=False), days, {}, NOON)

    assert "".join(of_days) == held


def test_recent_days_that_are_in_doubt_alone_put_no_others_in_doubt() -> None:
    days = {"a": DayChange(40, 10, lost=30, others=30), "b": DayChange(100, 99, lost=1, others=1)}

    assert [*Judge().findings(TRANSACTIONS, days, lacks_total=False)] == ["a"]


def test_rows_that_come_twice_are_held_and_those_stored_twice_may_go(database: Database) -> None:
    """Rows with the key of another row are named by a check."""

    def rows(*numbers: int) -> list[Row]:
        days, names = [*DAYS.each_day()], [column.name for column in DAILY.columns]
        values = [{"date": str(days[each % 10]), "sku": f"SKU-{each}", "product_sales": Decimal(9)} for each in numbers]
        return [(*map(each.get, names), each["date"]) for each in values]

    once, twice = rows(*range(120)), rows(*range(120), *range(0, 120, 12))
    _load(database, once, dataset=DAILY)

    verdicts = [
        _load(database, listed, judge, dataset=DAILY).verdict.value
        for listed, judge in ((twice, Judge(SETTLED, is_second=True)), (twice, None), (once, Judge(SETTLED)))
    ]

    assert verdicts == ["held", "match", "match"]


COST = '[{"currency": "EUR", "amount": "12.50"}]'


def _costs(*amounts: int) -> str:
    return json.dumps([{"currency": "EUR", "amount": amount} for amount in amounts])


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        (COST, "[]", "emptied"),
        (COST, COST.replace("12.50", "1250.00"), "values"),
        (COST, COST.replace("EUR", "JPY"), "values"),
        (COST, COST.replace("12.50", "14.00"), None),
        (COST, COST.replace("12.50", "of old"), None),
        (_costs(9, 0, 0, 0, 0, 0), _costs(9, 9, 9, 9, 9, 9), "values"),
    ],
)
def test_costs_are_compared_by_value(database: Database, before: str, after: str, rule: str | None) -> None:
    def load(day: int, elements: str) -> Receipt:
        window = Window.day(date(2026, 3, day))
        rows: list[Row] = [(f"SKU-{n}", "2026-01-01", None, elements, str(window.start)) for n in range(20)]
        return _load(database, rows, Judge(is_second=True), dataset=COSTS, window=window)

    load(1, before)

    receipt = load(2, after)

    assert (doubt_of(receipt).rule if receipt.verdict is CountVerdict.HELD else None) == rule


def test_an_entry_with_another_date_names_the_day_on_which_it_was(database: Database) -> None:
    """That day may lose its only rows, which are stored on another one."""
    april, first_day = Window(date(2026, 4, 1), date(2026, 4, 11)), Window.day(DAYS.start)

    def dated(day: str, *rows: Row) -> list[Row]:
        moved = _with(str(TRANSACTIONS.day), lambda _: f"{day}T10:00:00+00:00")([*rows])
        return [(*row[:-1], day) for row in moved]

    both = [_entries(10)[0], *_entries(1, first=10)]
    _load(database, [*both, *dated("2026-03-02", *both), *_entries(9, first=1)])
    with pytest.raises(ImplausibleReadingError):  # they were on both days before
        _load(database, [], Judge({DAYS.start}), window=first_day)
    of_first, *others = _entries(3, first=20)
    _load(database, dated("2026-04-01", of_first, *others), window=april)

    listed = [*dated("2026-04-01", *others), *dated("2026-04-02", of_first, *both)]
    named = _load(database, listed, Judge(), window=april)
    again = _load(database, [], Judge({DAYS.start}), window=first_day)

    assert (named.notes or {})["dated_anew"] == ["2026-03-02", "2026-03-01"]
    assert (again.verdict, _count(database)) == (CountVerdict.MATCH, 16)
