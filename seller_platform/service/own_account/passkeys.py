"""The page on which users list, add and remove passkeys."""

import re

from starlette.responses import Response

from seller_platform.errors import ApiError, PasskeyRefusedError
from seller_platform.service.own_account.password import WRONG_PASSWORD, is_confirmed
from seller_platform.service.pages.login import ACCOUNT
from seller_platform.service.pages.rendering import redirect
from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.security_events import EventKind
from seller_platform.service.users.hashing_queue import PasswordQueue
from seller_platform.service.users.passkeys import (
    MOST_PASSKEYS,
    add_passkey,
    begin_adding,
    passkeys_of,
    relying_party,
    remove_passkey,
)

_LONGEST_NAME = 60
_NUMBER = re.compile(r"[0-9]{1,18}")
_NOTICES = {
    "added": "The passkey is added. From now on, each login asks for one of your passkeys after the password.",
    "removed": "The passkey is removed.",
}


async def show_passkeys(request: SignedInRequest) -> Response:
    """Answer GET /admin/account/passkeys."""
    return await _page(request)


async def change_passkeys(queue: PasswordQueue, request: SignedInRequest) -> Response:
    """Answer POST /admin/account/passkeys, which adds a `credential`, or removes the passkey of a number."""
    adds, number = "credential" in request.form, request.form.get("remove", "")
    if not adds and not _NUMBER.fullmatch(number):
        raise ApiError("This browser sent no passkey. Load the page again and press *Add a passkey*.")
    if not await is_confirmed(request, queue, request.form.get("password", "")):
        return await _page(request, problem=WRONG_PASSWORD)
    if adds:
        return await _add(request)
    name = await remove_passkey(request.connection, request.user.id, int(number))
    if name is not None:
        await request.record(EventKind.PASSKEY_REMOVED, name=name)
    return redirect(f"{ACCOUNT}/passkeys?notice=removed")


async def _add(request: SignedInRequest) -> Response:
    name, user_id = request.form.get("name", "").strip(), request.user.id
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        return await _page(request, problem=f"The name must have 1 to {_LONGEST_NAME} printable characters.")
    if len(await passkeys_of(request.connection, user_id)) >= MOST_PASSKEYS:
        return await _page(request, problem=f"You have {MOST_PASSKEYS} passkeys. Remove one that you no longer use.")
    party, secret, credential = relying_party(request.http), request.session.secret, request.form["credential"]
    try:
        await add_passkey(request.connection, party, user_id, secret, name=name, credential=credential)
    except PasskeyRefusedError as error:
        await request.record(EventKind.PASSKEY_REFUSED, problem=error.problem)
        return await _page(request, problem=error.message)
    await request.record(EventKind.PASSKEY_ADDED, name=name)
    return redirect(f"{ACCOUNT}/passkeys?notice=added")


async def _page(request: SignedInRequest, problem: str | None = None) -> Response:
    party = relying_party(request.http)
    return request.render(
        "account_passkeys.html",
        status=422 if problem else 200,
        passkeys=await passkeys_of(request.connection, request.user.id),
        options=await begin_adding(request.connection, party, request.user, request.session.secret),
        name=request.form.get("name", ""),
        problem=problem,
        notice=_NOTICES.get(request.http.query_params.get("notice", "")),
    )
