"""Tests the asset that compares months at random, and its schedule."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.clocks import using_clock
from seller_platform.contract import dataset_named
from seller_platform.sampling.assets import sample_definitions
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.platform import MONTHS, Platform, open_platform

TRANSACTIONS = dataset_named("transactions")
SUMMER = datetime(2040, 6, 20, 12, 40, tzinfo=UTC)


@pytest.fixture
def platform(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Platform]:
    """The transactions of January, which settled long ago, and requests for a few comparisons an hour."""
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", "1200")
    with open_platform(database, database_url, tmp_path) as opened:
        opened.discover()
        with using_clock(lambda: SUMMER):
            opened.months(TRANSACTIONS, last=MONTHS[0])
            yield opened


def _materialize(platform: Platform) -> tuple[dg.ExecuteInProcessResult, dict[str, Any]]:
    """Materialize the asset, and return the result with the metadata."""
    definitions = sample_definitions()
    (asset,) = definitions.assets or ()
    assert isinstance(asset, dg.AssetsDefinition)
    result = dg.materialize([asset], instance=platform.instance, resources=platform.resources, raise_on_error=False)
    metadata = [event.materialization.metadata for event in result.get_asset_materialization_events()]
    return result, {name: value.value for each in metadata for name, value in each.items()}


def test_the_asset_says_how_many_slices_differ_or_fails_and_loads_them(platform: Platform) -> None:
    with platform.database.begin() as connection:
        one_each = "SELECT min(ctid) FROM seller.transactions GROUP BY account"
        connection.execute(text(f"UPDATE seller.transactions SET description = 'x' WHERE ctid IN ({one_each})"))
        connection.execute(text("UPDATE platform.accounts SET timezone = timezone || '/Mars'"))

    unreadable, _ = _materialize(platform)
    platform.database.execute(text("UPDATE platform.accounts SET timezone = replace(timezone, '/Mars', '')"))
    result, metadata = _materialize(platform)

    assert result.success
    assert metadata["sample"].startswith("Since ")
    assert 0 < metadata["settled_differed"] == metadata["loaded_anew"] < metadata["settled_compared"]
    assert 0 < metadata["settled_differing_at_most_percent"] <= 100
    assert not unreadable.success
