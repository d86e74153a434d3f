"""The pages on which a user lists, creates and deletes OAuth clients.

The secret of a new client is shown once, in the answer to the form that creates it. A form creates one client: sent
again, by a reload of that answer, it redirects to the list.
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from seller_platform.counts import count_of
from seller_platform.errors import ApiError, InvalidApplicationError, NotFoundError
from seller_platform.service.oauth.own_applications import (
    OwnApplication,
    delete_application,
    own_applications,
    register_application,
)
from seller_platform.service.oauth.registration_rules import check_application
from seller_platform.service.pages.login import DEVELOPERS, ForeignFormError
from seller_platform.service.pages.rendering import redirect
from seller_platform.service.pages.signed_in import Answer, SignedInRequest
from seller_platform.service.security_events import EventKind

NEW = f"{DEVELOPERS}/new"
DELETE = f"{DEVELOPERS}/{{client_id}}/delete"
MOST_APPLICATIONS = 50

_FORM_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_NOTICES = {
    "changed": "The client is changed.",
    "deleted": "The client is deleted. Its tokens no longer work.",
    "ended": "The old secret is ended. Only the newest one works.",
    "repeated": "This form has created its client already. Secrets are shown once; if you lost this one, make a new "
    "secret.",
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
    name, redirect_uris = read_registration(request)
    is_public = "public" in request.form
    form_id = request.form.get("form_id", "")
    if not _FORM_ID.fullmatch(form_id):
        raise ForeignFormError
    try:
        check_application(name, redirect_uris)
    except InvalidApplicationError as error:
        return _form(request, name, redirect_uris, is_public=is_public, error=error)
    # The id is derived from session and form: the same form gives the same id, and other users cannot choose it.
    digest = hmac.new(request.session.secret.encode(), b"client " + form_id.encode(), "sha256").digest()
    client_id = urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()
    secret = None if is_public else secrets.token_urlsafe(32)
    client_ids = [application.client_id for application in await own_applications(request.connection, request.user.id)]
    if client_id not in client_ids and len(client_ids) >= MOST_APPLICATIONS:
        raise ApiError(
            f"You have {count_of(len(client_ids), 'client')}, and nobody may have more. Delete one that you no longer "
            "use."
        )
    async with request.connection.transaction():
        is_registered = await register_application(
            request.connection, client_id, secret, name, redirect_uris, owner_id=request.user.id
        )
        if not is_registered:
            return redirect(f"{DEVELOPERS}?notice=repeated")
        kind, uris = EventKind.APPLICATION_REGISTERED, list(redirect_uris)
        await request.record(kind, client_id=client_id, application=name, redirect_uris=uris)
    return request.render(
        "developers_created.html",
        heading=f"{name} is registered",
        client_id=client_id,
        client_secret=secret,
        redirect_uris=redirect_uris,
    )


async def show_deletion(request: SignedInRequest) -> Response:
    """Answer GET /admin/developers/{client_id}/delete."""
    return request.render("developers_delete.html", application=await own_application(request))


async def delete_client(request: SignedInRequest) -> Response:
    """Answer POST /admin/developers/{client_id}/delete."""
    application = await own_application(request)
    async with request.connection.transaction():
        await delete_application(request.connection, application.client_id, owner_id=request.user.id)
        kind, client_id = EventKind.APPLICATION_DELETED, application.client_id
        await request.record(kind, client_id=client_id, application=application.name)
    return redirect(f"{DEVELOPERS}?notice=deleted")


async def own_application(request: SignedInRequest) -> OwnApplication:
    """Return the user's application that the path names.

    Raises:
        NotFoundError: There is none, or it belongs to another user.
    """
    for application in await own_applications(request.connection, request.user.id):
        if application.client_id == request.http.path_params["client_id"]:
            return application
    raise NotFoundError("There is no such client among yours. It may be deleted already.")


def read_registration(request: SignedInRequest) -> tuple[str, Sequence[str]]:
    """Return the name and the redirect URIs in a form, which has one on each line."""
    lines = (line.strip() for line in request.form.get("redirect_uri", "").splitlines())
    return request.form.get("name", "").strip(), tuple(dict.fromkeys(line for line in lines if line))


def problem_of(error: InvalidApplicationError | None) -> dict[str, Any]:
    """Return which field of the form is wrong, and the problem, for the template."""
    if error is None:
        return {"wrong": None, "problem": None}
    is_name = error.field == "name"
    problem = f"{'The name' if is_name else 'The redirect URL'} {error.problem}."
    return {"wrong": "name" if is_name else "redirect_uri", "problem": problem}


def _form(
    request: SignedInRequest,
    name: str = "",
    redirect_uris: Sequence[str] = (),
    *,
    is_public: bool = False,
    error: InvalidApplicationError | None = None,
) -> Response:
    return request.render(
        "developers_new.html",
        status=422 if error else 200,
        form_id=secrets.token_urlsafe(16),
        name=name,
        redirect_uris=redirect_uris,
        is_public=is_public,
        **problem_of(error),
    )


DEVELOPERS_PAGES: Sequence[tuple[str, str, Answer]] = (
    ("GET", DEVELOPERS, show_clients),
    ("GET", NEW, show_form),
    ("POST", NEW, create_client),
    ("GET", DELETE, show_deletion),
    ("POST", DELETE, delete_client),
)
"""The method, the path and the answer of each page."""
