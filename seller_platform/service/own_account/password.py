"""The page on which users change their password."""

from starlette.responses import Response

from seller_platform.errors import InvalidPasswordError
from seller_platform.service.http.addresses import network_of_client
from seller_platform.service.own_account.confirmation import WRONG_PASSWORD, is_confirmed
from seller_platform.service.pages.login import ACCOUNT
from seller_platform.service.pages.rendering import redirect
from seller_platform.service.pages.sessions import remember_browser
from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.security_events import EventKind, record_event
from seller_platform.service.users.hashing_queue import PasswordQueue, hash_of_password
from seller_platform.service.users.reset_links import store_password
from seller_platform.service.users.weak_passwords import check_password


async def show_password(request: SignedInRequest) -> Response:
    """Answer GET /admin/account/password."""
    return request.render("account_password.html", problem=None, wrong=None)


async def change_password(queue: PasswordQueue, request: SignedInRequest) -> Response:
    """Answer POST /admin/account/password."""
    new = request.form.get("new", "")
    problem = new_password_problem(new, request.form.get("repeated", ""), request.user.email, request.user.name)
    if problem is not None:
        return request.render("account_password.html", status=422, problem=problem, wrong="new")
    if not await is_confirmed(request, queue, request.form.get("present", "")):
        return request.render("account_password.html", status=422, problem=WRONG_PASSWORD, wrong="present")
    async with queue.seat(network_of_client(request.http)):
        password_hash = await hash_of_password(new)
    response, connection = redirect(f"{ACCOUNT}?notice=password"), request.connection
    async with connection.transaction():
        await store_password(connection, request.user.id, password_hash, kept_session=request.session.secret)
        await remember_browser(connection, request.http, response, request.user.id)
        await record_event(connection, EventKind.PASSWORD_CHANGED, request=request.http, user_id=request.user.id)
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
