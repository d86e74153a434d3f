"""The page on which users list their sessions, and end one or all others."""

import re

from starlette.responses import Response

from seller_platform.errors import ApiError
from seller_platform.service.pages.login import ACCOUNT
from seller_platform.service.pages.rendering import redirect
from seller_platform.service.pages.sessions import end_other_sessions, end_session, sessions_of
from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.security_events import EventKind

_NOTICES = {"ended": "The session is ended.", "others": "All other sessions are ended."}
_NUMBER = re.compile(r"[0-9]{1,18}")
# Chromium's names come before Safari's, whose words all of them contain.
_BROWSERS = (("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrom", "Chrome"), ("Safari/", "Safari"))
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


async def show_sessions(request: SignedInRequest) -> Response:
    """Answer GET /admin/account/sessions."""
    sessions = await sessions_of(request.connection, request.user.id, request.session)
    return request.render(
        "account_sessions.html",
        sessions=[(session, browser_name(session.browser)) for session in sessions],
        notice=_NOTICES.get(request.http.query_params.get("notice", "")),
    )


async def end_sessions(request: SignedInRequest) -> Response:
    """Answer POST /admin/account/sessions, whose field `session` is a number, or `others`."""
    chosen, user_id = request.form.get("session", ""), request.user.id
    if chosen == "others":
        ended = await end_other_sessions(request.connection, user_id, request.session)
    elif _NUMBER.fullmatch(chosen):
        ended = int(await end_session(request.connection, user_id, int(chosen)))
    else:
        raise ApiError("Choose a session to end.")
    if ended:
        await request.record(EventKind.SESSION_ENDED, sessions=ended)
    return redirect(f"{ACCOUNT}/sessions?notice={'others' if chosen == 'others' else 'ended'}")


def browser_name(user_agent: str | None) -> str:
    """Return the browser and the system that a User-Agent names."""
    if not user_agent:
        return "Unknown browser"
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), None)
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), None)
    if browser is None:
        return user_agent[:60]
    return f"{browser} on {system}" if system else browser
