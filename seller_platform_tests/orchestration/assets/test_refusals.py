"""Tests that runs store which slices were refused, and why."""

from seller_platform.contract import dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.orchestration.assets.cost_periods import cost_asset
from seller_platform.orchestration.partitions import partition_key
from seller_platform.warehouse.loads.refusals import refusals
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.platform import MONTHS, Platform

LEDGER, STATISTICS = map(dataset_named, ("transactions", "sales_by_date"))
KEY = sorted(independent_upstream.KEYS.values())[0]
MARCH = partition_key(KEY, MONTHS[-1])


def _refused(platform: Platform) -> dict[str, list[tuple[str, str]]]:
    return {
        dataset: [(each.month, each.error) for each in of_pair]
        for (dataset, _), of_pair in refusals(platform.database).items()
    }


def test_refusals_are_stored_until_their_slices_are_loaded(platform: Platform) -> None:
    platform.discover()
    platform.assets[COST_PERIODS.name] = cost_asset()
    platform.upstream.missing = (LEDGER.path, STATISTICS.path)

    for dataset, partition in ((LEDGER, MARCH), (STATISTICS, MARCH), (COST_PERIODS, KEY)):
        platform.run([dataset], partition, partition)
    before = _refused(platform)
    platform.upstream.missing = ()
    assert platform.run([LEDGER], MARCH, MARCH).success
    after = _refused(platform)

    assert before == {
        "transactions": [("2026-03", "RequestRefusedError")],
        "sales_by_date": [("2026-03", "NotOfferedError")],
        "cost_periods": [("", "ProductsUnknownError")],
    }
    assert set(after) == {"sales_by_date", "cost_periods"}
