"""Authenticates callers by the scopes of their tokens, and decides which accounts they may read.

No other module decides this: rows are read only through `SelectedAccounts`, which only `select_accounts` creates.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

from psycopg import errors
from starlette.datastructures import Headers
from starlette.requests import Request

from seller_platform.contract.accounts import zone_or_none
from seller_platform.service.errors import ApiError, InvalidParametersError, NotFoundError, UnauthorizedError
from seller_platform.service.http.parameters import Parameter, Query, Text, shown
from seller_platform.service.http.responses import base_url_of
from seller_platform.service.pool import Connection, fetch_records

ACCOUNT_TITLE = Parameter[str]("account_title", "Title of an account: selects that account.", Text, example="Shop US")
SELLER_ID = Parameter[str]("seller_id", "Seller of an account; goes with `marketplace_id`.", Text)
MARKETPLACE_ID = Parameter[str]("marketplace_id", "Marketplace of an account; goes with `seller_id`.", Text)
GROUP_TITLE = Parameter[str](
    "group_title", "Title of a group: selects its accounts, of which a token reads those that its user ticked.", Text
)
SELECTION: tuple[Parameter[str], ...] = (ACCOUNT_TITLE, SELLER_ID, MARKETPLACE_ID, GROUP_TITLE)

ACCOUNT = "account"
"""The name of the selection of accounts in error messages."""

_ONE_METHOD = "select accounts by exactly one of account_title, seller_id with marketplace_id, or group_title"
_BEARER = re.compile(r"Bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)


class Scope(StrEnum):
    """What a token may do; every token may read."""

    READ = "read"
    COSTS_WRITE = "costs:write"
    REPORTS = "reports"


SCOPES: Mapping[Scope, str] = {
    Scope.READ: "Read the user, their accounts and the rows of these, and download reports.",
    Scope.COSTS_WRITE: "Write and delete cost periods.",
    Scope.REPORTS: "Request reports.",
}
"""One sentence for each scope."""


def scopes_of(requested: str) -> tuple[Scope, ...]:
    """Return the scopes that a `scope` parameter requests: `read`, and those it names.

    Unknown values are ignored; without a known one, all scopes are requested (RFC 6749 section 3.3).
    """
    named = {Scope(word) for word in requested.split(" ") if word in set(Scope)}
    return tuple(scope for scope in Scope if not named or scope in {Scope.READ, *named})


@dataclass(frozen=True)
class Caller:
    """The user whose token a request carries, and what the token permits.

    Attributes:
        scopes: What the token may do; a user in the browser may do everything.
        consented_accounts: Keys of the accounts that the token may read; None does not restrict them.
    """

    id: int
    name: str
    email: str
    status: str
    scopes: Sequence[str] = tuple(Scope)
    consented_accounts: Sequence[str] | None = None


@dataclass(frozen=True)
class ServedAccount:
    """An account of a user, with the key of its rows.

    Attributes:
        is_replica: Whether its rows come from another service: a connection of this database lists it, or did.
    """

    key: str
    id: int
    account_title: str
    country_code: str | None
    currency_code: str | None
    timezone: str | None
    marketplace: str | None
    seller_id: str | None
    is_replica: bool

    def today(self, now: datetime) -> date:
        """Return the day of a moment in the account's time zone."""
        return now.astimezone(ZoneInfo(self.zone_name)).date()

    @property
    def zone_name(self) -> str:
        """The time zone of the answers; UTC for an account of a replica whose own is not known."""
        zone = zone_or_none(self.timezone)
        return "UTC" if zone is None else zone.key


@dataclass(frozen=True)
class Selector:
    """How a request selects its accounts; a field that is None does not restrict them."""

    account_title: str | None = None
    seller_id: str | None = None
    marketplace_id: str | None = None
    group_title: str | None = None


@dataclass(frozen=True)
class SelectedAccounts:
    """The accounts of one request; its caller may read all of them."""

    accounts: tuple[ServedAccount, ...]
    selector: Selector = Selector()

    @property
    def keys(self) -> list[str]:
        return [account.key for account in self.accounts]

    @property
    def currencies(self) -> list[str]:
        """The currencies that the accounts keep, for messages."""
        return sorted({account.currency_code or "an unknown currency" for account in self.accounts})

    @property
    def has_replicas(self) -> bool:
        """Whether an upstream may compute other rows than this service does."""
        return any(account.is_replica for account in self.accounts)


_CALLER = """
SELECT users.id, users.name, users.email, users.status, coalesce(token.scopes, consent.scopes), consent.accounts,
       consent.family,
       consent.last_used_on IS DISTINCT FROM (now() AT TIME ZONE 'UTC')::date AS is_first_today, consent.resource
FROM service.access_tokens AS token
JOIN service.authorizations AS consent
  ON consent.family = token.family AND consent.revoked_at IS NULL AND consent.expires_at > now()
JOIN service.users AS users ON users.id = consent.user_id AND users.status = 'active'
WHERE token.token_hash = %s AND token.expires_at > now()
"""
# Written once a day, so that most requests write nothing.
_USED = "UPDATE service.authorizations SET last_used_on = (now() AT TIME ZONE 'UTC')::date WHERE family = %s"

_ACCOUNTS = """
SELECT account.key, account.id, account.account_title, account.country_code, account.currency_code,
       account.timezone, account.marketplace, account.seller_id,
       EXISTS (SELECT FROM platform.accounts AS registered WHERE registered.key = account.key) AS is_replica
FROM service.user_accounts AS access
JOIN (
    -- Where several connections list an account, its newest row is used.
    SELECT DISTINCT ON (listed.account) listed.account AS key, listed.*
    FROM seller.accounts AS listed
    ORDER BY listed.account, listed.load_id DESC
) AS account ON account.key = access.account
WHERE access.user_id = %(user)s
  AND (%(consented)s::text[] IS NULL OR account.key = ANY(%(consented)s))
  AND (%(account_title)s::text IS NULL OR account.account_title = %(account_title)s)
  AND (%(seller_id)s::text IS NULL OR account.seller_id = %(seller_id)s)
  AND (%(marketplace_id)s::text IS NULL OR account.marketplace = %(marketplace_id)s)
  AND (%(group_title)s::text IS NULL OR account.key IN (
        SELECT member.account
        FROM service.account_group_members AS member
        JOIN service.account_groups AS account_group ON account_group.id = member.group_id
        WHERE account_group.user_id = %(user)s AND account_group.title = %(group_title)s
  ))
ORDER BY account.id, account.key
"""

_GROUP = "SELECT FROM service.account_groups WHERE user_id = %(user)s AND title = %(group_title)s"


def hash_of(secret: str) -> bytes:
    """Return the hash under which a random secret is stored."""
    return hashlib.sha256(secret.encode()).digest()


def bearer_token(headers: Headers) -> str:
    """Return the bearer token of a request.

    Raises:
        UnauthorizedError: It carries none, or the header is malformed.
    """
    headers_sent = headers.getlist("authorization")
    if not headers_sent:
        raise UnauthorizedError("send the header Authorization: Bearer ACCESS_TOKEN")
    token = _BEARER.fullmatch(headers_sent[0]) if len(headers_sent) == 1 else None
    if token is None:
        raise UnauthorizedError(
            "the Authorization header is not of the form Bearer ACCESS_TOKEN", error="invalid_request"
        )
    return token[1]


async def authenticate(
    connection: Connection, request: Request, scope: Scope = Scope.READ, *, resource: str | None = None
) -> Caller:
    """Return the user of a request's bearer token, and store that it was used today.

    Args:
        resource: The path of the resource that the token must be for; None stands for the REST API.

    Raises:
        UnauthorizedError: It carries no token, or one that is not valid here.
        ApiError: The token does not have the scope.
    """
    row = await (await connection.execute(_CALLER, (hash_of(bearer_token(request.headers)),))).fetchone()
    if row is None:
        raise UnauthorizedError("the access token is unknown, expired or revoked", error="invalid_token")
    *caller, family, is_first_today, of_token = row
    if of_token != resource:
        base = base_url_of(request)
        needed = f"{base}{resource or ''}"
        message = (
            f"the access token is for the resource {base}{of_token or ''}, and one for {needed} is needed here; "
            f"send the user through the authorization again, with resource={needed}"
        )
        raise UnauthorizedError(message, error="invalid_token")
    if is_first_today:
        # A service that may only read its database does not store the day.
        with suppress(errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege):
            async with connection.transaction():
                await connection.execute(_USED, (family,))
    authenticated = Caller(*caller)
    if scope not in authenticated.scopes:
        # RFC 6750 section 3.1.
        message = f"the access token has the scopes {' '.join(authenticated.scopes)}; this needs {scope}"
        description = f'error="insufficient_scope", error_description="{message}", scope="{scope}"'
        raise ApiError(
            f"{message}; send the user through the authorization again, with that scope",
            status=403,
            headers={"WWW-Authenticate": f'Bearer realm="seller-platform", {description}'},
        )
    return authenticated


def read_selector(query: Query) -> Selector:
    """Return how a request selects its accounts; problems are added to the query."""
    selector = Selector(*map(query.value, SELECTION))
    is_half = query.has(SELLER_ID) != query.has(MARKETPLACE_ID)
    has_pair = query.has(SELLER_ID) or query.has(MARKETPLACE_ID)
    methods = [query.has(ACCOUNT_TITLE), has_pair, query.has(GROUP_TITLE)]
    if sum(methods) > 1:
        query.refuse(ACCOUNT, f"is selected in more than one way; {_ONE_METHOD}")
    elif is_half:
        missing = (MARKETPLACE_ID if query.has(SELLER_ID) else SELLER_ID).name
        query.refuse(missing, "is required; seller_id and marketplace_id go together")
    elif not any(methods):
        query.refuse(ACCOUNT, f"is not selected; {_ONE_METHOD}")
    return selector


async def select_accounts(connection: Connection, caller: Caller, selector: Selector) -> SelectedAccounts:
    """Return the accounts that a caller selects.

    Raises:
        NotFoundError: The account or group does not exist, or is not the caller's.
        InvalidParametersError: The selection is ambiguous: several accounts of the caller have that title.
    """
    accounts = await accounts_of(connection, caller, selector)
    if selector.group_title is not None:
        group = {"user": caller.id, "group_title": selector.group_title}
        # A token for some accounts gets the same answer for a group of others as for a group that does not exist.
        is_hidden = caller.consented_accounts is not None
        if not accounts and (is_hidden or await (await connection.execute(_GROUP, group)).fetchone() is None):
            raise NotFoundError(f"there is no group titled {shown(selector.group_title)} among yours")
    elif not accounts:
        seller, marketplace = shown(selector.seller_id or ""), shown(selector.marketplace_id or "")
        named = (
            f"titled {shown(selector.account_title)}"
            if selector.account_title is not None
            else f"of seller {seller} on marketplace {marketplace}"
        )
        raise NotFoundError(f"there is no account {named} among yours; GET /user/accounts lists them")
    elif len(accounts) > 1 and selector.account_title is not None:
        pairs = ", ".join(f"{account.seller_id} on {account.marketplace}" for account in accounts)
        problem = f"is the title of {len(accounts)} of your accounts; select by seller_id and marketplace_id: {pairs}"
        raise InvalidParametersError({ACCOUNT_TITLE.name: [problem]})
    elif len(accounts) > 1:
        titles = ", ".join(account.account_title for account in accounts)
        problem = f"selects {len(accounts)} of your accounts; select one by its account_title: {titles}"
        raise InvalidParametersError({SELLER_ID.name: [problem]})
    return SelectedAccounts(accounts, selector)


async def accounts_of(
    connection: Connection, caller: Caller, selector: Selector = Selector()
) -> tuple[ServedAccount, ...]:
    """Return the accounts that a caller may read, by number; a selector restricts them."""
    consented = None if caller.consented_accounts is None else list(caller.consented_accounts)
    values = {"user": caller.id, "consented": consented, **asdict(selector)}
    return tuple(await fetch_records(connection, ServedAccount, _ACCOUNTS, values))
