"""Charts as SVG: the heat map of stored slices, and the elements of every chart.

The heat map has a row for each account, and a column for each dataset and month. Charts have a white background: the
Dagster UI shows them as images, which do not follow its theme.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from html import escape
from itertools import groupby
from typing import TypeAlias

from seller_platform.contract import Dataset, Window
from seller_platform.counts import count_of
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.monitoring.slice_states import SliceState, SliceStates

INK, MUTED, GRID, ZERO = "#111827", "#4b5563", "#e5e7eb", "#9ca3af"
"""Colours of texts and lines."""
_FONT = "font-family='system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif'"
# Characters that XML 1.0 cannot represent.
_ILLEGAL = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

MOST_ACCOUNTS, MOST_MONTHS = 40, 36

_WIDTH, _ROW, _TOP, _BOTTOM = 900, 18, 128, 40
_LABELS, _AGE, _GAP, _SNAPSHOT = 200, 60, 8, 14
_LONGEST_LABEL = 32
# They differ in lightness, too, for readers who see no difference in hue.
COLOURS = {
    SliceState.LOADED: "#0f766e",
    SliceState.LATE: "#7dd3c0",
    SliceState.INCOMPLETE: "#fbbf24",
    SliceState.MISSING: "#d1d5db",
    SliceState.MISMATCHED: "#a21caf",
    SliceState.ALTERED: "#6d28d9",
    SliceState.HELD: "#ea580c",
    SliceState.FAILED: "#991b1b",
}


Column: TypeAlias = tuple[Dataset, float, float]
"""A dataset, the left edge of its column, and the width of a cell: one for each month, or one."""


def heat_map(states: SliceStates, now: datetime) -> str:
    """Return the heat map as an image in Markdown, below a sentence that says what is left out."""
    # Those with most problems first.
    order = sorted(states.accounts, key=lambda account: (-states.problems_of(account.key), account.key))
    shown, months, sentence = order[:MOST_ACCOUNTS], states.months[-MOST_MONTHS:], _left_out(states)
    bottom, (columns, parts) = _TOP + len(shown) * _ROW, _columns(states.datasets, months)
    for number, account in enumerate(shown):
        parts += _row(states, account, columns, _TOP + number * _ROW, now)
    left = 20.0
    for state, colour in COLOURS.items():
        parts.append(f"<rect x='{left:.0f}' y='{bottom + 14}' width='12' height='12' rx='2' fill='{colour}'/>")
        parts.append(text_at(left + 17, bottom + 24, state.value))
        left += 17 + 6.5 * len(state.value) + 18
    title = "Slices stored by account, dataset and month"
    svg = document(title, sentence, _WIDTH, bottom + _BOTTOM, parts, font_size=11)
    return f"{sentence}\n\n{markdown_image(f'{title}. {sentence}', svg)}"


def _left_out(states: SliceStates) -> str:
    """Return the sentence that says which accounts and months the heat map has."""
    total, months = len(states.accounts), len(states.months)
    troubled = sum(states.problems_of(account.key) > 0 for account in states.accounts)
    sentence = f"{count_of(total, 'account')}, {troubled:,} with slices that are not loaded."
    if total > MOST_ACCOUNTS:
        sentence += (
            f" The {MOST_ACCOUNTS} with most such slices are shown; {total - MOST_ACCOUNTS:,} are left out, "
            f"{max(0, troubled - MOST_ACCOUNTS):,} of them with such slices."
        )
    if months > MOST_MONTHS:
        sentence += f" The last {MOST_MONTHS} of {count_of(months, 'month', 'is')} shown; all are counted."
    return sentence


def _columns(datasets: Sequence[Dataset], months: Sequence[Window]) -> tuple[list[Column], list[str]]:
    """Return the columns, and their heads."""
    others = sum(not dataset.is_dated for dataset in datasets)
    dated = len(datasets) - others
    room = (_WIDTH - _LABELS - _AGE - others * (_SNAPSHOT + 2) - _GAP * (dated + 1)) / max(1, dated)
    columns, heads, left = list[Column](), list[str](), float(_LABELS)
    for dataset in datasets:
        width, gap, angle, top = (room, _GAP, -20, _TOP - 24) if dataset.is_dated else (_SNAPSHOT, 2, -65, _TOP - 8)
        columns.append((dataset, left, width / max(1, len(months)) if dataset.is_dated else width))
        middle = left + width / 2
        heads.append(text_at(middle, top, dataset.name, transform=f"rotate({angle} {middle:.1f} {top:.1f})"))
        if dataset.is_dated and months:
            heads.append(text_at(left, _TOP - 8, f"{months[0].start:%y-%m}", font_size=8))
        left += width + gap
    return columns, [*heads, text_at(_WIDTH - 20, _TOP - 8, "oldest", anchor="end", font_size=9)]


def _row(
    states: SliceStates, account: KnownAccount, columns: Sequence[Column], top: float, now: datetime
) -> Iterator[str]:
    """Yield the cells of an account, one for each sequence of equal states: most accounts are one colour."""
    label = (account.label or account.key)[:_LONGEST_LABEL]
    yield text_at(_LABELS - 8, top + 12, label, anchor="end", colour=INK)
    for dataset, x, cell in columns:
        left = x
        for state, group in groupby(states.of_pair(dataset, account.key)[-MOST_MONTHS:]):
            width = cell * len(list(group))
            yield (
                f"<rect x='{left:.1f}' y='{top}' width='{width:.1f}' height='{_ROW - 4}' fill='{COLOURS[state]}'>"
                f"<title>{dataset.name}: {state}</title></rect>"
            )
            left += width
    pairs, age = [(dataset.name, account.key) for dataset in states.datasets], "never"
    if pairs and all(pair in states.read_at for pair in pairs):
        hours = (now - min(states.read_at[pair] for pair in pairs)).total_seconds() / 3600
        age = f"{hours:.0f} h" if hours < 100 else count_of(round(hours / 24), "day")  # two digits
    yield text_at(_WIDTH - 20, top + 12, age, anchor="end")


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
