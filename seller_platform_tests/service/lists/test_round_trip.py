"""Tests that the lists of a service, read as another installation reads them, are the stored rows by value."""

from seller_platform.client.http.api import SellerApi
from seller_platform.client.oauth.tokens import TokenAuth
from seller_platform.contract import LISTS, Window
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.ingest.loads.slices import read_slice
from seller_platform.sandbox import load_sandbox
from seller_platform.service.users.store import grant_accounts
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.slices import Slice, open_load
from seller_platform_tests.support.served import ANN, LAST_DAY, Served, execute, issue_token


def test_what_is_served_is_what_is_stored(service: Served) -> None:
    (shop,) = load_sandbox(service.database, accounts=1, months=2, today=LAST_DAY).accounts
    grant_accounts(service.database, ANN, [shop.key])
    account, month, today = (KnownAccount(shop.key, "default", shop), Window.month_of(LAST_DAY), Window.day(LAST_DAY))
    compared = {}

    with SellerApi(service.base_url, auth=TokenAuth(issue_token(service.database, ANN))) as api:
        for dataset in (*LISTS, COST_PERIODS):
            if dataset.is_computed:
                continue
            slice_ = Slice.of(account, dataset, month.until(today.end) if dataset.is_dated else today)
            with open_load(service.database, slice_, by_value="a test") as load:
                read_slice(api, service.database, account, load)
                equal = load.compare()
                of_slice = f"FROM seller.{dataset.name} WHERE local_day >= '{slice_.window.start}'"
                execute(service.database, f"DELETE {of_slice} AND ctid = (SELECT min(ctid) {of_slice})")
                compared[dataset.name] = (bool(load.spool.count), equal.listed, equal.stored, load.compare().listed)

    assert set(compared.values()) == {(True, 0, 0, 1)}, compared
