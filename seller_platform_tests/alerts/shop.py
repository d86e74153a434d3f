"""A shop with accounts, whose alerts a webhook receives."""

import json
from dataclasses import dataclass
from datetime import date

from sqlalchemy import text

from seller_platform.alerts.sending import send_alerts
from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.errors import SellerPlatformError
from seller_platform.settings import read_settings
from seller_platform.warehouse.loads.refusals import forget_refusal, keep_refusal
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receiver import Receiver

KEYS = [f"us-{100 + number}" for number in range(30)]
ORDERS, MARCH = dataset_named("orders"), Window.month_of(date(2026, 3, 1))


@dataclass
class Shop:
    """Accounts with slices, and the webhook of their alerts."""

    database: Database
    receiver: Receiver

    def send(self, *prefix: str) -> str:
        return send_alerts(self.database, read_settings(), prefix)

    def execute(self, statement: str, **values: object) -> None:
        self.database.execute(text(statement), values)

    def fail(self, error: SellerPlatformError, *keys: str, dataset: Dataset = ORDERS, month: Window = MARCH) -> None:
        for key in keys:
            keep_refusal(self.database, dataset, key, month, error, run_id="run-1")

    def repair(self, *keys: str, dataset: Dataset = ORDERS, month: Window = MARCH) -> None:
        for key in keys:
            forget_refusal(self.database, dataset, key, month)

    def load(self, dataset: Dataset, key: str, month: Window, *, verdict: str = "match", notes: object = None) -> int:
        """Store a receipt, with a verdict and notes."""
        statement = text("""
            INSERT INTO platform.loads (dataset, account, window_start, window_end, requests, pages, body_bytes, rows,
                                        announced, digest, verdict, changed, started_at, finished_at, notes,
                                        restatement)
            VALUES (:dataset, :account, :first, :after, 1, 1, 0, 11, 12, '', :verdict, true, '2026-04-10 08:00Z', now(),
                    CAST(:notes AS jsonb), '{"rows": {"before": "100", "after": "90"}}')
            RETURNING id
        """)
        bound = {"dataset": dataset.name, "account": key, "first": month.start, "after": month.end, "verdict": verdict}
        return int(self.database.execute(statement, {**bound, "notes": json.dumps(notes or {})}).scalar_one())
