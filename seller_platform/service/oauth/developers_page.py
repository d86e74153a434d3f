"""The pages on which a user lists, creates and deletes OAuth clients, and replaces their secrets.

The secret of a new client is shown once, in the answer to the form that creates it. A form creates one client, or one
new secret: sent again, by a reload of that answer, it redirects to the list. The name and the redirect URIs of a client
never change: they are what users have approved.
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Sequence

from starlette.responses import Response

from seller_platform.contract.wire import MCP
from seller_platform.counts import count_of
from seller_platform.service.access import hash_of
from seller_platform.service.errors import ApiError, InvalidValueError, NotFoundError
from seller_platform.service.oauth.applications import Application, Origin, own_applications, store_application
from seller_platform.service.oauth.registration_rules import check_application
from seller_platform.service.pages.login import DEVELOPERS, ForeignFormError
from seller_platform.service.pages.rendering import redirect
from seller_platform.service.pages.signed_in import Answer, SignedInRequest
from seller_platform.service.security_events import EventKind

NEW = f"{DEVELOPERS}/new"
SECRET = f"{DEVELOPERS}/{{client_id}}/secret"
DELETE = f"{DEVELOPERS}/{{client_id}}/delete"
MOST_APPLICATIONS = 50

_FORM_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_NOTICES = {
    "deleted": "The client is deleted. Its tokens no longer work.",
    "repeated": "This form was used already. Secrets are shown once; if you lost this one, make a new secret.",
}

# A form that is sent again must not end the secret that it has shown.
_REPLACE = """
UPDATE service.applications SET secret_hash = %s WHERE client_id = %s AND owner_id = %s AND secret_hash = %s
"""
# Deletes all codes and tokens issued to it, too.
_DELETE = "DELETE FROM service.applications WHERE client_id = %s AND owner_id = %s"


async def show_clients(request: SignedInRequest) -> Response:
    """Answer GET /admin/developers."""
    return request.render(
        "developers.html",
        applications=await own_applications(request.connection, request.user.id),
        notice=_NOTICES.get(request.http.query_params.get("notice", "")),
    )


async def show_form(request: SignedInRequest) -> Response:
    """Answer GET /admin/developers/new."""
    return _form(request, "", ())


async def create_client(request: SignedInRequest) -> Response:
    """Answer POST /admin/developers/new."""
    form_id, owner_id = request.form.get("form_id", ""), request.user.id
    if not _FORM_ID.fullmatch(form_id):
        raise ForeignFormError
    lines = (line.strip() for line in request.form.get("redirect_uri", "").splitlines())
    name, redirect_uris = request.form.get("name", "").strip(), tuple(dict.fromkeys(line for line in lines if line))
    try:
        check_application(name, redirect_uris)
    except InvalidValueError as error:
        return _form(request, name, redirect_uris, error)
    # The id is derived from session and form: the same form gives the same id, and other users cannot choose it.
    digest = hmac.new(request.session.secret.encode(), b"client " + form_id.encode(), "sha256").digest()
    client_id = urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()
    secret = None if "public" in request.form else secrets.token_urlsafe(32)
    secret_hash, resource = hash_of(secret) if secret is not None else None, MCP if "agents" in request.form else None
    client_ids = [application.client_id for application in await own_applications(request.connection, owner_id)]
    if client_id not in client_ids and len(client_ids) >= MOST_APPLICATIONS:
        raise ApiError(
            f"You have {count_of(len(client_ids), 'client')}, and nobody may have more. Delete one that you no longer "
            "use."
        )
    application = Application(client_id, name, redirect_uris, Origin.OWNER, owner_id, resource, secret_hash)
    async with request.connection.transaction():
        if not await store_application(request.connection, application):
            return redirect(f"{DEVELOPERS}?notice=repeated")
        await request.record(EventKind.APPLICATION_REGISTERED, application, redirect_uris=list(redirect_uris))
    return _created(request, application, f"{name} is registered", secret)


async def show_secret(request: SignedInRequest) -> Response:
    """Answer GET /admin/developers/{client_id}/secret."""
    application = await _own_application(request)
    return request.render("developers_secret.html", application=application, replaced=_secret_version(application))


async def create_secret(request: SignedInRequest) -> Response:
    """Answer POST /admin/developers/{client_id}/secret; the secret so far ends at once."""
    application, secret = await _own_application(request), secrets.token_urlsafe(32)
    async with request.connection.transaction():
        is_shown = request.form.get("replaced") == _secret_version(application) != ""
        values = (hash_of(secret), application.client_id, request.user.id, application.secret_hash)
        if not is_shown or (await request.connection.execute(_REPLACE, values)).rowcount != 1:
            return redirect(f"{DEVELOPERS}?notice=repeated")
        await request.record(EventKind.SECRET_CREATED, application)
    return _created(request, application, f"{application.name} has a new secret", secret)


async def show_deletion(request: SignedInRequest) -> Response:
    """Answer GET /admin/developers/{client_id}/delete."""
    return request.render("developers_delete.html", application=await _own_application(request))


async def delete_client(request: SignedInRequest) -> Response:
    """Answer POST /admin/developers/{client_id}/delete."""
    application = await _own_application(request)
    async with request.connection.transaction():
        await request.connection.execute(_DELETE, (application.client_id, request.user.id))
        await request.record(EventKind.APPLICATION_DELETED, application)
    return redirect(f"{DEVELOPERS}?notice=deleted")


async def _own_application(request: SignedInRequest) -> Application:
    for application in await own_applications(request.connection, request.user.id):
        if application.client_id == request.http.path_params["client_id"]:
            return application
    raise NotFoundError("There is no such client among yours. It may be deleted already.")


def _secret_version(application: Application) -> str:
    """Return what names the secret of an application in a form, empty without one."""
    return hash_of(application.secret_hash.hex()).hex() if application.secret_hash is not None else ""


def _form(
    request: SignedInRequest, name: str, redirect_uris: Sequence[str], error: InvalidValueError | None = None
) -> Response:
    wrong = problem = None
    if error is not None:
        wrong, title = ("name", "name") if error.subject == "name" else ("redirect_uri", "redirect URL")
        problem = f"The {title} {error.problem}."
    return request.render(
        "developers_new.html",
        status=422 if error else 200,
        form_id=secrets.token_urlsafe(16),
        name=name,
        redirect_uris=redirect_uris,
        is_public="public" in request.form,
        is_for_agents="agents" in request.form,
        wrong=wrong,
        problem=problem,
    )


def _created(request: SignedInRequest, application: Application, heading: str, secret: str | None) -> Response:
    return request.render("developers_created.html", application=application, heading=heading, client_secret=secret)


DEVELOPERS_PAGES: Sequence[tuple[str, str, Answer]] = (
    ("GET", DEVELOPERS, show_clients),
    ("GET", NEW, show_form),
    ("POST", NEW, create_client),
    ("GET", SECRET, show_secret),
    ("POST", SECRET, create_secret),
    ("GET", DELETE, show_deletion),
    ("POST", DELETE, delete_client),
)
"""The method, the path and the answer of each page."""
