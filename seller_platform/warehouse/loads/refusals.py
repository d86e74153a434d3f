"""Stores why slices could not be loaded, until they are."""

from collections import defaultdict
from typing import Any

from sqlalchemy import Row, case, func, select, update
from sqlalchemy.dialects.postgresql import insert

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Window
from seller_platform.errors import RequestsUsedUpError, SellerPlatformError
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import SLICES


def keep_refusal(
    database: Database,
    dataset: Dataset,
    account: str,
    month: Window | None,
    error: SellerPlatformError,
    *,
    run_id: str | None,
) -> None:
    """Store why a slice was not loaded, in place of an earlier reason.

    A month for which the requests of a day did not suffice stays marked by its requests, of which it has at least one.
    """
    # PostgreSQL stores every character but NUL, which a message may quote.
    latest = {
        "error": error.code,
        "message": str(error).replace("\x00", ""),
        "failed_at": utc_now(),
        "failed_run_id": run_id,
        "exit_code": error.exit_code,
        "requests_in_vain": error.sent if isinstance(error, RequestsUsedUpError) else 0,
    }
    key = {"dataset": dataset.name, "account": account, "month": month and month.start.replace(day=1)}
    statement = insert(SLICES).values(failed_since=latest["failed_at"], **key, **latest)
    is_same = isinstance(error, RequestsUsedUpError)
    waited = 0 if is_same else case((SLICES.c.error == RequestsUsedUpError.__name__, 1), else_=0)
    update_ = statement.on_conflict_do_update(
        index_elements=[*key],
        set_={
            **latest,
            "failed_since": func.coalesce(SLICES.c.failed_since, statement.excluded.failed_since),
            "requests_in_vain": func.greatest(SLICES.c.requests_in_vain, statement.excluded.requests_in_vain, waited),
        },
    )
    database.execute(update_)


def forget_refusal(database: Database, dataset: Dataset, account: str, month: Window | None) -> None:
    """Forget the refusal of a slice that was loaded."""
    of_month = SLICES.c.month.is_(None) if month is None else SLICES.c.month == month.start.replace(day=1)
    nothing = dict.fromkeys(("error", "message", "failed_since", "failed_at", "failed_run_id", "exit_code"), None)
    of_slice = (SLICES.c.dataset == dataset.name, SLICES.c.account == account, of_month)
    statement = update(SLICES).where(*of_slice, SLICES.c.error.is_not(None))
    database.execute(statement.values(requests_in_vain=0, **nothing))


def refusals(database: Database) -> dict[tuple[str, str], list[Row[Any]]]:
    """Return why slices were not loaded when they were last tried, by name of dataset and account.

    Each refusal has the `month`, None for a list without days; the `error`, a class; and `requests_in_vain`, the most
    requests that were sent before those of a day were used up.
    """
    by_pair = defaultdict[tuple[str, str], list[Row[Any]]](list)
    columns = (SLICES.c.dataset, SLICES.c.account, SLICES.c.month, SLICES.c.error, SLICES.c.requests_in_vain)
    for row in database.execute(select(*columns).where(SLICES.c.error.is_not(None))):
        by_pair[row.dataset, row.account].append(row)
    return by_pair
