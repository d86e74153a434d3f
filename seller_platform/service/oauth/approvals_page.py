"""The pages on which a user lists the applications with access, and ends it.

An application that was approved several times is listed once, with each different choice of accounts and scopes. Ending
its access revokes all of its consents and tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from starlette.responses import Response

from seller_platform.service.access import accounts_of
from seller_platform.service.errors import NotFoundError
from seller_platform.service.oauth.registration_rules import target_of
from seller_platform.service.pages.login import APPROVALS
from seller_platform.service.pages.rendering import redirect
from seller_platform.service.pages.signed_in import Answer, SignedInRequest
from seller_platform.service.pool import fetch_records
from seller_platform.service.security_events import EventKind

END = f"{APPROVALS}/{{client_id:path}}/end"

_NOTICES = {"ended": "The access is ended. The application can no longer read your data or change your costs."}

# A consent without a valid code or token has ended, though its rows may be stored for another hour.
_APPROVED = """
SELECT application.client_id, application.name, application.redirect_uris, consent.scopes, consent.accounts,
       min(consent.created_at) AS since, max(consent.last_used_on) AS last_used_on,
       max(consent.expires_at) AS expires_at
FROM service.authorizations AS consent
JOIN service.applications AS application ON application.client_id = consent.client_id
WHERE consent.user_id = %s AND consent.revoked_at IS NULL
  AND EXISTS (
      SELECT FROM service.access_tokens WHERE family = consent.family AND expires_at > now()
      UNION ALL
      SELECT FROM service.refresh_tokens WHERE family = consent.family AND expires_at > now() AND used_at IS NULL
      UNION ALL
      SELECT FROM service.authorization_codes WHERE family = consent.family AND expires_at > now() AND used_at IS NULL
  )
GROUP BY application.client_id, consent.scopes, consent.accounts
ORDER BY application.name, application.client_id, since DESC
"""

_REVOKE = """
UPDATE service.authorizations SET revoked_at = now()
WHERE user_id = %s AND client_id = %s AND revoked_at IS NULL
"""


@dataclass(frozen=True)
class Approval:
    """What a user approved of an application, once or several times with the same choice.

    Attributes:
        accounts: The keys of the accounts; None: all of the user's, also later ones.
        expires_at: When it ends by itself.
    """

    client_id: str
    name: str
    redirect_uris: Sequence[str]
    scopes: Sequence[str]
    accounts: Sequence[str] | None
    since: datetime
    last_used_on: date | None
    expires_at: datetime

    @property
    def targets(self) -> Sequence[str]:
        """The hosts of the redirect URIs, and the schemes of apps."""
        return tuple(dict.fromkeys(map(target_of, self.redirect_uris)))


async def show_applications(request: SignedInRequest) -> Response:
    """Answer GET /admin/applications."""
    approvals = await fetch_records(request.connection, Approval, _APPROVED, (request.user.id,))
    return request.render(
        "applications.html",
        applications=list({approval.client_id: approval for approval in approvals}.values()),
        approvals=approvals,
        accounts=await accounts_of(request.connection, request.user),
        notice=_NOTICES.get(request.http.query_params.get("notice", "")),
    )


async def show_end(request: SignedInRequest) -> Response:
    """Answer GET /admin/applications/{client_id}/end."""
    return request.render("applications_end.html", application=await _approved_application(request))


async def end_application(request: SignedInRequest) -> Response:
    """Answer POST /admin/applications/{client_id}/end."""
    application = await _approved_application(request)
    async with request.connection.transaction():
        await request.connection.execute(_REVOKE, (request.user.id, application.client_id))
        await request.record(EventKind.CONSENT_ENDED, application)
    return redirect(f"{APPROVALS}?notice=ended")


async def _approved_application(request: SignedInRequest) -> Approval:
    for approval in await fetch_records(request.connection, Approval, _APPROVED, (request.user.id,)):
        if approval.client_id == request.http.path_params["client_id"]:
            return approval
    raise NotFoundError("No such application has access to your accounts. It may have been ended already.")


APPROVALS_PAGES: Sequence[tuple[str, str, Answer]] = (
    ("GET", APPROVALS, show_applications),
    ("GET", END, show_end),
    ("POST", END, end_application),
)
"""The method, the path and the answer of each page."""
