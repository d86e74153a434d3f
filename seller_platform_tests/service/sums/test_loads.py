"""Tests that `prune` deletes marks of months that a newer mark has, too."""

from datetime import date

from seller_platform.warehouse.loads.retention import prune
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.stored_rows import execute, stored


def test_a_month_that_no_request_summed_is_marked_once(database: Database) -> None:
    execute(
        database,
        """
        INSERT INTO service.unsummed_loads (account, dataset, load_id, months)
        VALUES ('us-1', 'orders', 1, '[2026-02-01, 2026-03-01)'), ('us-1', 'orders', 2, '[2026-03-01, 2026-04-01)'),
               ('us-1', 'orders', 3, '[2026-03-01, 2026-05-01)'), ('us-1', 'orders', 4, '[2026-04-01, 2026-05-01)'),
               ('us-1', 'inventory', 9, '[2026-01-01, 2027-01-01)'), ('us-1', 'stock', 9, '[2026-01-01, 2027-01-01)'),
               ('us-0', 'orders', 9, '[2026-01-01, 2027-01-01)'), ('us-2', 'orders', 9, '[2026-01-01, 2027-01-01)')
        """,
    )

    prune(database, snapshots_before=date.min, receipts_before=date.min, dry=False)

    marks = stored(database, "SELECT account, dataset, load_id FROM service.unsummed_loads ORDER BY 1, 2, 3")
    assert marks == [
        ("us-0", "orders", 9),
        ("us-1", "inventory", 9),
        *(("us-1", "orders", load) for load in (1, 3, 4)),
        ("us-1", "stock", 9),
        ("us-2", "orders", 9),
    ]
