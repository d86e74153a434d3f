"""Tests where it is said how many slices differ at most, and the asset and the option of `sync` that compare."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

import seller_platform
from seller_platform.cli.installation import Installation as Opened
from seller_platform.cli.metrics import WarehouseCollector
from seller_platform.clocks import using_clock
from seller_platform.contract import Account, Window, dataset_named
from seller_platform.sampling.assets import sample_definitions
from seller_platform.sampling.draws import DrawnSlice, Stratum, count_slices, keep_comparison
from seller_platform.settings import read_settings
from seller_platform.warehouse.monitoring.metrics import evidence
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.independent_upstream import CLIENT_SECRET
from seller_platform_tests.support.platform import MONTHS, open_platform
from seller_platform_tests.support.processes import environment
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts


@pytest.fixture
def compared(database: Database) -> Database:
    """Two accounts with a month, of which that of the first was compared twice."""
    now, march = datetime.now(UTC), Window.month_of(date(2026, 3, 1))
    listed = [(key, Account(1, "A", "US", "USD", "UTC", "M", key)) for key in ("S1", "S2")]
    connect_accounts(database, listed)
    for key, _ in listed:
        store_receipt(database, dataset_named("orders"), key, march, rows=5, time_zone="UTC")
    count_slices(database, 10, now)
    drawn = DrawnSlice(Stratum.SETTLED, dataset_named("orders"), "S1", "default", march)
    for differed in (False, True):
        keep_comparison(database, drawn, started_at=now, requests=1, differed=differed)
    return database


def test_what_comparisons_say_is_said_everywhere(compared: Database, database_url: str, tmp_path: Path) -> None:
    variables = environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url)
    people, programs = run_here(["status"], variables), run_here(["status", "--json"], variables)
    frame = seller_platform.read("orders", database_url=database_url)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in WarehouseCollector(Opened(read_settings(), compared)).collect()
        for sample in family.samples
    }

    document = json.loads(programs.stdout)
    assert "at most 100 % of the rows are in months that differ" in document["sample"]
    assert document["sample"] in " ".join(people.stdout.split())
    assert document["differing_at_most"] == {"settled": 1}
    assert frame.attrs["sample"] == document["sample"]
    assert samples["seller_platform_slices_compared", "settled"] == 2
    assert samples["seller_platform_slices_differed", "settled"] == 1
    assert samples["seller_platform_slices_differing_at_most", "settled"] == 1


def test_it_is_said_of_the_accounts_that_are_asked_for(compared: Database) -> None:
    now = datetime.now(UTC)
    said = [evidence(compared, now, keys).sentence for keys in (None, {"S1"}, {"S2"})]

    assert ["2 checks compared" in each for each in said] == [True, True, False]
    assert said[2].endswith("no settled one was compared yet")


def test_a_sample_is_compared_and_says_what_follows(database: Database, database_url: str, tmp_path: Path) -> None:
    variables = environment(
        tmp_path,
        SELLER_PLATFORM_DATABASE_URL=database_url,
        SELLER_API_CLIENT_SECRET=CLIENT_SECRET,
        SELLER_API_REQUESTS_PER_DAY="9600",
    )
    with open_platform(database, database_url, tmp_path) as platform:
        platform.upstream.issue_lasting_tokens()
        run_here(["sync", "--dataset", "transactions", "--from", "2026-01", "--to", "2026-03"], variables)

        compared = run_here(["sync", "--sample"], variables)
        refused = run_here(["sync", "--sample", "--full"], variables)

    assert compared.returncode == 0, compared.stderr
    assert "compared months that should no longer change with the API" in compared.stderr
    assert database.execute(text("SELECT bool_or(differed) FROM platform.comparisons")).scalar_one() is False
    assert (refused.returncode, "leave out the other options" in refused.stderr) == (2, True)


def test_the_asset_says_how_many_slices_differ_or_fails_and_loads_them(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", "1200")  # for a few comparisons an hour
    (asset,) = sample_definitions().assets or ()
    assert isinstance(asset, dg.AssetsDefinition)
    one_each = "SELECT min(ctid) FROM seller.transactions GROUP BY account"
    settled = datetime(2040, 6, 20, 12, 40, tzinfo=UTC)
    with open_platform(database, database_url, tmp_path) as platform:
        instance, resources = platform.instance, platform.resources
        platform.discover()
        with using_clock(lambda: settled):
            platform.months(dataset_named("transactions"), last=MONTHS[0])
            database.execute(text(f"UPDATE seller.transactions SET description = 'x' WHERE ctid IN ({one_each})"))
            database.execute(text("UPDATE platform.accounts SET timezone = timezone || '/Mars'"))
            unreadable = dg.materialize([asset], instance=instance, resources=resources, raise_on_error=False)
            database.execute(text("UPDATE platform.accounts SET timezone = replace(timezone, '/Mars', '')"))
            result = dg.materialize([asset], instance=instance, resources=resources)

    (event,) = result.get_asset_materialization_events()
    metadata: dict[str, Any] = {name: value.value for name, value in event.materialization.metadata.items()}
    assert metadata["sample"].startswith("Since ")
    assert 0 < metadata["settled_differed"] == metadata["loaded_anew"] < metadata["settled_compared"]
    assert 0 < metadata["settled_differing_at_most_percent"] <= 100
    assert not unreadable.success
