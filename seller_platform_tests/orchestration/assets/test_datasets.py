"""Tests runs over many partitions: each has events, and a failed one stops no other."""

import dagster as dg
import pytest

from seller_platform.contract import DATASETS, LISTS, Dataset, Slicing, dataset_named
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.orchestration.assets.checks import checks_of
from seller_platform.orchestration.assets.descriptions import describe_dataset
from seller_platform.orchestration.assets.events import table_schema
from seller_platform.orchestration.assets.reporting import checks_for
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform.orchestration.tags import ACCOUNT_TITLE_TAG, CHANGED, HISTORY_CHART, NOT_OFFERED, REFRESH_TAG
from seller_platform.warehouse.schema.tables import table_for
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import newest_metadata
from seller_platform_tests.support.platform import MONTHS, Platform, newest_checks

ORDERS = dataset_named("orders")
TRANSACTIONS = dataset_named("transactions")
BY_DATE = dataset_named("sales_by_date")
KEYS = sorted(independent_upstream.KEYS.values())


def _all_months() -> set[str]:
    return {str(partition_key(key, month)) for key in KEYS for month in MONTHS}


def test_a_run_over_a_range_reports_every_partition_separately(platform: Platform) -> None:
    platform.discover()

    result = platform.months(ORDERS)

    assert result.success
    assert platform.materialized(ORDERS) == _all_months()
    january, february = (
        newest_metadata(platform.instance, asset_key(ORDERS), str(partition_key(KEYS[0], month)))
        for month in (MONTHS[0], MONTHS[1])
    )
    assert (january["rows"], january["announced_total"], january["verdict"]) == (10, 10, "match")
    assert february["dagster/partition_row_count"] == 703
    assert february["pages"] > 1
    assert february["upstream"] == f"{platform.upstream.url}/api"
    assert february["dagster/table_name"] == "seller.orders"
    assert february["dagster/uri"] == platform.database.uri
    assert january["load_id"] != february["load_id"]
    assert january["digest"] != february["digest"]


def test_partitions_and_runs_have_title_country_and_currency(platform: Platform) -> None:
    platform.discover()

    key = str(partition_key("account-42", MONTHS[0]))
    one, both = platform.run([ORDERS], key, key), platform.months(ORDERS)

    facts = newest_metadata(platform.instance, asset_key(ORDERS), key)
    assert (facts["account_title"], facts["country"], facts["currency"]) == ("Down Under", "AU", "AUD")
    texts = {name: value for name, value in facts.items() if isinstance(value, str)}
    assert {name: text for name, text in texts.items() if max(map(len, text.split())) > 44} == {}
    tags = [platform.instance.get_run_by_id(run.run_id).tags.get(ACCOUNT_TITLE_TAG) for run in (one, both)]  # type: ignore[union-attr]
    assert tags == ["Down_Under.AU.AUD", None]


def test_the_newest_month_has_the_chart_of_its_account_alone(platform: Platform) -> None:
    platform.discover()

    platform.months(ORDERS, last=MONTHS[1])
    few = platform.instance.fetch_observations(asset_key(ORDERS), limit=10).records
    platform.months(ORDERS)

    records = platform.instance.fetch_observations(asset_key(ORDERS), limit=10).records
    observed = [record.event_log_entry.asset_observation for record in records]
    charts = {each.partition: str(each.metadata[HISTORY_CHART].value) for each in observed if each is not None}
    assert few == []
    assert set(charts) == {str(partition_key(key, MONTHS[-1])) for key in KEYS}
    assert "Down Under, AU, AUD (account-42), rows: Rows from 10 to 703" in charts[f"account-42|{MONTHS[-1].start}"]


def test_the_checks_point_at_the_newest_materialization(platform: Platform) -> None:
    platform.discover()
    platform.months(TRANSACTIONS)

    evaluations = newest_checks(platform.instance, TRANSACTIONS)

    (latest,) = platform.instance.fetch_materializations(asset_key(TRANSACTIONS), limit=1).records
    assert evaluations.keys() == {rule.name for rule in checks_of(TRANSACTIONS)}
    for evaluation in evaluations.values():
        assert (evaluation.passed, evaluation.partition) == (True, None)
        assert evaluation.target_materialization_data is not None
        assert evaluation.target_materialization_data.storage_id == latest.storage_id


def test_a_partition_that_fails_is_named_and_the_others_are_loaded(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.discover()
    broken = {
        **independent_upstream.transaction_rows(independent_upstream.MONTHS[1])[0],
        "posted_date": "2020-01-01T00:00:00",
    }
    honest = independent_upstream.transaction_rows
    monkeypatch.setattr(
        independent_upstream,
        "transaction_rows",
        lambda month: [broken] if month == independent_upstream.MONTHS[1] else honest(month),
    )

    result = platform.months(TRANSACTIONS)

    february = {str(partition_key(key, MONTHS[1])) for key in KEYS}
    assert not result.success
    assert platform.materialized(TRANSACTIONS) == _all_months() - february
    failure = next(event for event in result.all_events if event.is_step_failure).step_failure_data
    assert failure.user_failure_data is not None
    assert set(failure.user_failure_data.metadata) == {*february, "exit_code"}
    assert "another calendar" in str(failure.user_failure_data.metadata[min(february)].value)
    failed = {name: each for name, each in newest_checks(platform.instance, TRANSACTIONS).items() if not each.passed}
    assert set(failed) == {"fields_are_known"}
    assert "another calendar" in str(failed["fields_are_known"].description)
    assert str(failed["fields_are_known"].description).startswith(f"2 of {len(_all_months())} slices break this rule: ")


def test_an_account_without_a_known_zone_is_named_and_no_other_fails(platform: Platform) -> None:
    platform.upstream.accounts = [{**account} for account in platform.upstream.accounts]
    platform.upstream.accounts[1]["timezone"] = "Sea/Atlantis"
    lost = independent_upstream.KEYS["A.2|FOREIGN"]

    discovered = platform.discover()
    failed = [each for each in newest_checks(platform.instance, ACCOUNTS).values() if not each.passed]
    result = platform.months(TRANSACTIONS)

    assert discovered.success
    assert [(each.check_name, each.severity) for each in failed] == [
        ("accounts_are_usable", dg.AssetCheckSeverity.ERROR)
    ]
    assert f"{lost}: time zone 'Sea/Atlantis' is not known" in str(failed[0].description)
    assert {key for key in _all_months() if lost not in key} == platform.materialized(TRANSACTIONS)
    failure = next(event for event in result.all_events if event.is_step_failure).step_failure_data
    assert failure.user_failure_data is not None
    metadata = failure.user_failure_data.metadata
    assert metadata["exit_code"].value == 4
    assert {str(value.value) for name, value in metadata.items() if name != "exit_code"} == {
        f"account {lost}: time zone 'Sea/Atlantis' is not known. Correct the account at the upstream; all other "
        "accounts are read"
    }


def test_a_changed_zone_fails_a_check_until_all_is_read_again(platform: Platform) -> None:
    platform.discover()
    platform.months(TRANSACTIONS)
    platform.upstream.accounts = [{**account} for account in platform.upstream.accounts]
    former, platform.upstream.accounts[1]["timezone"] = platform.upstream.accounts[1]["timezone"], "Pacific/Auckland"
    moved = independent_upstream.KEYS["A.2|FOREIGN"]

    platform.discover()
    (failed,) = [each for each in newest_checks(platform.instance, ACCOUNTS).values() if not each.passed]
    platform.months(TRANSACTIONS)
    platform.discover()

    assert (failed.check_name, failed.severity) == ("accounts_keep_their_days", dg.AssetCheckSeverity.WARN)
    assert f"{moved}: it is in Pacific/Auckland now, and was last read under {former}" in str(failed.description)
    assert all(each.passed for each in newest_checks(platform.instance, ACCOUNTS).values())


@pytest.mark.parametrize("who", ["one account", "every account"])
def test_a_404_that_only_one_account_gets_is_a_failure_of_the_account(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    lost, honest = independent_upstream.KEYS["A1FOREIGN"], platform.upstream.page
    sellers = {"A1FOREIGN"} if who == "one account" else set(independent_upstream.KEYS)
    monkeypatch.setattr(
        platform.upstream, "page", lambda path, query: None if query["seller_id"] in sellers else honest(path, query)
    )
    platform.discover()

    result = platform.months(BY_DATE)

    failures = [event.step_failure_data.user_failure_data for event in result.all_events if event.is_step_failure]
    reasons = [
        str(facts[NOT_OFFERED].value)
        for event in result.all_events
        if event.is_step_materialization and NOT_OFFERED in (facts := event.materialization.metadata)
    ]
    if who == "every account":
        assert (result.success, platform.materialized(BY_DATE), failures) == (True, _all_months(), [])
        assert len(reasons) == len(_all_months())
        assert all("sales_by_date: the upstream does not offer /sales/statistics-dashboard" in each for each in reasons)
        assert all(each.passed for each in newest_checks(platform.instance, BY_DATE).values())
        return
    (failure,) = failures
    assert failure is not None
    assert (failure.metadata["exit_code"].value, reasons) == (4, [])
    assert len(failure.metadata) == 1 + len(MONTHS)
    assert {str(value.value).partition(", which")[0] for name, value in failure.metadata.items() if lost in name} == {
        f"sales_by_date of account {lost}: the upstream answered 404 to /sales/statistics-dashboard"
    }
    assert {key for key in _all_months() if lost not in key} == platform.materialized(BY_DATE)


def test_an_account_that_got_rows_before_and_gets_a_404_now_has_failed(platform: Platform) -> None:
    platform.discover()
    platform.months(BY_DATE)
    platform.upstream.missing = (BY_DATE.path,)

    result = platform.months(BY_DATE)

    assert not result.success
    assert not [event for event in result.all_events if event.is_step_materialization]


def test_a_refresh_of_what_may_have_changed_leaves_settled_months_alone(platform: Platform) -> None:
    platform.discover()
    platform.months(ORDERS)
    first, last = partition_key(KEYS[0], MONTHS[0]), partition_key(KEYS[-1], MONTHS[-1])

    result = platform.run([ORDERS], first, last, **{REFRESH_TAG: CHANGED})

    assert result.success
    assert [event for event in result.all_events if event.is_step_materialization] == []


@pytest.mark.parametrize("dataset", LISTS, ids=lambda dataset: dataset.name)
def test_every_list_has_an_asset_with_columns_check_and_backfill_policy(platform: Platform, dataset: Dataset) -> None:
    asset = platform.assets[dataset.name]
    spec = asset.get_asset_spec()

    assert asset.key.path == ["seller", dataset.name]
    assert spec.description == describe_dataset(dataset)
    assert spec.group_name == dataset.area
    assert spec.metadata["dagster/column_schema"] == table_schema(table_for(dataset))
    assert {key.name for key in checks_for(dataset).check_keys} == {check.name for check in checks_of(dataset)}
    assert list(asset.check_specs) == []
    assert asset.backfill_policy is not None
    assert asset.backfill_policy.max_partitions_per_run == (36 if dataset.slicing is Slicing.MONTH else 100)


def test_every_dataset_that_is_read_is_loaded_by_the_definitions(platform: Platform) -> None:  # sets the home
    from seller_platform.orchestration.definitions import defs

    keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}

    assert {f"seller/{dataset.name}" for dataset in (*LISTS, DATASETS[0])} <= keys


def test_no_secret_is_in_the_event_log(platform: Platform) -> None:
    platform.discover()
    result = platform.months(TRANSACTIONS)

    events = "".join(
        dg.serialize_value(record.event_log_entry)
        for record in platform.instance.get_records_for_run(result.run_id, limit=1000).records
    )

    assert independent_upstream.CLIENT_SECRET not in events
    assert not any(token in events for token in [*platform.upstream.access, *platform.upstream.refresh])
