"""Loads the cost periods of all products of an account as its daily snapshot."""

from datetime import datetime

from seller_platform.client.endpoints.cost_periods import read_cost_periods
from seller_platform.client.http.api import SellerApi
from seller_platform.clocks import utc_now
from seller_platform.contract import Window
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.inventory import INVENTORY
from seller_platform.contract.loads import LoadFacts
from seller_platform.errors import RequestError
from seller_platform.ingest.connections.request_budget import reserving
from seller_platform.ingest.loads.slices import published
from seller_platform.ingest.loads.telemetry import observed_load
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.holds import Accepted, Judge
from seller_platform.warehouse.loads.products import skus_of_account
from seller_platform.warehouse.loads.receipts import was_loaded
from seller_platform.warehouse.loads.slices import Load, Receipt, Slice, open_load
from seller_platform.warehouse.postgres.database import Database


def load_costs(
    api: SellerApi,
    database: Database,
    account: KnownAccount,
    *,
    now: datetime,
    run_id: str | None,
    is_second: bool = False,
    accepted: Accepted | None = None,
    by_value: bool = False,
    repairs: bool = False,
) -> Receipt:
    """Make the account's snapshot of today equal to the API's present cost periods.

    Its products are those of its newest inventory and those that it sold.

    Args:
        run_id: The Dagster run, for the receipt.
        is_second: The costs were read before, and the reading was implausible.
        accepted: The doubt of a held reading; a reading that says the same is published.
        by_value: Compare the stored rows by value; nothing that earlier loads kept is believed.
        repairs: A person asked for it: what another program changed is not held.

    Raises:
        ImplausibleReadingError: The reading contradicts the stored rows, and is not the second one. Nothing was stored.
        ReadingHeldError: The second reading contradicts them, too. Only its receipt was stored.
        RequestError: Neither inventory nor sales of the account were ever loaded.
        UpstreamUnavailableError: The API did not answer for a product. Nothing was stored.
        RequestRefusedError: The API refused a request. Nothing was stored.
        RequestsUsedUpError: The requests of today do not suffice. Nothing was stored.
        ContractViolationError: An answer breaks the contract. Nothing was stored.
    """
    started_at = utc_now()
    today = now.astimezone(account.zone).date()
    slice_ = Slice.of(account, COST_PERIODS, Window.day(today))
    with observed_load(slice_, run_id=run_id) as observed, open_load(database, slice_, by_value=by_value) as load:
        facts = read_costs(api, database, account, load)
        judge = Judge(is_second=is_second or accepted is not None, accepted=accepted, repairs=repairs)
        return published(observed.stored(load.store(facts, started_at=started_at, run_id=run_id, judge=judge)))


def read_costs(api: SellerApi, database: Database, account: KnownAccount, load: Load) -> LoadFacts:
    """Read the cost periods of an account's products into the spool of a load.

    Raises:
        SellerPlatformError: As `load_costs` does.
    """
    skus = skus_of_account(database, account.key)
    if not skus and not was_loaded(database, INVENTORY, account.key):
        raise RequestError(
            f"the products of account {account.key!r} cannot be listed yet: neither its inventory nor its daily "
            "sales were ever loaded",
            code="ProductsUnknownError",
            step="Load its inventory first: `seller-platform sync --dataset inventory`.",
        )
    with reserving(api, database, COST_PERIODS, account.key, load.slice.window) as reserved:
        return read_cost_periods(reserved, account.account, skus, load.slice.window.start, load.spool)
