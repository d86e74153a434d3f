"""Tests that repeated ledgers are found, and that chance is none."""

import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.ledgers.comparison import compare_ledgers
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.ledgers.worlds import MARCH, Seller, planted, random_seller, store

SHARES = [number / 100 for number in (5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 35, 40, 50, 60, 70, 80, 90, 95, 99, 100)]
WORLDS = 50


def _repeated(database: Database) -> Sequence[Any]:
    return database.execute(text("SELECT * FROM platform.repeated_ledgers ORDER BY account, month")).all()


def test_each_of_twenty_planted_overlaps_is_found(database: Database) -> None:
    rng = random.Random(15)
    worlds = [planted(random_seller(number, rng, least=60), share, rng) for number, share in enumerate(SHARES)]
    store(database, [seller for seller, _, _ in worlds])

    compare_ledgers(database)

    found = {(each.account, each.other): Decimal(each.rows) / each.compared for each in _repeated(database)}
    for (_, account, other), share in zip(worlds, SHARES, strict=True):
        assert (account, other) in found, f"{share:.0%} of {account} in {other}"
        assert share / 2 < found[account, other] <= 1
    assert {frozenset(pair) for pair in found} == {frozenset(pair) for _, *pair in worlds}


def test_equal_fees_and_short_order_numbers_are_no_overlap(database: Database) -> None:
    rng = random.Random(1)
    store(database, [random_seller(number, rng) for number in range(WORLDS)])

    compare_ledgers(database)

    assert _repeated(database) == []


@pytest.fixture
def seller(database: Database) -> Seller:
    """A seller of whose first account half of the entries are in the second one, too."""
    rng = random.Random(7)
    made = replace(random_seller(1, rng, least=60), zones=dict.fromkeys(("de-1", "fr-1"), "Europe/Berlin"))
    ledgers = {account: made.ledgers[account] for account in made.zones}
    made, *_ = planted(replace(made, ledgers=ledgers, month=made.month), 0.5, rng)
    store(database, [made])
    return made


def test_what_both_have_is_counted_by_row_and_by_amount(database: Database, seller: Seller) -> None:
    compare_ledgers(database)

    own, other = ([each for each in ledger if each.order] for ledger in seller.ledgers.values())
    common = [each for each in own if each in other]
    (first, second) = _repeated(database)
    assert (first.account, first.other, first.month) == ("de-1", "fr-1", seller.month.start)
    assert (first.rows, first.compared, second.compared) == (len(common), len(own), len(other))
    amounts = {"EUR": Decimal(sum(each.cents for each in common)) / 100}
    assert [{name: Decimal(sent) for name, sent in each.amounts.items()} for each in (first, second)] == [amounts] * 2


def test_a_sample_that_finds_an_overlap_is_followed_by_all_entries(database: Database) -> None:
    rng = random.Random(3)
    made, account, other = planted(random_seller(1, rng, least=4_000), 0.05, rng)
    store(database, [made])

    compare_ledgers(database)

    own = [each for each in made.ledgers[account] if each.order and each.order != "-"]
    found = {(each.account, each.other): each for each in _repeated(database)}
    assert set(found) == {(account, other), (other, account)}
    assert found[account, other].compared > 0.9 * len(own)


def test_the_next_comparison_replaces_what_it_compares(database: Database, seller: Seller) -> None:
    compare_ledgers(database)
    database.execute(text("DELETE FROM seller.transactions WHERE account = 'fr-1'"))

    compare_ledgers(database, [("de-2", MARCH)])
    before = [each for each in _repeated(database) if each.account == "de-1"]
    compare_ledgers(database, [("fr-1", seller.month)])

    assert [each.other for each in before] == ["fr-1"]
    assert _repeated(database) == []


def test_ledgers_of_different_sellers_are_not_compared(database: Database, seller: Seller) -> None:
    database.execute(text("UPDATE platform.accounts SET seller_id = key"))

    compare_ledgers(database)

    assert seller.ledgers
    assert _repeated(database) == []
