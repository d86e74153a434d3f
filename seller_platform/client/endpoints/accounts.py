"""Discovery: reads the connected user and the accounts that the user may read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

from seller_platform.client.decoding.pages import PageDecoder, Row
from seller_platform.client.decoding.values import whole_number
from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.responses import check_no_error, json_object
from seller_platform.client.lists.row_sink import KeptRows
from seller_platform.client.lists.slice_reader import read_list
from seller_platform.contract import Account
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.contract.wire import USER_ME
from seller_platform.errors import ContractViolationError


@dataclass(frozen=True)
class Discovered:
    """The accounts of a connection.

    Attributes:
        accounts: In the order of their numbers; no two have the same number, or the same seller and marketplace.
        rows: The same accounts as rows of the dataset, in the same order, with the connection's name as last value.
        extras: JSON text of the fields unknown to the contract, by the row's position.
    """

    accounts: tuple[Account, ...]
    rows: list[Row]
    extras: Mapping[int, str]
    facts: LoadFacts


def fetch_user(api: SellerApi) -> tuple[int | None, str | None]:
    """Return the number and the name of the connected user; None for what the answer lacks.

    Raises:
        UpstreamUnavailableError: The upstream gave no good answer.
        RequestRefusedError: It refused for good.
    """

    def decode(body: bytes) -> Mapping[str, Any]:
        answer = json_object(body)
        check_no_error(answer)
        return answer

    _, body = api.request("GET", USER_ME, decode=decode)
    user = body["user"] if isinstance(body.get("user"), dict) else body
    try:
        number = whole_number(str(user.get("id")))
    except ValueError:
        number = None
    return number, user["name"] if isinstance(user.get("name"), str) else None


def fetch_accounts(api: SellerApi, connection: str) -> Discovered:
    """Return the accounts that a connection may read.

    Where several accounts have the same seller and marketplace, the one with the lowest number is selected by them. The
    others are selected by their titles. Rows stay as they were sent. All accounts have the keys of new ones.

    Raises:
        ContractViolationError: An account has no number, or was listed twice.
        UpstreamUnavailableError: The upstream gave no good answer.
        RequestRefusedError: It refused for good.
    """
    decoder, kept = PageDecoder(ACCOUNTS, ZoneInfo("UTC"), connection, rows_field="accounts"), KeptRows()
    facts = read_list(api, ListQuery(ACCOUNTS), decoder, kept, ACCOUNTS.name)
    for position, row in enumerate(kept.rows, start=1):
        if row[0] is None:
            raise ContractViolationError(ACCOUNTS.name, f"row {position}: its id is missing, null or no number")
    order = sorted(range(kept.count), key=lambda position: int(kept.rows[position][0]))
    rows = [kept.rows[position] for position in order]
    accounts, sellers = dict[int, Account](), set[str | None]()
    for number, title, country, currency, zone, marketplace, seller, *_ in rows:
        account = Account(number, title or "", country, currency, zone or "", marketplace, seller)
        if account.id in accounts:
            raise ContractViolationError(f"account {account.id}", "it was listed twice")
        # Without its seller, an account is selected by its title.
        is_shared = account.seller is not None and account.seller in sellers
        accounts[account.id] = replace(account, seller_id=None) if is_shared else account
        sellers.add(account.seller)
    if facts.announced is None:  # the API promises all of them in one answer, without a total
        facts = replace(facts, announced=len(rows), verdict=CountVerdict.MATCH)
    extras = {number: kept.extras[position] for number, position in enumerate(order) if position in kept.extras}
    return Discovered(tuple(accounts.values()), rows, extras, facts)
