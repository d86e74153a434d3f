"""The pages on which a user lists the applications with access, and ends it.

An application that was approved several times is listed once. Ending its access revokes all of its consents and tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from urllib.parse import urlsplit

from starlette.responses import Response

from seller_platform.errors import NotFoundError
from seller_platform.service.access import accounts_of
from seller_platform.service.pages.login import APPROVALS
from seller_platform.service.pages.rendering import redirect
from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.pool import Connection, fetch_records

END = f"{APPROVALS}/{{client_id}}/end"

_NOTICES = {"ended": "The access is ended. The application can no longer read your data or change your costs."}

# A consent without a valid code or token has ended, though its rows may be stored for another hour.
_APPROVED = """
SELECT application.client_id, application.name, application.redirect_uri,
       min(consent.created_at) AS since, max(consent.last_used_on) AS last_used_on
FROM service.authorizations AS consent
JOIN service.applications AS application ON application.client_id = consent.client_id
WHERE consent.user_id = %s AND consent.revoked_at IS NULL
  AND (EXISTS (
          SELECT FROM service.access_tokens WHERE family = consent.family AND expires_at > now()
      ) OR EXISTS (
          SELECT FROM service.refresh_tokens WHERE family = consent.family AND expires_at > now() AND used_at IS NULL
      ) OR EXISTS (
          SELECT FROM service.authorization_codes
          WHERE family = consent.family AND expires_at > now() AND used_at IS NULL
      ))
GROUP BY application.client_id
ORDER BY since DESC, application.client_id
"""

_REVOKE = """
UPDATE service.authorizations SET revoked_at = now()
WHERE user_id = %s AND client_id = %s AND revoked_at IS NULL
"""


@dataclass(frozen=True)
class ApprovedApplication:
    """An application with access to all accounts of a user."""

    client_id: str
    name: str
    redirect_uri: str
    since: datetime
    last_used_on: date | None

    @property
    def host(self) -> str:
        """The host of its redirect URI."""
        return urlsplit(self.redirect_uri).netloc


async def approved_applications(connection: Connection, user_id: int) -> Sequence[ApprovedApplication]:
    """Return the applications with access to a user's accounts, the newest consent first."""
    return await fetch_records(connection, ApprovedApplication, _APPROVED, (user_id,))


async def show_applications(request: SignedInRequest) -> Response:
    """Answer GET /admin/applications."""
    return request.render(
        "applications.html",
        applications=await approved_applications(request.connection, request.user.id),
        accounts=await accounts_of(request.connection, request.user),
        notice=_NOTICES.get(request.http.query_params.get("notice", "")),
    )


async def show_end(request: SignedInRequest) -> Response:
    """Answer GET /admin/applications/{client_id}/end."""
    return request.render("applications_end.html", application=await _approved_application(request))


async def end_application(request: SignedInRequest) -> Response:
    """Answer POST /admin/applications/{client_id}/end."""
    application = await _approved_application(request)
    await request.connection.execute(_REVOKE, (request.user.id, application.client_id))
    return redirect(f"{APPROVALS}?notice=ended")


async def _approved_application(request: SignedInRequest) -> ApprovedApplication:
    for application in await approved_applications(request.connection, request.user.id):
        if application.client_id == request.http.path_params["client_id"]:
            return application
    raise NotFoundError("No such application has access to your accounts. It may have been ended already.")
