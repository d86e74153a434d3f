"""Tests that descriptions of assets have a first query that PostgreSQL runs."""

import re

from sqlalchemy import text

from seller_platform.contract import DATASETS
from seller_platform.orchestration.assets.descriptions import describe_dataset, describe_mart
from seller_platform.orchestration.placement import Placement
from seller_platform.warehouse.marts import MARTS
from seller_platform.warehouse.postgres.database import Database


def test_every_description_has_a_partition_a_repair_and_a_query_that_runs(database: Database) -> None:
    described = {each.name: describe_dataset(each) for each in DATASETS} | {m.name: describe_mart(m) for m in MARTS}

    for name, description in described.items():
        query = re.search(r"```sql\n(.+?)```", description, re.DOTALL)
        assert query is not None, name
        assert re.search(r"\*\*A (partition\*\* is|load\*\* replaces)", description), name
        assert "**Repair:**" in description, name
        assert database.execute(text(query[1])).all() == [], name


def test_descriptions_name_jobs_and_sensors_as_the_project_does() -> None:
    shop = Placement(("shop",))

    described = [describe_dataset(each, shop) for each in DATASETS] + [describe_mart(mart, shop) for mart in MARTS]

    named = {name for each in described for name in re.findall(r"(?:job|sensor) `(\w+)`", each)}
    assert len(named) == 5
    assert all(name.startswith("shop_") for name in named)
