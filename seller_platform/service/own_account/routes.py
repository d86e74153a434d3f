"""The paths of the pages by which users manage their own login."""

from functools import partial

from seller_platform.service.own_account.activity import show_activity
from seller_platform.service.own_account.overview import show_account
from seller_platform.service.own_account.passkeys import change_passkeys, show_passkeys
from seller_platform.service.own_account.password import change_password, show_password
from seller_platform.service.own_account.reset import RESET, set_by_link, show_link
from seller_platform.service.own_account.sessions import end_sessions, show_sessions
from seller_platform.service.pages.login import ACCOUNT
from seller_platform.service.pages.rendering import Page
from seller_platform.service.pages.signed_in import page_of_user
from seller_platform.service.pool import Store
from seller_platform.service.users.hashing_queue import PasswordQueue


def account_pages(store: Store, queue: PasswordQueue, contact: str) -> tuple[tuple[str, str, Page], ...]:
    """Return the method, the path and the page of each route.

    Args:
        contact: Whom users ask for another link.
    """
    return (
        ("GET", ACCOUNT, page_of_user(store, show_account)),
        ("GET", f"{ACCOUNT}/password", page_of_user(store, show_password)),
        ("POST", f"{ACCOUNT}/password", page_of_user(store, partial(change_password, queue))),
        ("GET", f"{ACCOUNT}/sessions", page_of_user(store, show_sessions)),
        ("POST", f"{ACCOUNT}/sessions", page_of_user(store, end_sessions)),
        ("GET", f"{ACCOUNT}/passkeys", page_of_user(store, show_passkeys)),
        ("POST", f"{ACCOUNT}/passkeys", page_of_user(store, partial(change_passkeys, queue))),
        ("GET", f"{ACCOUNT}/activity", page_of_user(store, show_activity)),
        ("GET", RESET, partial(show_link, store, contact)),
        ("POST", RESET, partial(set_by_link, store, queue, contact)),
    )
