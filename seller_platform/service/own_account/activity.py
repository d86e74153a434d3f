"""The page *Recent activity*, which lists a user's last security events in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from starlette.responses import Response

from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.pool import fetch_records
from seller_platform.service.security_events import EventKind

MOST_EVENTS = 50

_EVENTS = """
SELECT event.at, event.kind, event.address, event.details, application.name AS application
FROM service.security_events AS event
LEFT JOIN service.applications AS application ON application.client_id = event.client_id
WHERE event.user_id = %s ORDER BY event.id DESC LIMIT %s
"""
WORDS: Mapping[str, str] = {
    EventKind.LOGIN_SUCCEEDED: "Logged in",
    EventKind.LOGIN_FAILED: "A login with your e-mail address failed",
    EventKind.LOGIN_LOCKED: "Logins are delayed, because many have failed",
    EventKind.LOGGED_OUT: "Logged out",
    EventKind.SESSION_ENDED: "Sessions were ended",
    EventKind.CONSENT_GIVEN: "An application was approved",
    EventKind.CONSENT_DENIED: "An application was denied",
    EventKind.CONSENT_ENDED: "The access of an application was ended",
    EventKind.GRANT_ISSUED: "An application got its first tokens",
    EventKind.GRANT_REVOKED: "The tokens of an application were revoked",
    EventKind.CODE_REPLAYED: "A code was used a second time; its tokens were revoked",
    EventKind.REFRESH_TOKEN_REUSED: "A refresh token was used a second time; its tokens were revoked",
    EventKind.APPLICATION_REGISTERED: "An application was registered",
    EventKind.APPLICATION_CHANGED: "An application was changed",
    EventKind.APPLICATION_DELETED: "An application was deleted",
    EventKind.SECRET_CREATED: "A secret of an application was made",
    EventKind.SECRET_REFUSED: "An application sent a wrong secret",
    EventKind.PASSWORD_CHANGED: "The password was changed",
    EventKind.RESET_LINK_CREATED: "A link for a new password was made",
    EventKind.PASSKEY_ADDED: "A passkey was added",
    EventKind.PASSKEY_REMOVED: "A passkey was removed",
    EventKind.PASSKEY_REFUSED: "A passkey was refused",
    EventKind.USER_ADDED: "Your login was made",
    EventKind.USER_CLOSED: "Your login was closed",
    EventKind.USER_REOPENED: "Your login was reopened",
    EventKind.ACCOUNTS_GRANTED: "Accounts were added to your login",
    EventKind.ACCOUNTS_REVOKED: "Accounts were taken from your login",
    EventKind.GROUP_CHANGED: "A group of accounts was changed",
    EventKind.GROUP_REMOVED: "A group of accounts was removed",
    EventKind.TEMPORARY_ACCESS_GIVEN: "A temporary access was given",
}


@dataclass(frozen=True)
class OwnEvent:
    """A security event of the user, as the page lists it."""

    at: datetime
    kind: str
    address: str | None
    details: Mapping[str, object]
    application: str | None

    @property
    def words(self) -> str:
        """What happened, with the name or the accounts that it concerns."""
        words = WORDS.get(self.kind, self.kind.replace("_", " "))
        if self.kind == EventKind.LOGIN_SUCCEEDED and self.details.get("passkey"):
            words += " with a passkey"
        accounts = self.details.get("accounts")
        name = self.details.get("name") or self.details.get("title")
        concerned = name or (", ".join(map(str, accounts)) if isinstance(accounts, list) else None)
        return f"{words}: {concerned}" if concerned else words


async def show_activity(request: SignedInRequest) -> Response:
    """Answer GET /admin/account/activity."""
    events = await fetch_records(request.connection, OwnEvent, _EVENTS, (request.user.id, MOST_EVENTS))
    return request.render("account_activity.html", events=events, most=MOST_EVENTS)
