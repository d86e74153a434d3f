"""The service on a socket with a PostgreSQL database and two users.

Neither user may read the accounts of the other.
"""

import asyncio
import json
import re
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from html import unescape
from typing import Any, TypeVar
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import psycopg
import uvicorn
from argon2 import PasswordHasher
from prometheus_client import CollectorRegistry
from sqlalchemy import insert

from seller_platform.contract import Dataset
from seller_platform.contract.tokens import code_challenge
from seller_platform.service.access import hash_of
from seller_platform.service.app import ServiceOptions, create_app
from seller_platform.service.http.public_url import ON_LOOPBACK, Location
from seller_platform.service.limits import Limits
from seller_platform.service.oauth.applications import add_application
from seller_platform.service.pool import Connection, Store
from seller_platform.service.reports.worker import Pace
from seller_platform.service.server import configuration
from seller_platform.service.sums.keeping import lock_name
from seller_platform.service.tables import USERS
from seller_platform.service.users.groups import set_group
from seller_platform.service.users.store import grant_accounts
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.postgres.advisory_locks import TRY_LOCK
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform_tests.support.stored_rows import ACCOUNTS, count_rows, execute, insert_rows, list_accounts, stored
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

ANN, BOB, PASSWORD = "ann@shop.example", "bob@shop.example", "correct horse battery staple"
CALLBACK = "http://127.0.0.1:9/callback?tenant=1"
VERIFIER = "v" * 43
PKCE = {"code_challenge": code_challenge(VERIFIER), "code_challenge_method": "S256"}
CLIENT_ID, CSRF_TOKEN = 'id="client_id">([^<]+)<', 'name="csrf_token" value="([0-9a-f]+)"'
NOW = datetime(2026, 3, 10, 3, 0, tzinfo=UTC)  # in Los Angeles still the 9th of March
OF_ANN, OF_BOB = ("us-1", "de-2", "fr-3", "it-4"), ("gb-5",)
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    ANN: {"World": ("us-1", "de-2"), "Twins": ("fr-3", "it-4"), "Empty": ()},
    BOB: {"Secret": ("gb-5",)},
}


Choices = Mapping[str, str | None]
"""What is chosen on the consent page, beside the decision."""

WIDE = Limits(quick_at_once=32, pages_at_once=32, work_at_once=24, open_reports=1_000)
"""Limits that tests with many requests at once do not reach."""


@dataclass(frozen=True)
class Served:
    """A running service, its database, and one registered application."""

    base_url: str
    database: Database
    client_id: str
    client_secret: str

    def client(self, email: str | None = None, *, token: str | None = None) -> httpx.Client:
        token = issue_token(self.database, email) if email else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.base_url, headers=headers, timeout=PATIENCE_SECONDS)

    @property
    def credentials(self) -> dict[str, str]:
        secret = {"client_secret": self.client_secret} if self.client_secret else {}
        return {"client_id": self.client_id, **secret}

    def request_code(self, browser: httpx.Client, **parameters: str) -> httpx.Response:
        query = {
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "state": "a state",
            **parameters,
        }
        return browser.get("/oauth/authorize", params=query, follow_redirects=True)

    def status_of(self, token: str) -> int:
        """Return the status of a request with an access token."""
        with self.client(token=token) as client:
            return client.get("/user/me").status_code

    def code(self, browser: httpx.Client, choices: Choices | None = None, /, **parameters: str) -> str:
        """Return a code, obtained through the pages as a person does."""
        _, answer = approve(browser, self.request_code(browser, **parameters), **choices or {})
        return callback_of(answer)["code"]

    def exchange(self, browser: httpx.Client, code: str, /, **changed: str) -> httpx.Response:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, **self.credentials}
        return browser.post("/oauth/token", data={**form, **changed})

    def pair(self, choices: Choices | None = None, /, **parameters: str) -> dict[str, Any]:
        """Return the token pair of a new consent of Ann."""
        with self.client() as browser:
            return dict(body_of(self.exchange(browser, self.code(browser, choices, **parameters))))

    def execute(self, statement: str, *values: object) -> None:
        execute(self.database, statement, *values)

    def stored(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that a statement selects."""
        return stored(self.database, statement, *values)

    def count_rows(self, table: str, condition: str = "true") -> int:
        return count_rows(self.database, table, condition)

    def insert_rows(self, dataset: Dataset, account: str, rows: Sequence[Row]) -> None:
        insert_rows(self.database, dataset, account, rows)

    @contextmanager
    def logged_in(self, email: str = ANN) -> Iterator[httpx.Client]:
        """Yield a browser in which a user is logged in."""
        with self.client() as browser:
            assert submit(browser, browser.get("/login"), email=email, password=PASSWORD).status_code == 303
            yield browser

    def refresh(self, browser: httpx.Client, refresh_token: str, /, **changed: str) -> httpx.Response:
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token, **self.credentials}
        return browser.post("/oauth/token", data={**form, **changed})


@contextmanager
def served(
    database: Database,
    url: str,
    *,
    worker_pace: Pace | None = None,
    registry: CollectorRegistry | None = None,
    limits: Limits = WIDE,
) -> Iterator[Served]:
    list_accounts(database, ACCOUNTS)
    for email, granted in ((ANN, OF_ANN), (BOB, OF_BOB)):
        add_user(database, email, granted)
        for title, members in GROUPS[email].items():
            set_group(database, email, title, members)
    client_id, client_secret = add_application(database, "Reader <1>", CALLBACK)
    with running_app(url, worker_pace=worker_pace, registry=registry, limits=limits) as base_url:
        yield Served(base_url, database, client_id, client_secret)


@contextmanager
def running_app(
    url: str,
    *,
    wait_seconds: float = 30.0,
    worker_pace: Pace | None = None,
    registry: CollectorRegistry | None = None,
    location: Location = ON_LOOPBACK,
    trusted_proxies: Sequence[str] = (),
    limits: Limits = WIDE,
    grant_lifetime: timedelta = timedelta(days=365),
    now: datetime = NOW,
    **further_options: Any,
) -> Iterator[str]:
    app = create_app(
        url,
        ServiceOptions(location, limits, worker_pace, grant_lifetime, **further_options),
        clock=lambda: now,
        wait_seconds=wait_seconds,
        registry=registry,
    )
    config = configuration(app, trusted_proxies=trusted_proxies, port=0, log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)


def submit(browser: httpx.Client, page: httpx.Response, /, **fields: str | None) -> httpx.Response:
    """Send the first form of a page, with its hidden fields, and what is ticked in it.

    Args:
        fields: Further values; None leaves a field out, like one that is not ticked.
    """
    form = re.search(r"<form.*?</form>", page.text, re.DOTALL)
    assert form, page.text
    action = re.search(r'action="([^"]*)"', form[0])
    hidden = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form[0])
    ticked = re.findall(r'<input [^>]*type="(?:checkbox|radio)" name="([^"]*)" value="([^"]*)" checked>', form[0])
    assert action
    sent = {unescape(name): unescape(value) for name, value in (*hidden, *ticked)} | fields
    values = {name: value for name, value in sent.items() if value is not None}
    return browser.post(urljoin(str(page.url), unescape(action[1])), data=values)


def approve(
    browser: httpx.Client, login: httpx.Response, /, **choices: str | None
) -> tuple[httpx.Response, httpx.Response]:
    """Log in as Ann and approve as a person does; return the consent page and the answer to the decision."""
    answer = submit(browser, login, email=ANN, password=PASSWORD)
    page = browser.get(urljoin(str(login.url), answer.headers["location"]))
    return page, submit(browser, page, decision="approve", **choices)


def approve_at(url: str, **choices: str | None) -> tuple[str, str]:
    """Approve at an address in a new browser; return the text of the consent page and where the browser is sent."""
    with httpx.Client(timeout=PATIENCE_SECONDS) as browser:
        page, answer = approve(browser, browser.get(url, follow_redirects=True), **choices)
    return page.text, answer.headers["location"]


def value_in(page: httpx.Response, pattern: str) -> str:
    """Return what the group of a pattern matches in a page."""
    found = re.search(pattern, page.text)
    assert found, page.text
    return found[1]


def ask(client: httpx.Client, path: str, **query: object) -> httpx.Response:
    """Send a request with the parameters that are not None."""
    return client.get(path, params={name: str(value) for name, value in query.items() if value is not None})


def body_of(answer: httpx.Response) -> Any:
    """Return the body of an answer to an accepted request, with exact numbers."""
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text, parse_float=Decimal)


def callback_of(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"].startswith(f"{CALLBACK}&")
    query = parse_qs(urlsplit(answer.headers["location"]).query, strict_parsing=True)
    return {name: values[0] for name, values in query.items()}


def issue_token(
    database: Database, email: str, *, expires_in: timedelta = timedelta(hours=1), accounts: Sequence[str] | None = None
) -> str:
    """Return an access token of a user, stored without the pages; `accounts` are those ticked."""
    token = secrets.token_urlsafe(32)
    with database.begin() as connection:
        driver_of(connection).execute(
            "WITH consent AS (INSERT INTO service.authorizations (family, client_id, user_id, accounts) "
            "SELECT gen_random_uuid(), client_id, users.id, %s::text[] FROM service.applications, service.users "
            "WHERE users.email = %s LIMIT 1 RETURNING family) "
            "INSERT INTO service.access_tokens SELECT %s, family, now() + %s FROM consent",
            (None if accounts is None else list(accounts), email, hash_of(token), expires_in),
        )
    return token


def add_product(
    database: Database, account: str, sku: str, asin: str = "A", parent: str | None = None, *, name: str = ""
) -> None:
    """Store a product of the service."""
    statement = "INSERT INTO service.products (account, sku, asin, parent_asin, product_name) VALUES "
    execute(database, f"{statement} (%s, %s, %s, %s, %s)", account, sku, asin, parent, name)


Result = TypeVar("Result")


def with_store(url: str, act: Callable[[Store], Awaitable[Result]]) -> Result:
    """Return what a function returns of the service's connections, which are open for it."""

    async def run() -> Result:
        store = Store(url)
        await store.open()
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(run())


def with_connection(url: str, act: Callable[[Connection], Awaitable[Result]]) -> Result:
    """Return what a function returns of one of these connections."""

    async def run(store: Store) -> Result:
        async with store.connection() as connection:
            return await act(connection)

    return with_store(url, run)


def add_user(database: Database, email: str, accounts: Sequence[str]) -> int:
    """Store a user who may read these accounts, and return their number."""
    values = {"email": email, "name": email.partition("@")[0].title(), "password_hash": _password_hash()}
    user_id: int = database.execute(insert(USERS).values(values).returning(USERS.c.id)).scalar_one()
    grant_accounts(database, email, accounts)
    return user_id


@cache
def _password_hash() -> str:
    """Return a hash of the password that is quick to verify.

    Hundreds of tests log in.
    """
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)


@contextmanager
def locked_sums(url: str, account: str = "us-1") -> Iterator[None]:
    """Hold the lock of an account's sums, as a program does that adds them."""
    with psycopg.connect(url) as connection:
        assert connection.execute(TRY_LOCK, {"name": lock_name(account)}).fetchone() == (True,)
        yield
