"""Tests the evaluations of each check over an upstream that breaks its rule."""

from collections.abc import Callable
from itertools import count
from typing import Any

import dagster as dg
import pytest

from seller_platform.contract import Dataset, dataset_named
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform_tests.support.platform import KEYS, MONTHS, ROW_COUNT, Platform, reported_partitions
from seller_platform_tests.support.receipts import receipts_of_run

ORDERS, TRANSACTIONS = dataset_named("orders"), dataset_named("transactions")
DAILY = dataset_named("daily_product_sales")
JANUARY = str(partition_key(KEYS[0], MONTHS[0]))

Rows = list[dict[str, Any]]

_NUMBERS = count()


def _load(platform: Platform, dataset: Dataset) -> dg.ExecuteInProcessResult:
    """Load January of the first account."""
    platform.discover()
    return platform.run([dataset], JANUARY, JANUARY)


def _evaluation(platform: Platform, dataset: Dataset, name: str) -> dg.AssetCheckEvaluation:
    """Return the newest evaluation of a check, which no run has planned."""
    check = dg.AssetCheckKey(asset_key(dataset), name)
    (record,) = platform.instance.event_log_storage.get_asset_check_execution_history(check, limit=1)
    assert (record.run_id, record.partition) == ("", None)
    assert record.evaluation is not None
    return record.evaluation


def test_rows_never_matching_are_asked_once_more_then_fail(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform.upstream, "surplus", 1)

    result = _load(platform, TRANSACTIONS)

    (receipt,) = receipts_of_run(platform.database, result.run_id)
    evaluation = _evaluation(platform, TRANSACTIONS, ROW_COUNT)
    assert (receipt.verdict, receipt.requests) == ("mismatch", 3)  # two pages, and the first again
    logged = [each.user_message for each in platform.instance.all_logs(result.run_id)]
    assert any("does not add up" in each for each in logged)
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.ERROR)
    broken = "1 of 1 slice breaks this rule: The number of stored rows is the total"
    assert str(evaluation.description).startswith(broken)
    table = evaluation.metadata["failing"]
    assert isinstance(table, dg.TableMetadataValue)
    records: list[Any] = [*table.records]
    (line,) = (record.data for record in records)
    assert (line["account"], line["month"], line["rows"]) == (KEYS[0], "2026-01", "1")
    assert line["title"]
    assert line["since"].endswith(" UTC")
    assert "2026-01-01..2026-01-31: the list announced 4 rows, and 3 were read" in line["reason"]
    assert line["next step"].startswith("Load the partition again")
    assert (evaluation.metadata["failed_slices"].value, evaluation.metadata["slices"].value) == (1, 1)


def _with_sku(sku: str | None) -> Callable[[Rows], Rows]:
    """Return rows, and the first one again with another SKU."""
    return lambda rows: [*rows, {**rows[0], "sku": sku}]


@pytest.mark.parametrize(
    ("dataset", "change", "check", "words"),
    [
        (DAILY, _with_sku("SKU 1"), "keys_are_unique", "1 of 4 rows have the key of another row"),
        (DAILY, _with_sku(None), "keys_are_present", "1 of 4 rows have no value in their key: row 4 of page 1 (sku)"),
        (DAILY, _with_sku("a\0\ud800"), "values_are_readable", "row 4 of page 1 (sku). U+FFFD is stored in its place"),
        (
            DAILY,
            lambda rows: [{**row, "units_ordered": "two"} for row in rows] * 2,
            "fields_are_known",
            'values of units_ordered cannot be read; the first is "two" in row 1',
        ),
        (ORDERS, None, "fields_are_known", "fields that are not declared: is_gift."),
        pytest.param(
            TRANSACTIONS,
            lambda rows: [{**row, "description": f"entry {next(_NUMBERS)}"} for row in rows * 170],
            "list_held_still",
            "in each of",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["equal keys", "no key", "replaced text", "another kind", "undeclared field", "list that changes"],
)
def test_a_slice_that_breaks_a_rule_is_named_by_the_check(  # noqa: PLR0917  # its cases and its fixtures
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
    dataset: Dataset,
    change: Callable[[Rows], Rows] | None,
    check: str,
    words: str,
) -> None:
    if change is not None:
        monkeypatch.setitem(platform.upstream.changes, dataset.path, lambda rows, _: change(rows))

    result = _load(platform, dataset)

    evaluation = _evaluation(platform, dataset, check)
    is_stored = check not in ("fields_are_known", "list_held_still") or dataset is ORDERS
    is_error = check == "list_held_still" or not is_stored
    assert not evaluation.passed
    assert (evaluation.severity is dg.AssetCheckSeverity.ERROR) is is_error
    assert words in str(evaluation.description)
    assert (result.success, reported_partitions(result)) == (is_stored, {JANUARY} if is_stored else set())


def test_large_changes_of_a_settled_month_name_its_amounts(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    _load(platform, TRANSACTIONS)
    monkeypatch.setitem(
        platform.upstream.changes, TRANSACTIONS.path, lambda rows, _: [{**rows[0], "amount": -2417.96}, *rows[1:]]
    )

    _load(platform, TRANSACTIONS)

    evaluation = _evaluation(platform, TRANSACTIONS, "restatement_is_small")
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "amount EUR from -9671.94 to -7253.98" in str(evaluation.description)
