"""The page on which users change their password, and the check of the present one."""

from contextlib import nullcontext

from starlette.responses import Response

from seller_platform.errors import InvalidPasswordError
from seller_platform.service.http.addresses import network_of_client
from seller_platform.service.pages.login import ACCOUNT, verified_user
from seller_platform.service.pages.rendering import redirect
from seller_platform.service.pages.sessions import remember_browser
from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.security_events import EventKind
from seller_platform.service.users.hashing_queue import PasswordQueue, hash_of_password
from seller_platform.service.users.reset_links import store_password
from seller_platform.service.users.weak_passwords import check_password

WRONG_PASSWORD = "Your present password is wrong."  # noqa: S105  # a message


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
        await request.record(EventKind.PASSWORD_CHANGED)
    return response


async def is_confirmed(request: SignedInRequest, queue: PasswordQueue, password: str) -> bool:
    """Whether a password is that of the logged-in user, before changes that a stolen session must not make.

    Raises:
        TooManyAttemptsError: There were too many failures, which count as those of a login.
        LoginsBusyError: Too many passwords are being verified.
    """
    user = await verified_user(
        lambda: nullcontext(request.connection), queue, request.http, request.user.email, password
    )
    return user is not None


def new_password_problem(new: str, repeated: str, email: str, name: str) -> str | None:
    """Return why a new password cannot be used; None if it can."""
    if new != repeated:
        return "The two new passwords are not the same."
    try:
        check_password(new, email, name)
    except InvalidPasswordError as error:
        return f"The new password {error.problem}."
    return None
