"""Stores why slices could not be loaded, until they are."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Window
from seller_platform.errors import RequestsUsedUpError, SellerPlatformError
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import REFUSALS


@dataclass(frozen=True)
class Refusal:
    """Why a slice was not loaded when it was last tried.

    Attributes:
        month: As 2026-03; empty for a snapshot.
        error: The class of the error.
        since: When it failed first, after it was loaded last.
        requests: The most requests that were sent in vain, before those of a day were used up.
    """

    month: str
    error: str
    message: str
    since: datetime
    refused_at: datetime
    run_id: str | None
    requests: int = 0


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
        "error": type(error).__name__,
        "message": str(error).replace("\x00", ""),
        "refused_at": utc_now(),
        "run_id": run_id,
        "requests": error.sent if isinstance(error, RequestsUsedUpError) else 0,
    }
    statement = insert(REFUSALS).values(
        dataset=dataset.name, account=account, month=_key(month), since=latest["refused_at"], **latest
    )
    is_same = isinstance(error, RequestsUsedUpError)
    waited = 0 if is_same else case((REFUSALS.c.error == RequestsUsedUpError.__name__, 1), else_=0)
    most = func.greatest(REFUSALS.c.requests, statement.excluded.requests, waited)
    update = statement.on_conflict_do_update(constraint=REFUSALS.primary_key, set_={**latest, "requests": most})
    with database.begin() as connection:
        connection.execute(update)


def forget_refusal(database: Database, dataset: Dataset, account: str, month: Window | None) -> None:
    """Delete the refusal of a slice that was loaded."""
    statement = delete(REFUSALS).where(
        REFUSALS.c.dataset == dataset.name, REFUSALS.c.account == account, REFUSALS.c.month == _key(month)
    )
    with database.begin() as connection:
        connection.execute(statement)


def refusals(database: Database) -> dict[tuple[str, str], tuple[Refusal, ...]]:
    """Return all refusals by name of dataset and account, oldest months first."""
    by_pair: dict[tuple[str, str], list[Refusal]] = defaultdict(list)
    columns = [REFUSALS.c[name] for name in Refusal.__dataclass_fields__]
    statement = select(REFUSALS.c.dataset, REFUSALS.c.account, *columns).order_by(*REFUSALS.primary_key)
    with database.begin() as connection:
        for dataset, account, *facts in connection.execute(statement):
            by_pair[dataset, account].append(Refusal(*facts))
    return {pair: tuple(of_pair) for pair, of_pair in by_pair.items()}


def _key(month: Window | None) -> str:
    return f"{month.start:%Y-%m}" if month else ""
