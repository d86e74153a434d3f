"""Tests the evaluations of each check over an upstream that breaks its rule."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.cli.status.findings import findings
from seller_platform.cli.status.overview import overview
from seller_platform.contract import DATASETS, Dataset, Source, dataset_named
from seller_platform.orchestration.assets.checks import RULES, checks_of
from seller_platform.orchestration.assets.reporting import report_checks
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform.orchestration.placement import WHOLE
from seller_platform.warehouse.loads.receipts import receipts_of_run
from seller_platform.warehouse.monitoring.repeated_ledgers import compare_changed
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.platform import HISTORY_START, MONTHS, Platform

ORDERS, TRANSACTIONS = dataset_named("orders"), dataset_named("transactions")
DAILY = dataset_named("daily_product_sales")
KEYS = sorted(independent_upstream.KEYS.values())
JANUARY = str(partition_key(KEYS[0], MONTHS[0]))

Page = Callable[..., dict[str, Any]]


@pytest.fixture
def loads(platform: Platform) -> Callable[[Dataset], dg.ExecuteInProcessResult]:
    """Loads January of the first account."""
    platform.discover()
    return lambda dataset: platform.run([dataset], JANUARY, JANUARY)


def _evaluation(platform: Platform, dataset: Dataset, name: str) -> dg.AssetCheckEvaluation:
    """Return the newest evaluation of a check, which no run has planned."""
    check = dg.AssetCheckKey(asset_key(dataset), name)
    (record,) = platform.instance.event_log_storage.get_asset_check_execution_history(check, limit=1)
    assert (record.run_id, record.partition) == ("", None)
    assert record.evaluation is not None
    return record.evaluation


def _lines(evaluation: dg.AssetCheckEvaluation) -> list[dict[str, Any]]:
    """Return the table of what fails."""
    table = evaluation.metadata["failing"]
    assert isinstance(table, dg.TableMetadataValue)
    return [dict(record.data) for record in table.records]


def _lying(honest: Page, times: int) -> Page:
    """Return lists that announce one row too many in a number of answers."""
    left = [times]

    def page(*arguments: Any, **options: Any) -> dict[str, Any]:
        answer = honest(*arguments, **options)
        if left[0]:
            left[0] -= 1
            answer["total"] = str(int(answer["total"].replace(",", "")) + 1)
        return answer

    return page


def test_an_honest_slice_passes_every_check_of_its_dataset(platform: Platform, loads: Any) -> None:
    loads(TRANSACTIONS)

    for check in checks_of(TRANSACTIONS):
        evaluation = _evaluation(platform, TRANSACTIONS, check.name)
        assert evaluation.passed, evaluation.description
        assert evaluation.description == f"{check.doc} That is true of 1 slice."
        assert evaluation.target_materialization_data is not None


def test_rows_that_never_match_the_total_are_asked_once_more_then_fail(
    platform: Platform, loads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(independent_upstream, "_page", _lying(independent_upstream._page, 1_000))

    result = loads(TRANSACTIONS)

    (receipt,) = receipts_of_run(platform.database, result.run_id)
    evaluation = _evaluation(platform, TRANSACTIONS, "row_count_matches_total")
    assert (receipt.verdict, receipt.requests) == ("mismatch", 3)  # two pages, and the first again
    assert not evaluation.passed
    assert evaluation.severity is dg.AssetCheckSeverity.ERROR
    assert str(evaluation.description).startswith(
        "1 of 1 slice breaks this rule: The number of stored rows is the total"
    )
    (line,) = _lines(evaluation)
    assert (line["account"], line["month"], line["stored"], line["announced"]) == (KEYS[0], "2026-01", "3", "4")
    assert line["title"]
    assert line["since"].endswith(" UTC")
    assert "2026-01-01..2026-01-31: the list announced 4 rows, and 3 were read" in line["reason"]
    assert line["next step"].startswith("Load the partition again")
    assert (evaluation.metadata["failed_slices"].value, evaluation.metadata["slices"].value) == (1, 1)


@pytest.mark.slow
def test_a_list_that_keeps_changing_fails_the_check_of_its_partition(
    platform: Platform, loads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = iter(range(1_000_000))
    honest = independent_upstream.transaction_rows
    monkeypatch.setattr(
        independent_upstream,
        "transaction_rows",
        lambda month: [{**row, "description": f"entry {next(number)}"} for row in honest(month) * 400],
    )

    result = loads(TRANSACTIONS)

    evaluation = _evaluation(platform, TRANSACTIONS, "list_held_still")
    assert not result.success
    assert not evaluation.passed
    assert "in each of" in str(evaluation.description)
    assert platform.materialized(TRANSACTIONS) == set()


@pytest.mark.parametrize(
    ("sku", "check", "words"),
    [
        ("SKU 1", "keys_are_unique", "have the key of another row"),
        (None, "keys_are_present", r"have no value in their key: row 4 of page 1 \(sku\)"),
        (
            "a\0\ud800",
            "values_are_readable",
            r"have text that PostgreSQL does not store .*: row 4 of page 1 \(sku\)\. U\+FFFD is stored in its place",
        ),
    ],
)
def test_a_row_that_breaks_a_rule_is_stored_and_named(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, sku: str | None, check: str, words: str
) -> None:
    honest = independent_upstream.daily_rows
    monkeypatch.setattr(
        independent_upstream, "daily_rows", lambda month: [*honest(month), {**honest(month)[0], "sku": sku}]
    )

    platform.discover()
    platform.run([DAILY], JANUARY, JANUARY)

    evaluation = _evaluation(platform, DAILY, check)
    is_error = evaluation.severity is dg.AssetCheckSeverity.ERROR
    assert not evaluation.passed
    assert is_error is (check == "keys_are_present")
    assert re.search(f"1 of 4 rows {words}", str(evaluation.description))
    with platform.database.begin() as connection:
        skus = connection.execute(text("SELECT sku FROM seller.daily_product_sales")).scalars().all()
    assert (len(skus), set(skus)) == (4, {"SKU 1", sku and sku.replace("\0\ud800", "\ufffd\ufffd")})


def test_a_field_that_is_not_declared_is_named(platform: Platform, loads: Any) -> None:
    loads(ORDERS)

    evaluation = _evaluation(platform, ORDERS, "fields_are_known")
    assert not evaluation.passed
    assert evaluation.severity is dg.AssetCheckSeverity.WARN
    assert "fields that are not declared: is_gift." in str(evaluation.description)


def test_a_field_of_another_kind_fails_the_check_and_stores_nothing(
    platform: Platform, loads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = independent_upstream.daily_rows
    monkeypatch.setattr(
        independent_upstream, "daily_rows", lambda month: [{**row, "units_ordered": "two"} for row in honest(month)] * 2
    )

    loads(DAILY)

    evaluation = _evaluation(platform, DAILY, "fields_are_known")
    assert not evaluation.passed
    assert 'values of units_ordered cannot be read; the first is "two" in row 1' in str(evaluation.description)
    assert platform.materialized(DAILY) == set()


def test_a_settled_month_that_changes_much_is_reported_with_its_amounts(
    platform: Platform, loads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads(TRANSACTIONS)
    honest = independent_upstream.transaction_rows
    monkeypatch.setattr(independent_upstream, "transaction_rows", lambda month: honest(month)[1:])

    loads(TRANSACTIONS)

    evaluation = _evaluation(platform, TRANSACTIONS, "restatement_is_small")
    assert not evaluation.passed
    assert evaluation.severity is dg.AssetCheckSeverity.WARN
    assert "rows from 3 to 2" in str(evaluation.description)
    assert "amount EUR from -9671.94 to -4836.02" in str(evaluation.description)


def test_a_ledger_that_two_accounts_of_a_seller_have_warns_of_both(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = independent_upstream.transaction_rows
    monkeypatch.setattr(
        independent_upstream,
        "transaction_rows",
        lambda month: [{**row, "platform_order_id": f"305-{number}"} for number in range(9) for row in honest(month)],
    )
    platform.discover()
    outdated = "INSERT INTO platform.repeated_ledgers VALUES (:account, '2026-01-01', 'S9.US', 5, 9, '{}')"
    with platform.database.begin() as connection:
        connection.execute(text(outdated), {"account": KEYS[0]})
    receipts = receipts_of_run(platform.database, platform.months(TRANSACTIONS, last=MONTHS[0]).run_id)

    of_two_sellers = _evaluation(platform, TRANSACTIONS, "ledgers_do_not_repeat")
    with platform.database.begin() as connection:
        connection.execute(text("UPDATE platform.accounts SET seller_id = 'A1'"))
    compare_changed(platform.database, receipts)
    report_checks(platform.instance, platform.database, WHOLE, [TRANSACTIONS])
    of_one_seller = _evaluation(platform, TRANSACTIONS, "ledgers_do_not_repeat")
    state = overview(platform.database, since=HISTORY_START, now=datetime(2026, 2, 1, tzinfo=UTC))
    ((notice,),) = [group for group in findings(state) if group[0].word == "repeated"]

    assert of_two_sellers.passed
    assert (of_one_seller.passed, of_one_seller.severity) == (False, dg.AssetCheckSeverity.WARN)
    first, other = _lines(of_one_seller)
    assert [first["account"], other["account"]] == KEYS
    assert first["reason"] == (
        f"27 of 27 rows with an order (100.0 %) are also in the ledger of account {KEYS[1]}: "
        "sums over these accounts count EUR -87047.46 twice."
    )
    assert all(key in notice.text for key in KEYS)
    assert notice.command == 'seller-platform query "SELECT * FROM platform.repeated_ledgers"'


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda dataset: dataset.name)
def test_every_dataset_counts_its_rows_and_knows_its_fields(dataset: Dataset) -> None:
    names = {check.name for check in checks_of(dataset)}

    assert "row_count_matches_total" in names
    # The columns of a report are unknown before it is downloaded.
    assert ("fields_are_known" in names) == (dataset.source is not Source.REPORT)
    assert ("keys_are_unique" in names) == bool(dataset.key)
    # Those of a report are numbers of our own.
    assert ("keys_are_present" in names) == (bool(dataset.key) and dataset.source is not Source.REPORT)


def test_every_check_has_a_description() -> None:
    assert all(check.doc.endswith(".") for check in RULES)
