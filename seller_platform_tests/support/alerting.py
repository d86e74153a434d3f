"""A sensor of alerts over a database, with its clock and its webhook."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg
from sqlalchemy import text

from seller_platform.orchestration.alerting.sensors import alert_definitions
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receiver import Receiver
from seller_platform_tests.support.ticks import tick


@dataclass
class Alerting:
    """A sensor, which keeps its cursor.

    Attributes:
        passed: How far its clock is ahead.
    """

    database: Database
    receiver: Receiver
    instance: dg.DagsterInstance
    sensor: str = ""
    passed: timedelta = timedelta()
    cursor: str | None = None

    def tick(self, *, later: timedelta = timedelta(seconds=30)) -> str | None:
        """Evaluate the sensor some time after the last tick, and return its skip message."""
        self.passed += later
        definitions = alert_definitions(clock=lambda: datetime.now(UTC) + self.passed)
        result = tick(definitions, self.sensor, self.instance, self.cursor)
        self.cursor = result.cursor
        return result.skip_message

    def execute(self, statement: str, **values: object) -> None:
        self.database.execute(text(statement), values)
