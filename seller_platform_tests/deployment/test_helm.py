"""Tests that every way to deploy stores Dagster's runs and events in the same way.

The chart is not at hand: its part of the instance's configuration is written here as its template writes it.
"""

import re
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster_postgres.event_log import PostgresEventLogStorage
from sqlalchemy import QueuePool

from seller_platform import __version__
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.deployment.compose_machine import TOP

TEXT = (TOP / "docker" / "helm" / "values.yaml").read_text()
VALUES = yaml.safe_load(TEXT)
OF_CHART = "".join(
    f"{part}_storage: {{module: dagster_postgres.{part}_storage, class: X, config: {{}}}}\n"
    for part in ("schedule", "run", "event_log")
)
FILES = {
    "compose": (TOP / "dagster.yaml").read_text() + (TOP / "docker" / "stateless.yaml").read_text(),
    "helm": OF_CHART + yaml.safe_dump(VALUES.get("additionalInstanceConfig", {})),
}


@pytest.mark.parametrize("way", FILES)
def test_the_storage_is_ours_and_in_its_schema(
    way: str, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database.url)
    (tmp_path / "dagster.yaml").write_text(FILES[way])

    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("it"))
        events = instance.event_log_storage
        with database.begin() as connection:
            stored = connection.exec_driver_sql("SELECT asset_key FROM dagster.event_logs").scalars().all()

    assert stored == ['["it"]']
    assert isinstance(events, PostgresEventLogStorage)
    assert isinstance(events._engine.pool, QueuePool)


def test_the_values_name_the_image_of_this_version() -> None:
    assert set(re.findall(r"(?:tag: |seller-platform:)(\S+)", TEXT)) == {__version__}
