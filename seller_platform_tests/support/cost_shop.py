"""A shop for reading and writing costs: the service, and a warehouse connected to it.

The service listens on a socket. Two of its users are connected.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.contract.tokens import TokenPair
from seller_platform.ingest.connections.upstream import Upstream, open_api, open_keeper
from seller_platform.ingest.loads.accounts import discover
from seller_platform.warehouse.connections.accounts import KnownAccount, account_of, save_connection
from seller_platform.warehouse.connections.secrets import SecretBox, secret_box
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import connected_environment
from seller_platform_tests.support.served import ANN, BOB, CALLBACK, Served, add_product, issue_token, served
from seller_platform_tests.support.stored_rows import ACCOUNTS

PATH = "/cogs/cost-periods"
US, DE, GB = "us-1", "de-2", "gb-5"
SKUS = ("SKU-1", "SKU-2", 'Tee 茶 & "Söhne"/50%+#1')
CONNECTIONS = {"default": ANN, "bob": BOB}


@dataclass(frozen=True)
class Shop:
    """The service, and the warehouse of an installation that is connected to it."""

    service: Served
    warehouse: Database
    upstream: Upstream
    box: SecretBox
    home: Path

    def api(self, connection: str = "default") -> SellerApi:
        return open_api(self.upstream, connection, self.warehouse, self.box, self.home)

    def registered(self, account: str = US) -> KnownAccount:
        return account_of(self.warehouse, account)

    def read(self, sku: str = SKUS[0], account: str = US) -> list[dict[str, Any]]:
        """Return the service's costs of a product, read without the platform's client."""
        with self._client(account) as client:
            answer = client.get(PATH, params={**ACCOUNTS[account].selection, "sku": sku})
            assert answer.status_code == 200, answer.text
            return list(json.loads(answer.text, parse_float=Decimal)["data"])

    def sums(self, sku: str = SKUS[0], account: str = US) -> dict[str, Decimal]:
        """Return the amount of each period, by `from..to`."""
        return {
            f"{period['from_date']}..{period['to_date']}": sum(
                (element["amount"] for element in period["cost_elements"]), Decimal(0)
            )
            for period in self.read(sku, account)
        }

    def write(self, *periods: Mapping[str, Any], sku: str = SKUS[0], account: str = US) -> None:
        with self._client(account) as client:
            body = {"sku": sku, "data": list(periods)}
            answer = client.post(PATH, params=ACCOUNTS[account].selection, json=body)
            assert answer.status_code == 200, answer.text

    def query(self, statement: str, **values: object) -> Sequence[Any]:
        return self.warehouse.execute(text(statement), values).all()

    def stock(self, account: str, skus: Sequence[str]) -> None:
        """Store an inventory in the warehouse as a load does."""
        for sku in skus:
            self.warehouse.execute(
                text(
                    "INSERT INTO seller.inventory (sku, local_day, account, load_id, page) "
                    "VALUES (:sku, '2026-03-01', :account, 1, 1)"
                ),
                {"sku": sku, "account": account},
            )

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which the commands work on this warehouse."""
        return connected_environment(self.upstream, self.warehouse.url, self.home)

    def _client(self, account: str) -> httpx.Client:
        return self.service.client(BOB if account == GB else ANN)


@contextmanager
def open_shop(databases: Databases, home: Path) -> Iterator[Shop]:
    """Serve a shop with three accounts of three products, and connect a warehouse to it."""
    with databases.lent() as database, databases.lent() as warehouse, served(database, database.url) as running:
        for account in (US, DE, GB):
            for number, sku in enumerate(SKUS):
                add_product(database, account, sku, f"ASIN-{number}")
        yield _connected(running, warehouse, home)


def period(first: str, last: str, amount: float = 3, *, currency: str = "USD", **element: Any) -> dict[str, Any]:
    """Return a period of one element, as it is sent."""
    sent = {"cost_element": "Manufacturing", "amount": amount, "currency": currency, **element}
    return {"dates": {"from_date": first, "to_date": last}, "cost_elements": [sent]}


def _connected(running: Served, warehouse: Database, home: Path) -> Shop:
    upstream = Upstream(running.base_url, running.base_url, running.client_id, running.client_secret, CALLBACK)
    shop = Shop(running, warehouse, upstream, secret_box(home, None), home)
    for connection, email in CONNECTIONS.items():
        save_connection(warehouse, upstream.as_connection(connection))
        token = issue_token(running.database, email, expires_in=timedelta(days=30))
        keeper = open_keeper(upstream, connection, warehouse, shop.box, home)
        keeper.adopt(TokenPair(token, "none", datetime.now(UTC), int(timedelta(days=30).total_seconds())))
        with shop.api(connection) as api:
            discover(lambda _: api, warehouse, upstream.as_connection(connection), run_id=None)
    return shop
