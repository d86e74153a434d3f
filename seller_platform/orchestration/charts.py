"""Elements of charts as SVG, with a white background: the Dagster UI shows images, which do not follow its theme."""

import re
from base64 import b64encode
from collections.abc import Iterable
from html import escape

INK, MUTED, GRID, ZERO = "#111827", "#4b5563", "#e5e7eb", "#9ca3af"
"""Colours of texts and lines."""
_FONT = "font-family='system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif'"
# Characters that XML 1.0 cannot represent.
_ILLEGAL = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def markdown_image(description: str, svg: str) -> str:
    """Return a chart as an image in Markdown, with its alternative text."""
    words = re.sub(r"[\[\]\\`*_<>!\s]+", " ", description).strip()
    return f"![{words}](data:image/svg+xml;base64,{b64encode(svg.encode()).decode()})"


def document(title: str, text: str, width: int, height: float, parts: Iterable[str], *, font_size: int = 12) -> str:
    """Return the SVG of these elements on a white background."""
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height:.0f}' "
        f"viewBox='0 0 {width} {height:.0f}' role='img' {_FONT} font-size='{font_size}'>"
        f"<title>{_escape(title)}</title><desc>{_escape(text)}</desc>"
        f"<rect width='{width}' height='{height:.0f}' rx='6' fill='#ffffff' stroke='{GRID}'/>"
        f"{''.join(parts)}</svg>"
    )


def text_at(x: float, y: float, text: str, *, colour: str = MUTED, anchor: str = "start", **attributes: object) -> str:
    """Return the element of a text; attributes have underscores in place of hyphens."""
    more = "".join(f" {name.replace('_', '-')}='{value}'" for name, value in attributes.items())
    return f"<text x='{x:.1f}' y='{y:.1f}' fill='{colour}' text-anchor='{anchor}'{more}>{_escape(text)}</text>"


def _escape(text: str) -> str:
    return escape(_ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text))
