"""The pages on which users change their password, and set one by a link of the operator, which works once."""

from contextlib import nullcontext

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.service.access import Caller
from seller_platform.service.errors import InvalidValueError
from seller_platform.service.http.bodies import read_form
from seller_platform.service.pages.login import ACCOUNT, LOGIN, verified_user
from seller_platform.service.pages.rendering import redirect, render
from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.pool import Store
from seller_platform.service.security_events import EventKind, record_event
from seller_platform.service.users.passwords import check_password, hash_password, in_background
from seller_platform.service.users.reset_links import owner_of_link, store_password, use_link

RESET = "/reset-password"
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
    password_hash = await in_background(hash_password, new)
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
    except InvalidValueError as error:
        return f"The new password {error.problem}."
    return None


async def show_link(store: Store, contact: str, request: Request) -> Response:
    """Answer GET /reset-password, which leaves the link as it is."""
    token = request.query_params.get("token", "")
    return _page(token, await owner_of_link(store, token), contact)


async def set_by_link(store: Store, contact: str, request: Request) -> Response:
    """Answer POST /reset-password, which uses the link."""
    form = await read_form(request)
    token, new = form.get("token", ""), form.get("new", "")
    owner = await owner_of_link(store, token)
    if owner is None:
        return _page(token, None, contact)
    problem = new_password_problem(new, form.get("repeated", ""), owner.email, owner.name)
    if problem is not None:
        return _page(token, owner, contact, problem)
    password_hash = await in_background(hash_password, new)
    async with store.connection() as connection, connection.transaction():
        if not await use_link(connection, token, password_hash):
            return _page(token, None, contact)
        details = {"by": "reset link"}
        await record_event(connection, EventKind.PASSWORD_CHANGED, request=request, user_id=owner.id, details=details)
    return redirect(f"{LOGIN}?notice=password")


def _page(token: str, owner: Caller | None, contact: str, problem: str | None = None) -> Response:
    values = {"token": token, "owner": owner, "contact": contact, "problem": problem}
    return render("reset_password.html", values, status=404 if owner is None else 422 if problem else 200)
