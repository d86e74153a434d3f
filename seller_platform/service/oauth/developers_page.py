"""The pages on which a user lists, creates and deletes OAuth clients.

The secret of a new client is shown once, in the answer to the form that creates it. A form creates one client: sent
again, by a reload of that answer, it redirects to the list.
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64encode

from starlette.responses import Response

from seller_platform.errors import ApiError, InvalidApplicationError, NotFoundError
from seller_platform.service.oauth.applications import (
    OwnApplication,
    check_application,
    delete_application,
    own_applications,
    register_application,
)
from seller_platform.service.pages.login import DEVELOPERS, ForeignFormError
from seller_platform.service.pages.rendering import redirect
from seller_platform.service.pages.signed_in import SignedInRequest

NEW = f"{DEVELOPERS}/new"
DELETE = f"{DEVELOPERS}/{{client_id}}/delete"
MOST_APPLICATIONS = 50

_FORM_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_NOTICES = {
    "deleted": "The client is deleted. Its tokens no longer work.",
    "repeated": "This form has created its client already. Secrets are shown once; if you lost this one, delete the "
    "client and create another.",
}


async def show_clients(request: SignedInRequest) -> Response:
    """Answer GET /admin/developers."""
    return request.render(
        "developers.html",
        applications=await own_applications(request.connection, request.user.id),
        notice=_NOTICES.get(request.http.query_params.get("notice", "")),
    )


async def show_form(request: SignedInRequest) -> Response:
    """Answer GET /admin/developers/new."""
    return _form(request)


async def create_client(request: SignedInRequest) -> Response:
    """Answer POST /admin/developers/new."""
    name, redirect_uri = request.form.get("name", "").strip(), request.form.get("redirect_uri", "").strip()
    is_public = "public" in request.form
    form_id = request.form.get("form_id", "")
    if not _FORM_ID.fullmatch(form_id):
        raise ForeignFormError
    try:
        check_application(name, redirect_uri)
    except InvalidApplicationError as error:
        return _form(request, name, redirect_uri, is_public=is_public, error=error)
    # The id is derived from session and form: the same form gives the same id, and other users cannot choose it.
    digest = hmac.new(request.session.secret.encode(), b"client " + form_id.encode(), "sha256").digest()
    client_id = urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()
    secret = None if is_public else secrets.token_urlsafe(32)
    client_ids = [application.client_id for application in await own_applications(request.connection, request.user.id)]
    if client_id not in client_ids and len(client_ids) >= MOST_APPLICATIONS:
        raise ApiError(
            f"You have {len(client_ids)} clients, and nobody may have more. Delete one that you no longer use."
        )
    if not await register_application(
        request.connection, client_id, secret, name, redirect_uri, owner_id=request.user.id
    ):
        return redirect(f"{DEVELOPERS}?notice=repeated")
    return request.render(
        "developers_created.html", name=name, client_id=client_id, client_secret=secret, redirect_uri=redirect_uri
    )


async def show_deletion(request: SignedInRequest) -> Response:
    """Answer GET /admin/developers/{client_id}/delete."""
    return request.render("developers_delete.html", application=await _own_application(request))


async def delete_client(request: SignedInRequest) -> Response:
    """Answer POST /admin/developers/{client_id}/delete."""
    application = await _own_application(request)
    await delete_application(request.connection, application.client_id, owner_id=request.user.id)
    return redirect(f"{DEVELOPERS}?notice=deleted")


async def _own_application(request: SignedInRequest) -> OwnApplication:
    for application in await own_applications(request.connection, request.user.id):
        if application.client_id == request.http.path_params["client_id"]:
            return application
    raise NotFoundError("There is no such client among yours. It may be deleted already.")


def _form(
    request: SignedInRequest,
    name: str = "",
    redirect_uri: str = "",
    *,
    is_public: bool = False,
    error: InvalidApplicationError | None = None,
) -> Response:
    is_name = error is not None and error.field == "name"
    return request.render(
        "developers_new.html",
        status=422 if error else 200,
        form_id=secrets.token_urlsafe(16),
        name=name,
        redirect_uri=redirect_uri,
        is_public=is_public,
        wrong=("name" if is_name else "redirect_uri") if error else None,
        problem=f"{'The name' if is_name else 'The redirect URL'} {error.problem}." if error else None,
    )
