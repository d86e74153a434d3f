"""The page *Your account*, which links the pages of a user."""

from starlette.responses import Response

from seller_platform.service.pages.sessions import sessions_of
from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.users.passkeys import passkeys_of

_NOTICES = {"password": "Your password is changed. All other sessions are ended."}


async def show_account(request: SignedInRequest) -> Response:
    """Answer GET /admin/account."""
    return request.render(
        "account.html",
        notice=_NOTICES.get(request.http.query_params.get("notice", "")),
        sessions=len(await sessions_of(request.connection, request.user.id, request.session)),
        passkeys=len(await passkeys_of(request.connection, request.user.id)),
    )
