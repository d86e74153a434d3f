"""Finds the key of an account by the key, the title, or the seller and marketplace that a person writes."""

from collections.abc import Callable, Mapping

from seller_platform.contract import Account
from seller_platform.errors import ACCOUNTS_NAMED, RequestError, UnknownAccountError, first_few

_SPELLINGS: tuple[Callable[[str], str], ...] = (str, lambda name: name.strip().casefold())


def key_named(name: str, accounts: Mapping[str, Account]) -> str:
    """Return the key of the account with that key, title, or `<seller_id>.<marketplace>`, in this order.

    The exact spelling comes first. Then upper and lower case are the same.

    Raises:
        RequestError: Several accounts have that name.
        UnknownAccountError: No account has that key, title, or seller and marketplace.
    """
    if name in accounts:
        return name
    names = {key: (key, account.title, account.seller) for key, account in accounts.items()}
    for spelled in _SPELLINGS:
        for kind in range(3):
            keys = [key for key, of in names.items() if (own := of[kind]) and spelled(own) == spelled(name)]
            if len(keys) == 1:
                return keys[0]
            if keys:
                listed = first_few([f"{key} ({accounts[key].title})" for key in keys], ACCOUNTS_NAMED)
                raise RequestError(
                    f"several accounts are named {name!r}: {listed}",
                    code="AmbiguousAccountError",
                    step="Name the account by its key, as the message lists it.",
                )
    raise UnknownAccountError(name, sorted(accounts), [accounts[key].title for key in sorted(accounts)])
