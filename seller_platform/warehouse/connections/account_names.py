"""Finds the key of an account by the key or the title that a person writes."""

from collections.abc import Mapping

from seller_platform.errors import ACCOUNTS_NAMED, RequestError, UnknownAccountError, first_few


def key_named(name: str, titles: Mapping[str, str]) -> str:
    """Return the key of the account with that key or title.

    The exact spelling comes first. Then upper and lower case are the same.

    Args:
        titles: The title of each account, by its key.

    Raises:
        RequestError: Several accounts have that title.
        UnknownAccountError: No account has that key or title.
    """
    if name in titles:
        return name
    spelled = name.strip().casefold()
    equal = [key for key, title in titles.items() if title == name]
    alike = [key for key, title in titles.items() if spelled in (key.casefold(), title.strip().casefold())]
    for keys in (equal, alike):
        if len(keys) == 1:
            return keys[0]
        if keys:
            listed = first_few([f"{key} ({titles[key]})" for key in keys], ACCOUNTS_NAMED)
            raise RequestError(
                f"several accounts have the title {name!r}: {listed}",
                code="AmbiguousAccountError",
                step="Name the account by its key, as the message lists it.",
            )
    raise UnknownAccountError(name, sorted(titles), [titles[key] for key in sorted(titles)])
