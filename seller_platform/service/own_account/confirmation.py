"""Asks for the present password once more, before changes that a stolen session must not make."""

from seller_platform.service.http.addresses import network_of
from seller_platform.service.pages.login import record_failure
from seller_platform.service.pages.sessions import find_user, known_browser
from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.pages.throttle import begin_attempt, forgive
from seller_platform.service.users.hashing_queue import PasswordQueue, is_right

WRONG_PASSWORD = "Your present password is wrong."  # noqa: S105  # a message


async def is_confirmed(request: SignedInRequest, queue: PasswordQueue, password: str) -> bool:
    """Whether a password is that of the logged-in user; a failure counts as one of a login.

    Raises:
        TooManyAttemptsError: There were too many failures.
        LoginsBusyError: Too many passwords are being verified.
    """
    connection, email = request.connection, request.user.email
    address = request.http.client.host if request.http.client else "unknown"
    async with queue.seat(network_of(address)):
        user = await find_user(connection, email)
        browser = await known_browser(connection, request.http, request.user.id)
        attempt = await begin_attempt(connection, str(request.user.id), address, browser)
        matches = await is_right(user.password_hash if user else None, password)
    if not matches:
        await record_failure(connection, request.http, email, user, attempt)
        return False
    await forgive(connection, attempt)
    return True
