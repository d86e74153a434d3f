"""Tests runs over many partitions and their events, and the descriptions of the assets."""

import re

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import DATASETS, LISTS, Dataset, Slicing, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.orchestration.assets.checks import checks_of
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.assets.descriptions import describe_dataset
from seller_platform.orchestration.assets.events import table_schema
from seller_platform.orchestration.assets.reporting import checks_for
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform.orchestration.tags import ACCOUNT_TITLE_TAG, CHANGED, NOT_OFFERED, REFRESH_TAG
from seller_platform.warehouse.migrations.upgrade import problem_sources
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import table_for
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import newest_metadata
from seller_platform_tests.support.independent_upstream import Rows
from seller_platform_tests.support.platform import (
    HISTORY_START,
    KEYS,
    MONTHS,
    ROW_COUNT,
    Platform,
    failure_of,
    newest_checks,
    reported_partitions,
)
from seller_platform_tests.support.receipts import receipts_of_run

ORDERS, TRANSACTIONS, BY_DATE = map(dataset_named, ("orders", "transactions", "sales_by_date"))
EVERY_MONTH = {str(partition_key(key, month)) for key in KEYS for month in MONTHS}
LOST = independent_upstream.KEYS["A.2|FOREIGN"]


def test_a_run_over_a_range_reports_every_partition_separately(loaded: Platform) -> None:
    january, february = (
        newest_metadata(loaded.instance, asset_key(ORDERS), str(partition_key(LOST, month))) for month in MONTHS[:2]
    )

    assert loaded.materialized(ORDERS) == EVERY_MONTH
    assert (january["rows"], january["announced_total"], january["verdict"]) == (10, 10, "match")
    assert february["dagster/partition_row_count"] == 703
    assert february["pages"] > 1
    assert february["upstream"] == f"{loaded.upstream.url}/api"
    assert (february["dagster/table_name"], february["dagster/uri"]) == ("seller.orders", loaded.database.uri)
    assert january["load_id"] != february["load_id"]
    assert (january["account_title"], january["country"], january["currency"]) == ("Down Under", "AU", "AUD")
    texts = {name: value for name, value in january.items() if isinstance(value, str)}
    assert {name: text for name, text in texts.items() if max(map(len, text.split())) > 44} == {}


def test_a_settled_month_is_read_by_its_own_run_and_by_no_refresh(loaded: Platform) -> None:
    month = str(partition_key(LOST, MONTHS[0]))

    one = loaded.run([ORDERS], month, month)
    refresh = loaded.run([ORDERS], partition_key(KEYS[0], MONTHS[0]), month, **{REFRESH_TAG: CHANGED})

    tags = [loaded.instance.get_run_by_id(run.run_id).tags.get(ACCOUNT_TITLE_TAG) for run in (one, refresh)]  # type: ignore[union-attr]  # they exist
    assert tags == ["Down Under, AU, AUD", None]
    assert (one.success, reported_partitions(one)) == (True, {month})
    assert (refresh.success, reported_partitions(refresh)) == (True, set())


def test_the_checks_point_at_the_newest_materialization(loaded: Platform) -> None:
    evaluations = newest_checks(loaded.instance, TRANSACTIONS)

    (latest,) = loaded.instance.fetch_materializations(asset_key(TRANSACTIONS), limit=1).records
    docs = {rule.name: rule.doc for rule in checks_of(TRANSACTIONS)}
    assert evaluations.keys() == docs.keys()
    for name, evaluation in evaluations.items():
        assert (evaluation.passed, evaluation.partition) == (True, None)
        assert evaluation.description == f"{docs[name]} That is true of {len(EVERY_MONTH)} slices."
        assert evaluation.target_materialization_data is not None
        assert evaluation.target_materialization_data.storage_id == latest.storage_id


def test_no_secret_is_in_the_event_log(loaded: Platform) -> None:
    runs = [run.run_id for run in loaded.instance.get_runs()]

    events = "".join(dg.serialize_value(entry) for run in runs for entry in loaded.instance.all_logs(run))

    assert "seller__orders" in events
    secrets = [independent_upstream.CLIENT_SECRET, *loaded.upstream.access, *loaded.upstream.refresh]
    assert not any(secret in events for secret in secrets)


def test_rows_never_matching_are_asked_once_more_then_fail(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    january = str(partition_key(KEYS[0], MONTHS[0]))
    monkeypatch.setattr(platform.upstream, "surplus", 1)
    platform.discover()

    result = platform.run([TRANSACTIONS], january, january)

    (receipt,) = receipts_of_run(platform.database, result.run_id)
    assert (receipt.verdict, receipt.requests) == ("mismatch", 3)  # two pages, and the first again
    logged = [each.user_message for each in platform.instance.all_logs(result.run_id)]
    assert any("does not add up" in each for each in logged)
    evaluation = newest_checks(platform.instance, TRANSACTIONS)[ROW_COUNT]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.ERROR)
    broken = "1 of 1 slice breaks this rule: The number of stored rows is the total"
    assert str(evaluation.description).startswith(broken)
    table = evaluation.metadata["failing"]
    assert isinstance(table, dg.TableMetadataValue)
    (line,) = (record.data for record in table.records)
    assert (line["account"], line["month"], line["rows"]) == (KEYS[0], "2026-01", "1")
    assert line["title"]
    assert str(line["since"]).endswith(" UTC")
    assert "2026-01-01..2026-01-31: the list announced 4 rows, and 3 were read" in str(line["reason"])
    assert str(line["next step"]).startswith("Load the partition again")
    assert (evaluation.metadata["failed_slices"].value, evaluation.metadata["slices"].value) == (1, 1)


def test_a_slice_that_is_refused_fails_its_partition_and_no_other(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(rows: Rows, seller: str) -> Rows:
        return [{"purchase_date": "noon"}] if independent_upstream.KEYS[seller] == LOST else rows

    monkeypatch.setitem(platform.upstream.changes, ORDERS.path, broken)
    platform.discover()

    result = platform.months(ORDERS, last=MONTHS[0])

    other, *_ = {*KEYS} - {LOST}
    assert reported_partitions(result) == {str(partition_key(other, MONTHS[0]))}
    sentence, reasons = failure_of(result)
    assert "1 of 2" in sentence
    assert set(reasons) == {str(partition_key(LOST, MONTHS[0]))}
    evaluation = newest_checks(platform.instance, ORDERS)["fields_are_known"]
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.ERROR)


def test_what_an_upstream_does_not_offer_is_materialized_with_its_reason(platform: Platform) -> None:
    platform.discover()
    platform.upstream.missing = (BY_DATE.path,)

    result = platform.months(BY_DATE, last=MONTHS[0])

    assert (result.success, reported_partitions(result)) == (True, {str(partition_key(key, MONTHS[0])) for key in KEYS})
    for event in result.get_asset_materialization_events():
        reason = str(event.materialization.metadata[NOT_OFFERED].value)
        assert reason.startswith("sales_by_date: the upstream does not offer /sales/statistics-dashboard")
    assert all(each.passed for each in newest_checks(platform.instance, BY_DATE).values())


def test_every_kind_of_problem_of_a_slice_breaks_a_check() -> None:
    kinds = {kind.name for source in problem_sources() for kind in source.kinds}
    checked = {kind for dataset in DATASETS for rule in checks_of(dataset) for kind in rule.kinds}

    # What failed breaks the check of its error, and what contradicts a mart the check of that name.
    assert kinds - checked <= {"failed", "postponed", "retired", "contradicted", "unbooked"}


@pytest.mark.parametrize("dataset", (*LISTS, COST_PERIODS), ids=lambda dataset: dataset.name)
def test_every_list_has_an_asset_with_columns_check_and_backfill_policy(dataset: Dataset) -> None:
    asset = asset_for(dataset, HISTORY_START)
    spec = asset.get_asset_spec()

    assert asset.key.path == ["seller", dataset.name]
    assert spec.description == describe_dataset(dataset)
    assert spec.group_name == "lists"
    assert spec.metadata["dagster/column_schema"] == table_schema(table_for(dataset))
    assert {key.name for key in checks_for(dataset).check_keys} == {check.name for check in checks_of(dataset)}
    assert list(asset.check_specs) == []
    assert asset.dependency_keys == ({asset_key(dataset_named("inventory"))} if dataset is COST_PERIODS else set())
    assert asset.backfill_policy is not None
    assert asset.backfill_policy.max_partitions_per_run == (36 if dataset.slicing is Slicing.MONTH else 100)


def test_every_description_has_a_partition_a_repair_and_a_query_that_runs(database: Database) -> None:
    for name, description in {each.name: describe_dataset(each) for each in DATASETS}.items():
        query = re.search(r"```sql\n(.+?)```", description, re.DOTALL)
        assert query is not None, name
        assert re.search(r"\*\*A (partition\*\* is|load\*\* replaces)", description), name
        assert "**Repair:**" in description, name
        assert database.execute(text(query[1])).all() == [], name
