"""Renders the HTML pages, which work without scripts and not in frames."""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from seller_platform.errors import ApiError, WarehouseUnavailableError
from seller_platform.service.http.responses import message_of

HOME = "/"
STYLE = "/static/style.css"
SCRIPT = "/static/docs.js"
_MEDIA_TYPES = {STYLE: "text/css", SCRIPT: "text/javascript"}
_TITLES = {
    403: "This form is out of date",
    404: "This page does not exist",
    405: "This page cannot be used like that",
    429: "Please wait",
    500: "Something broke on our side",
    503: "One moment, please",
}
_ADVICE = {404: "Check the address for typing errors, or begin at the start page."}

Page = Callable[[Request], Awaitable[Response]]


def render(
    template: str,
    values: Mapping[str, Any],
    *,
    status: int = 200,
    form_target: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a page.

    Args:
        form_target: Another origin to which a form of the page may lead.
    """
    protection = _protection(form_target, has_script=False)
    return HTMLResponse(render_text(template, values), status, {**(headers or {}), **protection})


def render_text(template: str, values: Mapping[str, Any]) -> str:
    """Return the HTML of a page."""
    return _templates().get_template(template).render(values)


def page_with_script(text: str) -> Response:
    """Return a page that loads the script of the documentation, which may call the API."""
    return HTMLResponse(text, 200, _protection("", has_script=True))


def render_message(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a page with the reason for an error."""
    title = _TITLES.get(status, "This did not work")
    values = {"title": title, "message": message, "advice": _ADVICE.get(status)}
    return render("message.html", values, status=status, headers=headers)


def redirect(location: str) -> Response:
    """Return the answer 303, which a browser follows with GET."""
    return RedirectResponse(location, 303, {"Cache-Control": "no-store"})


def page_of(answer: Page) -> Page:
    """Return a page that answers errors in HTML."""

    async def answer_in_html(request: Request) -> Response:
        try:
            return await answer(request)
        except (ApiError, WarehouseUnavailableError) as error:
            return render_message(*message_of(error))

    return answer_in_html


async def answer_home(_: Request) -> Response:
    """Answer GET / with a description of the service and links."""
    return render("home.html", {})


async def answer_static(request: Request) -> Response:
    """Answer with the style sheet or the script of the pages."""
    path = request.scope["path"]
    return Response(_static(path), media_type=_MEDIA_TYPES[path], headers={"Cache-Control": "public, max-age=3600"})


def _protection(form_target: str, *, has_script: bool) -> dict[str, str]:
    script = "script-src 'self'; connect-src 'self'; " if has_script else ""
    policy = (
        f"default-src 'none'; style-src 'self'; img-src data:; {script}base-uri 'none'; frame-ancestors 'none'; "
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
    environment.filters["marked"] = _marked
    environment.filters["breakable"] = _breakable
    return environment


def _marked(text: str) -> Markup:
    """Return a text of the contract in HTML, with text in backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704  # escaped before


def _breakable(path: str) -> Markup:
    """Return the path of a field in HTML, which may break between its names."""
    return Markup(".<wbr>").join(path.split("."))


@cache
def _static(path: str) -> bytes:
    return files("seller_platform.service.pages").joinpath(path.removeprefix("/")).read_bytes()
