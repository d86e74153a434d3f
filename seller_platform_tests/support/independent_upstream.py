"""An upstream that implements the same specification differently wherever it leaves a choice.

It shares nothing with our service and the simulation's upstream but the declarations of lists, so that loads from it
prove that the client does not depend on how these spell their answers.
Its base URL has a path. It approves without a login page and issues tokens that expire after two seconds. It uses the
other variant of field names, and sends amounts as text with thousands separators, objects instead of arrays,
timestamps without a zone, and no `last_page`.
"""

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from seller_platform.contract import LISTS, Column, Dataset, Kind
from seller_platform.ingest.connections.upstream import Upstream
from seller_platform_tests.support.raw_server import Answer, RawServer, Request, serving

Rows = list[dict[str, Any]]

CLIENT_ID, CLIENT_SECRET = "foreign-client", "foreign-canary-secret"
ACCOUNTS: Rows = [
    {
        "id": "41",
        "account_title": 'Ünïcode & "Sons" [EU]',
        "country_code": "AT",
        "currency_code": "EUR",
        "timezone": "Europe/Berlin",
        "marketplace": "market.example",
        "seller_id": "A1FOREIGN",
    },
    {
        "id": 42,
        "account_title": "Down Under",
        "country_code": "AU",
        "currency_code": "AUD",
        "timezone": "Australia/Adelaide",
        "marketplace": "market.example",
        "seller_id": "A.2|FOREIGN",
    },
]
KEYS = {"A1FOREIGN": "at-41", "A.2|FOREIGN": "au-42"}
MONTHS = (date(2026, 1, 1), date(2026, 2, 1), date(2026, 3, 1))


def shops(sellers: Sequence[str]) -> Rows:
    """Return accounts of these sellers with ids from 100."""
    return [
        {**ACCOUNTS[0], "id": 100 + number, "account_title": f"Shop {number}", "seller_id": seller}
        for number, seller in enumerate(sellers)
    ]


def order_rows(seller: str, channel: str, month: date) -> Rows:
    """Return the orders of a month, in the fields this upstream sends."""
    count = {"platform": 700, "non-platform": 3}[channel] if month == MONTHS[1] else 5
    start = datetime.combine(month, datetime.min.time())
    return [
        {
            "platform_order_id": f"{seller}-{channel}-{month:%m}-{number}",
            "purchase_date": str(start + timedelta(minutes=50 * number)),
            "order_status": "Shipped",
            "order_total": f"1,{number:03d}.10",
            "currency_code": "EUR",
            "quantity_ordered": str(1 + number % 3),
            "sku": f"SKU {number % 7}",
            "asin": None,
            "product_name": 'None\t"x"\\',
            "is_gift": number % 2 == 0,
        }
        for number in range(count)
    ]


def transaction_rows(month: date) -> Rows:
    """Return the transactions of a month; two of them are equal."""
    row = {
        "posted_date": f"{month}T23:59:59.123456",
        "transaction_type": "Refund",
        "platform_order_id": "order",
        "sku": "SKU 1",
        "amount": "-4,835.92",
        "currency": "EUR",
        "marketplace_name": "market.example",
    }
    return [row, row, {**row, "transaction_type": "Fee", "sku": None, "amount": -0.1}]


def daily_rows(month: date) -> Rows:
    """Return daily product sales, with the other names of taxes and rebates."""
    return [
        {
            "date": str(month + timedelta(days=day)),
            "sku": "SKU 1",
            "product_name": "Cup",
            "units_ordered": 2,
            "product_sales": 10.5,
            "product_sales_tax": "0.5",
            "shipping_credits": 0,
            "promotional_rebates": 1e-1,
        }
        for day in range(3)
    ]


def declared_rows(dataset: Dataset, start: str, end: str) -> Rows:
    """Return rows built from the declaration of a list, one for each month.

    Rows of a dated list are limited to the window; an undated list has all of them.
    """
    days = [month for month in MONTHS if not dataset.is_dated or start <= str(month) <= end]
    return [
        {column.name: _declared_value(column, number, day) for column in dataset.columns}
        for number, day in enumerate(days)
    ]


def _declared_value(column: Column, number: int, day: date) -> object:
    values: dict[Kind, object] = {
        Kind.TEXT: f"{column.name} {number}",
        Kind.INTEGER: str(number),
        Kind.MONEY: f"1,{number:03d}.10",
        Kind.NUMBER: number / 8,
        Kind.BOOLEAN: number % 2,
        Kind.DATE: str(day),
        Kind.TIMESTAMP: f"{day}T12:00:00",
        Kind.JSON: {"number": number},
    }
    return values[column.kind]


UNDATED: dict[str, Rows] = {
    "/inventory/list": [
        {"sku": f"SKU {number}", "velocity_30_days": "1.5", "restock_date": None, "days_of_stock": 10}
        for number in range(45)
    ],
    "/warehouse/list": [],
    "/warehouse/inbound-shipments": [{"shipment_id": "S1", "status": "WORKING", "created_date": "2026-01-01"}],
}
COST_PERIODS: dict[str, Rows] = {
    "SKU 1": [
        {
            "from_date": "2026-01-01",
            "to_date": "2026-12-31",
            "cost_elements": [{"cost_element": "Freight", "amount": "1,234.50", "currency": "EUR"}],
        }
    ]
}
NOTIFICATIONS: dict[str, Rows] = {
    "inventory_alerts": [{"id": number, "type": "inventory_alerts", "read": "0"} for number in range(1, 61)],
    "price_alerts": [],
    "restock_alerts": [{"id": 99, "type": "restock_alerts", "read": 1, "created_at": "2026-02-01 10:00:00"}],
}


@dataclass
class IndependentUpstream:
    """The upstream's state: its valid tokens and the recorded requests.

    Attributes:
        server: It sends the answers, whole or by its plan.
        changes: What becomes of the rows of a list, and its seller, by the path of the list.
        surplus: How many rows more than they have all lists announce.
        hangs_until: Lists are answered only after it is set; None for at once.
        waiting: How many requests came while lists were not answered.
        access: The requests that each access token still allows; a number of seconds would depend on the machine.
        token_seconds: The announced lifetime of a token. The client refreshes after half of it.
    """

    redirect_uri: str
    server: RawServer = field(init=False)
    codes: set[str] = field(default_factory=set)
    access: dict[str, Iterator[int]] = field(default_factory=dict)
    refresh: set[str] = field(default_factory=set)
    spent: set[str] = field(default_factory=set)
    replayed: int = 0
    refreshes: int = 0
    missing: tuple[str, ...] = ()
    token_seconds: int = 2
    token_requests: int = 50
    accounts: Rows = field(default_factory=lambda: list(ACCOUNTS))
    changes: dict[str, Callable[[Rows, str], Rows]] = field(default_factory=dict)
    surplus: int = 0
    hangs_until: threading.Event | None = None
    waiting: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def application(self) -> Upstream:
        """The API, and the application that calls it, as a connection stores them."""
        base_url = f"{self.url}/api"
        return Upstream(base_url, base_url, CLIENT_ID, CLIENT_SECRET, self.redirect_uri)

    def issue(self) -> dict[str, Any]:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.access[access] = iter(range(self.token_requests))
        self.refresh.add(refresh)
        return {
            "token_type": "Bearer",
            "expires_in": str(self.token_seconds),
            "access_token": access,
            "refresh_token": refresh,
        }

    def issue_lasting_tokens(self) -> None:
        """Issue tokens that are valid for the whole test from now on."""
        self.token_seconds, self.token_requests = 86_400, 1_000_000

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Answer no list until the block ends."""
        self.waiting, self.hangs_until = 0, threading.Event()
        try:
            yield
        finally:
            self.hangs_until.set()
            self.hangs_until = None

    def honours(self, access_token: str) -> bool:
        """Whether an access token answers this request, too."""
        return next(self.access.get(access_token, iter(())), None) is not None

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        with self.lock:
            if (form.get("client_id"), form.get("client_secret")) != (CLIENT_ID, CLIENT_SECRET):
                return 401, {"error": "invalid_client"}
            if form["grant_type"] == "authorization_code" and form["code"] in self.codes:
                self.codes.remove(form["code"])
                return 200, self.issue()
            if form["grant_type"] == "refresh_token":
                if form["refresh_token"] in self.refresh:
                    self.refresh.remove(form["refresh_token"])
                    self.spent.add(form["refresh_token"])
                    self.access.clear()
                    self.refreshes += 1
                    return 200, self.issue()
                self.replayed += form["refresh_token"] in self.spent
            return 400, {"error": "invalid_grant"}

    def answer(self, request: Request) -> Answer:  # noqa: PLR0911  # one answer for each kind of request
        query, path = request.query, request.path.removeprefix("/api")
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if request.method == "POST":
            status, tokens = self.token(request.form)
            return Answer.of(tokens, status)
        if path == "/login/oauth/authorize":
            self.codes.add(code := secrets.token_urlsafe(12))
            approved = {"code": code, "state": query["state"], "session_state": "x"}
            return Answer(302, headers={"Location": f"{query['redirect_uri']}?{urlencode(approved)}"})
        if path == request.path:
            return Answer.of({"message": "not found"}, 404)
        if not self.honours(token):
            return Answer.of({"message": "Unauthenticated."}, 401)
        if path == "/user/me":
            return Answer.of({"user": {"id": "7", "name": "Ana"}})
        if path == "/user/accounts":
            return Answer.of({"accounts": self.accounts})
        if self.hangs_until is not None:
            self.waiting += 1
            self.hangs_until.wait()
        document = self.page(path, query)
        return Answer.of({"message": "not found"}, 404) if document is None else Answer.of(document)

    def page(self, path: str, query: dict[str, str]) -> dict[str, Any] | None:
        seller, number = query.get("seller_id"), int(query.get("page", "1"))
        if seller is None or path in self.missing:
            return None
        if path == "/cogs/cost-periods":
            return {"data": COST_PERIODS.get(query["sku"], [])}
        if path == "/notifications/list":
            return {"data": NOTIFICATIONS[query["notification_type"]][(number - 1) * 25 : number * 25]}
        rows, change = _rows(path, seller, query), self.changes.get(path)
        if rows is None:
            return None
        if change is not None:
            rows = change(rows, seller)
        size = min(int(query["per_page"]), 500)
        selected = rows[(number - 1) * size : number * size]
        data = {f"{position}": row for position, row in enumerate(selected)} if path in UNDATED else selected
        total = f"{len(rows) + self.surplus:,}"
        return {"current_page": str(number), "data": data, "total": total, "per_page": str(size)}


def _rows(path: str, seller: str, query: dict[str, str]) -> Rows | None:
    """Return the rows of a list in the days that are asked for; None where there is no such list."""
    if path in UNDATED:
        return UNDATED[path]
    start, end = query.get("start_date", str(MONTHS[0])), query.get("end_date", str(MONTHS[-1]))
    months = [month for month in MONTHS if start <= str(month) <= end]
    if path == "/sales/orders":
        channels = [query["sales_channel"]] if "sales_channel" in query else ["platform", "non-platform"]
        rows = [row for month in MONTHS for channel in channels for row in order_rows(seller, channel, month)]
        return [row for row in rows if start <= row["purchase_date"][:10] <= end]
    if path == "/sales/transactions":
        return [row for month in months for row in transaction_rows(month)]
    if path == "/sales/per-day-per-product":  # it knows no sales channels and ignores the filter
        return [row for month in MONTHS for row in daily_rows(month) if start <= row["date"] <= end]
    if path == "/sales/statistics-dashboard":
        return [
            {"sku": "SKU 1", "date": f"{month:%B %Y}", "profit": "1,000.5", "roi": None}
            if query.get("view_by") == "product"
            else {"date": f"{month}", "units_ordered": 3}
            for month in months
        ]
    return next((declared_rows(dataset, start, end) for dataset in LISTS if dataset.path == path), None)


@contextmanager
def open_independent_upstream(redirect_uri: str) -> Iterator[IndependentUpstream]:
    """Serve the upstream on a free port of the loopback interface."""
    state = IndependentUpstream(redirect_uri)
    with serving(state.answer) as state.server:
        yield state
