"""Gives accounts their keys: an account that is recognised keeps its key, and no two accounts ever have one."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import select

from seller_platform.contract import Account, account_key
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.errors import ACCOUNTS_NAMED, first_few
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import table_for

_SURE = 2


def with_keys(database: Database, connection: str, listed: Sequence[Account]) -> tuple[tuple[Account, ...], str]:
    """Return the accounts that a connection lists with their keys, and which have another number or seller than before.

    An account is recognised by its number, unless another seller has it now. Then its seller and marketplace decide.
    Another connection's account is the same one where all are equal.
    """
    stored = accounts(database, with_retired=True)
    own = [each for each in stored if each.connection == connection]
    by_all = {(each.account.id, each.account.seller): each for each in stored if each.account.seller}
    by_number = {each.account.id: each for each in own}
    by_seller = {each.account.seller: each for each in own if each.account.seller}

    def recognised(account: Account) -> tuple[KnownAccount | None, ...]:
        """Return the stored accounts that this one may be: two that are sure, and two that are not."""
        seller, same = account.seller or "", by_number.get(account.id)
        has_one_seller = same is None or not (seller and same.account.seller)
        return by_all.get((account.id, seller)), same if has_one_seller else None, by_seller.get(seller), same

    keys: dict[int, str] = {}
    changed = []
    for rank, candidates in enumerate(zip(*map(recognised, listed), strict=True)):
        for account, former in zip(listed, candidates, strict=True):
            if former is None or account.id in keys or former.key in keys.values():
                continue
            keys[account.id] = former.key
            if rank >= _SURE:
                was, now = (f"account {each.id} of seller {each.seller}" for each in (former.account, account))
                changed.append(f"{former.key} was {was} and is {now}")
    with database.begin() as transaction:
        # Generated accounts are stored without a connection.
        taken = {*transaction.execute(select(table_for(ACCOUNTS).c.account)).scalars(), *(each.key for each in stored)}
    for account in listed:
        key = keys.get(account.id) or account_key(account, connection)
        while account.id not in keys and key in taken:
            key += "-2"
        keys[account.id] = key
    return tuple(replace(account, key=keys[account.id]) for account in listed), first_few(changed, ACCOUNTS_NAMED)
