"""The OpenAPI document, and the documentation: the steps to a token, and the reference of this version."""

from collections.abc import Sequence
from functools import cache, lru_cache, partial
from importlib.resources import files
from itertools import pairwise

import msgspec
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import API_VERSION, DOCS, OPENAPI
from seller_platform.service.http.responses import JSON, MOST_BASE_URLS, PublicDocument, base_url_of
from seller_platform.service.openapi import Operation, openapi_document
from seller_platform.service.pages.rendering import Page, document_with_script, render_text


def documentation(operations: Sequence[Operation]) -> dict[str, Page]:
    """Return what answers with the OpenAPI document and with the page, by path."""

    @lru_cache(MOST_BASE_URLS)
    def documents_of(base_url: str) -> dict[str, PublicDocument]:
        reference, menu = _reference()
        values = {"base_url": base_url, "version": API_VERSION, "reference": reference, "menu": menu}
        return {
            OPENAPI: PublicDocument(msgspec.json.encode(openapi_document(operations, base_url)), JSON),
            DOCS: document_with_script(render_text("docs.html", values)),
        }

    async def answer(path: str, request: Request) -> Response:
        return documents_of(base_url_of(request))[path].answer(request)

    return {path: partial(answer, path) for path in (OPENAPI, DOCS)}


@cache
def _reference() -> tuple[Markup, list[tuple[str, str, str]]]:
    """Return the page `reference/http` of the documentation in HTML; and of each heading its tag, id and text."""
    page = files("seller_platform").joinpath("docs", "reference", "http.md").read_text(encoding="utf-8")
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(page.partition("<!-- http -->")[2].partition("<!-- /http -->")[0])
    menu = []
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            menu.append((opening.tag, "-".join(inline.content.lower().replace("/", " ").split()), inline.content))
            opening.attrSet("id", menu[-1][1])
    return Markup(markdown.renderer.render(tokens, markdown.options, {})), menu  # noqa: S704  # HTML in it is escaped
