"""Tests that the names that users type and installations store do not change."""

import json
from datetime import UTC, datetime, timedelta

import dagster as dg
import msgspec
import pytest
from sqlalchemy import text

from seller_platform.orchestration.alerting.causes import Alerts
from seller_platform.orchestration.assets.accounts import discovery_definitions
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.stored_names import GOLDEN, STORED_WORDS, constants, read_names

NAMES = json.loads(GOLDEN.read_text())
NOW = datetime(2026, 3, 10, 3, 0, tzinfo=UTC)


def test_stored_names_are_those_of_their_file(database_url: str) -> None:
    names = json.loads(json.dumps(read_names(database_url)))

    assert names.keys() == NAMES.keys()
    for section, expected in NAMES.items():
        assert names[section] == expected, f"{section}: run `python -m seller_platform_tests.regenerate`"


@pytest.mark.parametrize("store", STORED_WORDS)
def test_words_inside_stored_values_are_still_in_the_code(store: str) -> None:
    texts = [value for value in constants() if isinstance(value, str)]

    missing = [
        word
        for word in STORED_WORDS[store]
        if word not in texts and (word.isidentifier() or not any(word in longer for longer in texts))
    ]

    assert missing == []


def test_the_numbers_of_advisory_locks_are_still_in_the_code() -> None:
    assert {0x5E11E4, 0x5EA1, 0x5EC4F, 0x5A4DB0} <= constants()


def test_a_stored_cursor_of_the_alert_sensors_is_read_and_kept() -> None:
    stored = {
        "read_to": 7,
        "undecided_runs": ["run-1"],
        "causes": {
            "abc": {
                "title": "Run failed: seller/orders",
                "sentence": "The upstream is away.",
                "failed_at": "2026-03-10T03:00:00Z",
                "open_until": {"seller/orders": ["run-2"]},
                "others": ["The upstream is slow."],
            }
        },
        "messages": [
            {"text": "Run failed", "written_at": "2026-03-10T03:00:00Z", "attempts": 1, "not_before": None},
        ],
    }

    assert json.loads(msgspec.json.encode(msgspec.json.decode(json.dumps(stored), type=Alerts))) == stored


def test_a_stored_cursor_of_discovery_is_read_and_kept(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("INSERT INTO platform.connections VALUES ('default', 'http://a', 'http://a', 'id')"))
    stored = {"due": {"default": (NOW + timedelta(minutes=10)).isoformat()}}
    warehouse = WarehouseResource(database_url=database.url)
    resources = {"warehouse": warehouse, "seller_api": SellerApiResource(warehouse=warehouse)}
    definitions = dg.Definitions.merge(discovery_definitions(clock=lambda: NOW), dg.Definitions(resources=resources))
    sensor = definitions.get_repository_def().get_sensor_def("discover_accounts")

    with dg.build_sensor_context(
        instance=dg.DagsterInstance.ephemeral(),
        resources=resources,
        cursor=json.dumps(stored),
        definitions=definitions,
    ) as context:
        result = sensor(context)

    assert isinstance(result, dg.SensorResult), result
    assert json.loads(result.cursor or "") == stored
