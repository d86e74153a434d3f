"""Tests which partitions of marts have settled; of datasets, the tests of the automation condition do."""

from datetime import UTC, date, datetime

from psycopg.types.json import Jsonb

from seller_platform.contract import Window
from seller_platform.marts.account_profit_daily import ACCOUNT_PROFIT_DAILY
from seller_platform.warehouse.monitoring.settled_partitions import settled_partitions
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform_tests.support.receipts import mark_loaded, store_receipt

MONTH = Window.month_of(date(2026, 2, 1))


def test_a_mart_has_settled_when_its_build_has_read_settled_slices(database: Database) -> None:
    mart, at = ACCOUNT_PROFIT_DAILY, datetime(2026, 6, 1, tzinfo=UTC)
    dated = [each for each in mart.datasets if each.is_dated]
    mark_loaded(database, mart, "us-1", MONTH)

    def read(loads: dict[str, int]) -> set[tuple[str, Window | None]]:
        """Return what has settled once the build has read these loads."""
        with database.begin() as connection:
            driver_of(connection).execute("UPDATE platform.mart_builds SET loads = %s", [Jsonb(loads)])
        return {*settled_partitions(database, mart)}

    loads = {each.name: store_receipt(database, each, "us-1", MONTH, at=at) for each in dated}
    older = read({each.name: 0 for each in dated})
    newest = read(loads)
    changed = store_receipt(database, dated[0], "us-1", MONTH, at=datetime(2026, 2, 20, tzinfo=UTC))
    changing = read({**loads, dated[0].name: changed})

    assert (read({}), older, newest, changing) == (set(), set(), {("us-1", MONTH)}, set())
