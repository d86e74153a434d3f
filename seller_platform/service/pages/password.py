"""The page on which users change their password."""

import asyncio
from contextlib import nullcontext

from starlette.responses import Response

from seller_platform.errors import InvalidPasswordError
from seller_platform.service.pages.login import ACCOUNT, verified_user
from seller_platform.service.pages.rendering import redirect
from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.security_events import EventKind
from seller_platform.service.users.passwords import hash_password
from seller_platform.service.users.reset_links import store_password
from seller_platform.service.users.weak_passwords import check_password

_CHANGED = "Your password is changed. All other sessions are ended."
_WRONG = "Your present password is wrong."


async def show_password(request: SignedInRequest) -> Response:
    """Answer GET /admin/account."""
    notice = _CHANGED if "notice" in request.http.query_params else None
    return request.render("account.html", problem=None, wrong=None, notice=notice)


async def change_password(request: SignedInRequest) -> Response:
    """Answer POST /admin/account."""
    new = request.form.get("new", "")
    problem = new_password_problem(new, request.form.get("repeated", ""), request.user.email, request.user.name)
    if problem is not None:
        return request.render("account.html", status=422, problem=problem, wrong="new", notice=None)
    present, email = request.form.get("present", ""), request.user.email
    # Failures count as those of a login: a stolen session must not guess the password.
    if await verified_user(lambda: nullcontext(request.connection), request.http, email, present) is None:
        return request.render("account.html", status=422, problem=_WRONG, wrong="present", notice=None)
    password_hash = await asyncio.to_thread(hash_password, new)
    response, connection = redirect(f"{ACCOUNT}?notice=password"), request.connection
    async with connection.transaction():
        await store_password(connection, request.user.id, password_hash, kept_session=request.session.secret)
        await request.record(EventKind.PASSWORD_CHANGED)
    return response


def new_password_problem(new: str, repeated: str, email: str, name: str) -> str | None:
    """Return why a new password cannot be used; None if it can."""
    if new != repeated:
        return "The two new passwords are not the same."
    try:
        check_password(new, email, name)
    except InvalidPasswordError as error:
        return f"The new password {error.problem}."
    return None
