"""Tests which failures share a cause."""

import pytest

from seller_platform.orchestration.alerting.causes import Failure


def failure(kind: str, sentence: str, *, subject: str = "seller/orders", account: str = "A1.US") -> Failure:
    return Failure(kind, subject, sentence, accounts=[account])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("GET /sales/orders: status 503 after 6 attempts", "GET /sales/transactions: status 503 after 6 attempts"),
        ("orders of A1.US: 3 pages", "orders of B2.DE: 17 pages"),
        ("it ends with A1.US.", "it ends with B2.DE."),
        ("its day lies on 2026-01-01 in Europe/Berlin", "its day lies on 2025-12-31 in America/Los_Angeles"),
        ("from 1,204.50 to 1,300.00", "from 7 to 8"),
    ],
)
def test_a_cause_leaves_out_accounts_zones_requests_and_numbers(one: str, other: str) -> None:
    of_another = failure("failed", other, subject="seller/transactions", account="B2.DE")

    assert failure("failed", one).cause == of_another.cause


def test_a_cause_has_the_sentence_and_of_some_kinds_asset_and_account() -> None:
    causes = [
        failure("failed", "connection 'one' must be authorised again"),
        failure("failed", "connection 'two' must be authorised again"),
        failure("held", "no row was read"),
        failure("held", "no row was read", account="B2.DE"),
        failure("late", "It was not read."),
        failure("late", "It was not read.", subject="seller/inventory"),
        failure("check failed", "mismatch: 3 rows"),
        failure("check failed", "mismatch: 3 rows", subject="seller/inventory"),
    ]

    assert len({each.cause for each in causes}) == len(causes)
    assert failure("late", "It was not read.", account="B2.DE").cause == causes[4].cause
