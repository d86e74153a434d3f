"""Tests that no mart is computed while the rows of one of its inputs may not be those of the upstream."""

from collections.abc import Callable

import pytest
from sqlalchemy import delete

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Window
from seller_platform.errors import ListChangedError, RequestsUsedUpError, SellerPlatformError
from seller_platform.warehouse.loads.recounts import recount
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.marts import MARTS
from seller_platform.warehouse.marts.due import Derived, state_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import SLICES
from seller_platform_tests.support.receipts import store_receipt

ACCOUNT, THIS_MONTH = "us-1", Window.month_of(utc_now().date())
FAILED = ListChangedError("A list", attempts=3, last="more rows")
SPENT = RequestsUsedUpError("default", per_day=1, renews_at=utc_now())


def _refuse(error: SellerPlatformError, *, loaded: bool) -> Callable[[Database, Dataset, Window | None], None]:
    def refuse(database: Database, dataset: Dataset, month: Window | None) -> None:
        if loaded:
            store_receipt(database, dataset, ACCOUNT, month or Window.day(THIS_MONTH.start))
        keep_refusal(database, dataset, ACCOUNT, month, error, run_id=None)

    return refuse


def _alter(database: Database, dataset: Dataset, month: Window | None) -> None:
    store_receipt(database, dataset, ACCOUNT, month or Window.day(THIS_MONTH.start), rows=60)
    recount(database, dataset)


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (_refuse(FAILED, loaded=False), "failed"),
        (_refuse(FAILED, loaded=True), "failed"),
        (_refuse(SPENT, loaded=False), "postponed"),
        (_refuse(SPENT, loaded=True), None),
        (_alter, "altered"),
    ],
    ids=["failed before it was loaded", "failed", "postponed before it was loaded", "postponed", "altered"],
)
def test_each_input_stops_each_mart_that_reads_it(
    database: Database, spoil: Callable[[Database, Dataset, Window | None], None], kind: str | None
) -> None:
    for dataset in {dataset for mart in MARTS for dataset in mart.datasets}:
        spoil(database, dataset, THIS_MONTH if dataset.is_dated else None)
        with database.begin() as connection:
            for mart in MARTS:
                month = THIS_MONTH if mart.is_monthly else None
                error = state_of(connection, Derived.of(mart), ACCOUNT, month).input_problem()
                assert (error and error.kind) == (kind if dataset in mart.datasets else None), (mart.name, dataset.name)
            connection.execute(delete(SLICES))
