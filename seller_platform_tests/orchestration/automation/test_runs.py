"""Tests that runs are ranges of accounts and months, newest first, none too long."""

from datetime import date

from seller_platform.contract import LISTS, Window, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.orchestration.automation.runs import PlannedRun, plan_runs
from seller_platform.orchestration.tags import ACCOUNT_TAG, CHANGED, REFRESH_TAG

MONTHS = list(Window(date(2024, 12, 1), date(2026, 12, 1)).months())
KEYS = [f"us-{10000 + number}" for number in range(1_000)]
ORDERS = dataset_named("orders")


def ranges(planned: list[PlannedRun]) -> list[tuple[str | None, str | None]]:
    return [(run.first, run.last) for run in planned]


def test_runs_are_cut_and_newest_months_come_first_across_all_accounts() -> None:
    planned = plan_runs(((ORDERS, key, month, True) for month in MONTHS[-2:] for key in KEYS[:450]), listed=KEYS)

    assert ranges(planned) == [
        (f"{KEYS[0]}|2026-11-01", f"{KEYS[299]}|2026-11-01"),
        (f"{KEYS[300]}|2026-10-01", f"{KEYS[449]}|2026-11-01"),
        (f"{KEYS[0]}|2026-10-01", f"{KEYS[299]}|2026-10-01"),
    ]


def test_a_range_has_no_account_and_no_month_beside_those_to_read() -> None:
    months = {MONTHS[0]: KEYS[:2], MONTHS[2]: KEYS[:2], MONTHS[3]: [KEYS[0], KEYS[2]]}

    planned = plan_runs(((ORDERS, key, month, False) for month, keys in months.items() for key in keys), listed=KEYS)

    assert ranges(planned) == [
        (f"{KEYS[0]}|2025-03-01", f"{KEYS[0]}|2025-03-01"),
        (f"{KEYS[2]}|2025-03-01", f"{KEYS[2]}|2025-03-01"),
        (f"{KEYS[0]}|2025-02-01", f"{KEYS[1]}|2025-02-01"),
        (f"{KEYS[0]}|2024-12-01", f"{KEYS[1]}|2024-12-01"),
    ]


def test_snapshots_come_first_and_what_follows_the_inventory_last() -> None:
    partitions = [
        (dataset, KEYS[0], month, True)
        for dataset in (COST_PERIODS, *LISTS)
        for month in (MONTHS if dataset.is_dated else (None,))
    ]

    first, second, *_, last = plan_runs(partitions, listed=KEYS)

    assert dataset_named("inventory") in first.datasets
    assert ORDERS in second.datasets
    assert last.datasets == (COST_PERIODS,)


def test_the_tags_of_a_run_name_its_range_its_reading_and_its_account() -> None:
    (one,) = plan_runs([(ORDERS, KEYS[0], MONTHS[0], False)], listed=KEYS)
    (many,) = plan_runs(((dataset_named("inventory"), key, None, True) for key in KEYS[:2]), listed=KEYS)

    assert one.tags[ACCOUNT_TAG] == KEYS[0]
    assert one.tags[REFRESH_TAG] == CHANGED
    assert many.tags == {"dagster/asset_partition_range_start": KEYS[0], "dagster/asset_partition_range_end": KEYS[1]}
    assert PlannedRun((ORDERS,)).tags == {}
