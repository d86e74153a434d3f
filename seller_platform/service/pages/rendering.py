"""Renders the HTML pages, which work without scripts and not in frames."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from seller_platform.errors import WarehouseUnavailableError, followed
from seller_platform.service.http.responses import PublicDocument
from seller_platform.service.metrics import notes_of
from seller_platform.service.pages.sessions import session_of, user_of
from seller_platform.service.pool import Store

HOME = "/"
STATIC_FILES: Mapping[str, str] = {
    "/static/style.css": "text/css",
    "/static/copy.js": "text/javascript",
    "/static/favicon.svg": "image/svg+xml",
    "/favicon.ico": "image/vnd.microsoft.icon",
}
"""The media type of each file that pages load."""

Page = Callable[[Request], Awaitable[Response]]


def render(template: str, values: Mapping[str, Any], *, status: int = 200, form_target: str = "") -> Response:
    """Return a page.

    Args:
        form_target: Another origin to which a form of the page may lead.
    """
    text = render_text(template, values)
    # Text of users is escaped, so that this begins a script of the template.
    return HTMLResponse(text, status, _protection(form_target, has_script="<script src=" in text))


def render_text(template: str, values: Mapping[str, Any]) -> str:
    """Return the HTML of a page."""
    return _templates().get_template(template).render(values)


def document_with_script(text: str) -> PublicDocument:
    """Return a page without secrets that loads a script."""
    return PublicDocument(text.encode(), HTMLResponse.media_type, _protection("", has_script=True))


def render_message(
    status: int, message: str, headers: Mapping[str, str] = {}, *, request: Request | None = None, home: str = HOME
) -> Response:
    """Return a page with the reason for an error.

    Args:
        request: The request that failed; its id is shown when the error is the service's own.
        home: The URL of the start page, where it is not on the host of the request.
    """
    values = {
        "title": HTTPStatus(status).phrase,
        "message": followed(f"{message[:1].upper()}{message[1:]}", ""),
        "home": home,
        "needs_login": status in (401, 403),
        "may_be_repeated": status in (429, 500, 503) and (request is None or request.method == "GET"),
        "request_id": notes_of(request.scope).request_id if request is not None and status >= 500 else None,
    }
    response = render("message.html", values, status=status)
    response.headers.update(headers)
    return response


def redirect(location: str) -> Response:
    """Return the answer 303, which a browser follows with GET."""
    return RedirectResponse(location, 303, {"Cache-Control": "no-store"})


async def answer_home(store: Store, request: Request) -> Response:
    """Answer GET / with a description of the service and links."""
    session, user = session_of(request), None
    # The page is shown without the store too: error pages lead here.
    with suppress(WarehouseUnavailableError):
        if session is not None:
            async with store.connection() as connection:
                user = await user_of(connection, session)
    return render("home.html", {"user": user, "csrf_token": session.csrf_token if session else ""})


async def answer_static(request: Request) -> Response:
    """Answer with a file that pages load."""
    return _static_document(request.scope["path"]).answer(request)


def _protection(form_target: str, *, has_script: bool) -> dict[str, str]:
    script = "script-src 'self'; " if has_script else ""
    policy = (
        f"default-src 'none'; style-src 'self'; img-src 'self'; {script}base-uri 'none'; frame-ancestors 'none'; "
        f"form-action 'self' {form_target}"
    )
    return {
        "Content-Security-Policy": policy.strip(),
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("seller_platform.service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        moment=lambda moment: (
            f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if isinstance(moment, datetime) else str(moment)
        ),
        # The URL of a file changes with its content, so that no older one is taken from a cache.
        versioned=lambda path: f"{path}?{_static_document(path).digest[:12]}",
    )
    return environment


@cache
def _static_document(path: str) -> PublicDocument:
    file = files("seller_platform.service.pages").joinpath("static", path.rpartition("/")[2])
    return PublicDocument(file.read_bytes(), STATIC_FILES[path])
