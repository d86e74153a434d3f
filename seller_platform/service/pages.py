"""The pages for people: rendered on the server, without scripts, and refused to frames."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from seller_platform.errors import ApiError, WarehouseUnavailableError
from seller_platform.service.answers import message_of

STYLE = "/static/style.css"
_TITLES = {404: "This page does not exist", 429: "Please wait", 503: "One moment, please"}

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
        form_target: An origin beside ours to which a form of the page may lead.
    """
    text = _templates().get_template(template).render(values)
    return HTMLResponse(text, status, {**(headers or {}), **_protection(form_target)})


def redirect(location: str) -> Response:
    """Return the answer that sends a browser on with GET."""
    return RedirectResponse(location, 303, {"Cache-Control": "no-store"})


def page_of(answer: Page) -> Page:
    """Return a page that tells of errors in HTML."""

    async def answer_in_html(request: Request) -> Response:
        try:
            return await answer(request)
        except (ApiError, WarehouseUnavailableError) as error:
            status, message, headers = message_of(error)
            values = {"title": _TITLES.get(status, "This did not work"), "message": message}
            return render("message.html", values, status=status, headers=headers)

    return answer_in_html


async def answer_style(_: Request) -> Response:
    """Answer with the style sheet of the pages."""
    return Response(_style(), media_type="text/css", headers={"Cache-Control": "public, max-age=3600"})


def _protection(form_target: str) -> dict[str, str]:
    policy = (
        "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'; "
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
    return Environment(
        loader=PackageLoader("seller_platform.service"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _style() -> bytes:
    return (files("seller_platform.service") / "static" / "style.css").read_bytes()
