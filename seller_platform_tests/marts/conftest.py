"""An empty account, and a sandbox with every mart."""

from collections.abc import Iterator

import pytest

from seller_platform.contract import Window
from seller_platform.warehouse.derived.builds import Build, build_partition
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.postgres import copied
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.shop import MONTHS, TODAY, shop
from seller_platform_tests.support.stored_rows import connect_accounts

__all__ = ["built", "shop"]


@pytest.fixture(scope="session")
def built(postgres: EmbeddedServer) -> Iterator[tuple[Database, dict[tuple[str, str, Window | None], Build]]]:
    """A sandbox with every partition of every mart, and their builds.

    Tests must not change it.
    """
    # Imported here because tests of single marts go without the sandbox.
    from seller_platform.sandbox.load import load_sandbox

    with Database(copied(postgres, "sandbox_with_marts")) as database:
        report = load_sandbox(database, months=4, orders_per_month=1_500, today=TODAY)
        connect_accounts(database, [(account.key, account) for account in report.accounts])
        for account in report.accounts:
            for dataset in {
                dataset for mart in MARTS for dataset in mart.datasets if dataset.is_dated and not dataset.is_computed
            }:
                mark_loaded(database, dataset, account.key, Window(MONTHS[0].start, MONTHS[-1].end))
        builds = {
            (mart.name, account.key, window): build_partition(database, mart, account.key, window)
            for account in report.accounts
            for mart in MARTS
            for window in (MONTHS if mart.is_monthly else (None,))
        }
        yield database, builds
