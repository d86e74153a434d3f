"""The pages on which a user changes an OAuth client, and replaces its secret.

A new secret works beside the old one, which ends at a chosen moment: programs can be given the new one meanwhile.
"""

import secrets
from collections.abc import Sequence
from datetime import timedelta

from starlette.responses import Response

from seller_platform.errors import ApiError, InvalidApplicationError
from seller_platform.service.oauth.developers_page import own_application, problem_of, read_registration
from seller_platform.service.oauth.own_applications import (
    OwnApplication,
    add_secret,
    change_application,
    end_old_secret,
)
from seller_platform.service.oauth.registration_rules import check_application
from seller_platform.service.pages.login import DEVELOPERS
from seller_platform.service.pages.rendering import redirect
from seller_platform.service.pages.signed_in import Answer, SignedInRequest
from seller_platform.service.security_events import EventKind

EDIT = f"{DEVELOPERS}/{{client_id}}/edit"
SECRET = f"{DEVELOPERS}/{{client_id}}/secret"
END_SECRET = f"{SECRET}/end"

_DEFAULT_HOURS = 7 * 24
_HOURS = {0: "at once", 24: "in 24 hours", _DEFAULT_HOURS: "in 7 days", 30 * 24: "in 30 days"}


async def show_edit(request: SignedInRequest) -> Response:
    """Answer GET /admin/developers/{client_id}/edit."""
    application = await own_application(request)
    return _edit_form(request, application, application.name, application.redirect_uris)


async def change_client(request: SignedInRequest) -> Response:
    """Answer POST /admin/developers/{client_id}/edit."""
    application = await own_application(request)
    name, redirect_uris = read_registration(request)
    try:
        check_application(name, redirect_uris)
    except InvalidApplicationError as error:
        return _edit_form(request, application, name, redirect_uris, error)
    if (name, list(redirect_uris)) != (application.name, list(application.redirect_uris)):
        client_id = application.client_id
        async with request.connection.transaction():
            await change_application(request.connection, client_id, name, redirect_uris, owner_id=request.user.id)
            await request.record(
                EventKind.APPLICATION_CHANGED,
                client_id=client_id,
                application=name,
                former_name=application.name,
                redirect_uris=list(redirect_uris),
                former_redirect_uris=list(application.redirect_uris),
                was_verified=application.verified_at is not None,
            )
    return redirect(f"{DEVELOPERS}?notice=changed")


async def show_secret(request: SignedInRequest) -> Response:
    """Answer GET /admin/developers/{client_id}/secret."""
    application = await own_application(request)
    return request.render("developers_secret.html", application=application, hours=_HOURS, default_hours=_DEFAULT_HOURS)


async def create_secret(request: SignedInRequest) -> Response:
    """Answer POST /admin/developers/{client_id}/secret.

    Raises:
        ApiError: The client has two secrets already, or none because it is public.
    """
    application = await own_application(request)
    hours = {str(each): each for each in _HOURS}.get(request.form.get("hours", ""))
    if hours is None:
        raise ApiError("Choose when the old secret ends.")
    secret, ends_after = secrets.token_urlsafe(32), timedelta(hours=hours)
    client_id, owner_id = application.client_id, request.user.id
    async with request.connection.transaction():
        is_added = await add_secret(request.connection, client_id, secret, old_ends_after=ends_after, owner_id=owner_id)
        if not is_added:
            raise ApiError(
                "This client can get no new secret now: it is public, or its old secret still works. End the old "
                "secret first."
            )
        kind, name = EventKind.SECRET_CREATED, application.name
        await request.record(kind, client_id=client_id, application=name, old_secret_ends=_HOURS[hours])
    return request.render(
        "developers_created.html",
        heading=f"{application.name} has a new secret",
        client_id=client_id,
        client_secret=secret,
        redirect_uris=application.redirect_uris,
    )


async def end_secret(request: SignedInRequest) -> Response:
    """Answer POST /admin/developers/{client_id}/secret/end."""
    application = await own_application(request)
    client_id = application.client_id
    async with request.connection.transaction():
        if await end_old_secret(request.connection, client_id, owner_id=request.user.id):
            await request.record(EventKind.SECRET_ENDED, client_id=client_id, application=application.name)
    return redirect(f"{DEVELOPERS}?notice=ended")


def _edit_form(
    request: SignedInRequest,
    application: OwnApplication,
    name: str,
    redirect_uris: Sequence[str],
    error: InvalidApplicationError | None = None,
) -> Response:
    return request.render(
        "developers_edit.html",
        status=422 if error else 200,
        application=application,
        name=name,
        redirect_uris=redirect_uris,
        **problem_of(error),
    )


CLIENT_PAGES: Sequence[tuple[str, str, Answer]] = (
    ("GET", EDIT, show_edit),
    ("POST", EDIT, change_client),
    ("GET", SECRET, show_secret),
    ("POST", SECRET, create_secret),
    ("POST", END_SECRET, end_secret),
)
"""The method, the path and the answer of each page."""
