"""The paths of the pages by which users manage their own login, and the first of them, which links the others."""

from functools import partial

from starlette.responses import Response

from seller_platform.service.own_account.activity import show_activity
from seller_platform.service.own_account.passkeys import change_passkeys, show_passkeys
from seller_platform.service.own_account.password import change_password, show_password
from seller_platform.service.own_account.reset import RESET, set_by_link, show_link
from seller_platform.service.own_account.sessions import end_sessions, show_sessions
from seller_platform.service.pages.login import ACCOUNT
from seller_platform.service.pages.rendering import Page
from seller_platform.service.pages.sessions import sessions_of
from seller_platform.service.pages.signed_in import SignedInRequest, page_of_user
from seller_platform.service.pool import Store
from seller_platform.service.users.hashing_queue import PasswordQueue
from seller_platform.service.users.passkeys import passkeys_of

_NOTICES = {"password": "Your password is changed. All other sessions are ended."}


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


async def show_account(request: SignedInRequest) -> Response:
    """Answer GET /admin/account."""
    return request.render(
        "account.html",
        notice=_NOTICES.get(request.http.query_params.get("notice", "")),
        sessions=len(await sessions_of(request.connection, request.user.id, request.session)),
        passkeys=len(await passkeys_of(request.connection, request.user.id)),
    )
