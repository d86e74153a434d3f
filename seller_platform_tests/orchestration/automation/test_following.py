"""Tests when the sensor requests partitions of marts, and when it waits."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import dataset_named
from seller_platform.marts.assets import mart_follower
from seller_platform.orchestration.automation import following
from seller_platform.orchestration.partitions import add_accounts, asset_key, partition_key
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.platform import MONTHS
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.shop import mart_named
from seller_platform_tests.support.ticks import Ticks, definitions_of_marts

PROFIT = mart_named("account_profit_daily")
PROFIT_FOLLOWER = mart_follower(PROFIT)
INPUTS = ("daily_product_sales", "transactions", "cost_periods")
ACCOUNT, OTHER = "us-1", "us-2"
JANUARY, FEBRUARY = MONTHS[:2]
PARTITION = str(partition_key(ACCOUNT, JANUARY))
DUE = {"marts/account_profit_daily": {PARTITION}}


@pytest.fixture
def ticks(database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ticks]:
    """The sensor of one mart, of which a month of an account is due."""
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    definitions = definitions_of_marts(database_url, [PROFIT_FOLLOWER])
    for name in INPUTS[:2]:
        mark_loaded(database, dataset_named(name), ACCOUNT, JANUARY)
    with dg.DagsterInstance.ephemeral() as instance:
        add_accounts(instance, [ACCOUNT, OTHER])
        yield Ticks(definitions, instance, database_url)


def _run(ticks: Ticks, key: dg.AssetKey, status: dg.DagsterRunStatus, first: str, last: str) -> str:
    """Store a run over a range of partitions."""
    job = ticks.definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection={key})
    ends = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return ticks.instance.create_run_for_job(job, tags=ends, status=status, asset_selection=frozenset({key})).run_id


def _slice(database: Database, columns: str) -> None:
    database.execute(text(f"UPDATE platform.slices SET {columns} WHERE dataset = 'transactions'"))


def test_what_a_run_under_way_builds_or_loads_is_not_requested(ticks: Ticks) -> None:
    of_others = (str(partition_key(OTHER, JANUARY)), str(partition_key(OTHER, FEBRUARY)))
    keys = (asset_key(PROFIT), asset_key(dataset_named("transactions")))
    for key, status in product(keys, (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTED)):
        _run(ticks, key, status, *of_others)
        _run(ticks, key, status, *(str(partition_key(ACCOUNT, FEBRUARY)),) * 2)
        beside = ticks.tick()
        run_id = _run(ticks, key, status, PARTITION, str(partition_key(OTHER, FEBRUARY)))
        during, message = ticks.tick(), ticks.message
        ticks.instance.report_run_canceled(ticks.instance.get_run_by_id(run_id))  # type: ignore[arg-type]  # it exists

        assert (beside, during, ticks.tick()) == (DUE, {}, DUE)
        assert message == "1 partition waits for a run under way"


def test_what_waits_for_a_failed_input_is_not_requested(ticks: Ticks, database: Database) -> None:
    _slice(database, "error = 'ListChangedError', message = 'It changed.', failed_since = now(), failed_at = now()")
    while_failed, message = ticks.tick(), ticks.message
    _slice(database, "error = NULL")
    mark_loaded(database, dataset_named("transactions"), ACCOUNT, JANUARY)

    assert (while_failed, ticks.tick()) == ({}, DUE)
    assert message == "1 partition waits for an input that has a problem"


def test_a_run_that_left_no_trace_is_requested_once_an_hour(ticks: Ticks, database: Database) -> None:
    first, second = ticks.tick(), ticks.tick()
    mark_loaded(database, dataset_named("transactions"), ACCOUNT, JANUARY)
    third = ticks.tick()

    hours = {str(key).rpartition(":")[2] for key in ticks.run_keys}
    assert first == second == third == DUE
    assert len(hours) in (1, 2)  # the clock may have struck
    assert len(set(ticks.run_keys)) == 1 + len(hours)


def test_what_a_command_built_and_did_not_report_is_built_an_hour_later(ticks: Ticks, database: Database) -> None:
    build_partition(database, PROFIT, ACCOUNT, JANUARY)
    under_way = ticks.tick()
    database.execute(text("UPDATE platform.derived_partitions SET tried_at = tried_at - interval '1 hour'"))
    ticks.cursor = None  # ten minutes later
    after_an_hour = ticks.tick()
    build_partition(database, PROFIT, ACCOUNT, JANUARY, run_id="run")

    assert (under_way, after_an_hour, ticks.tick()) == ({}, DUE, {})
    ticks.tick()
    assert (ticks.tick(), ticks.message) == ({}, "nothing was loaded or built since nothing was due")


def test_each_tick_goes_on_with_the_accounts_that_the_last_one_left(
    ticks: Ticks, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_loaded(database, dataset_named("daily_product_sales"), OTHER, JANUARY)
    mark_loaded(database, dataset_named("transactions"), OTHER, JANUARY)
    of_other = {"marts/account_profit_daily": {str(partition_key(OTHER, JANUARY))}}
    monkeypatch.setattr(following, "_PARTITIONS_PER_TICK", 1)  # of one account, however many these are

    requested = [ticks.tick() for _ in range(3)]
    for account in (ACCOUNT, OTHER):
        build_partition(database, PROFIT, account, JANUARY, run_id="run")
    ticks.tick()  # ends the round in which something was due
    of_round = [(ticks.tick(), ticks.message) for _ in range(3)]

    assert requested == [DUE, of_other, DUE]
    assert [found for found, _ in of_round] == [{}, {}, {}]
    assert [message for _, message in of_round] == [
        *["nothing is due"] * 2,
        "nothing was loaded or built since nothing was due",
    ]
