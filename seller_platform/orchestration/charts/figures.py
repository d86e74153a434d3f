"""Charts as SVG, small enough to be stored in the metadata of an event.

They have a white background: the Dagster UI shows them as images, which do not follow its theme.
"""

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from html import escape
from itertools import cycle, groupby

_WIDTH, _LINE_HEIGHT = 720, 320
_LEFT, _RIGHT, _BOTTOM = 64, 24, 36
_TOP, _TOP_WITH_LEGEND = 68, 92
_BAR, _BAR_GAP, _ROW_GAP, _LABEL_WIDTH, _VALUE_WIDTH = 14, 2, 10, 210, 86
_MOST_LABELS = 8
_LONGEST_LABEL = 30
_TICKS = 5
_SIZES = ((1e9, "bn"), (1e6, "m"), (1e4, "k"))

# They differ in lightness, too, for readers who see no difference in hue, and are dark enough for text on white.
_COLOURS = ("#1d4ed8", "#c2570c", "#0f766e", "#86198f")
INK, MUTED = "#111827", "#4b5563"
_GRID, _ZERO = "#e5e7eb", "#9ca3af"
_FONT = "font-family='system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif'"

# Characters that XML 1.0 cannot represent.
_ILLEGAL = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Value = Decimal | int | float | None


@dataclass(frozen=True)
class Figure:
    """The content of a chart.

    Attributes:
        title: The quantity that is shown.
        subject: The account, and the month if there is one.
        unit: The unit of the numbers.
        labels: The labels of the axis, days as dates.
        series: The values of each series, one for each label; None where a value is not known.
        when_empty: The text of a chart without labels.
    """

    title: str
    subject: str
    unit: str
    labels: tuple[date | str, ...]
    series: Mapping[str, tuple[Value, ...]]
    when_empty: str


def markdown_image(description: str, svg: str) -> str:
    """Return a chart as an image in Markdown, with its alternative text."""
    words = re.sub(r"[\[\]\\`*_<>!\s]+", " ", description).strip()
    return f"![{words}](data:image/svg+xml;base64,{b64encode(svg.encode()).decode()})"


def alternative_text(figure: Figure) -> str:
    """Return the content of a chart as a sentence."""
    if not figure.labels:
        return f"{figure.title}, {figure.subject}. {figure.when_empty}"
    ranges = []
    for name, values in figure.series.items():
        numbers = [value for value in values if value is not None]
        ranges.append(
            f"{name} from {_short(min(numbers))} to {_short(max(numbers))}" if numbers else f"{name}: nothing is known"
        )
    return f"{figure.title}, {figure.subject}, {figure.unit}: {'; '.join(ranges)}"


def line_chart(figure: Figure) -> str:
    """Return a chart with a line for each series, interrupted where a value is None."""
    if not figure.labels:
        return _empty(figure)
    ticks = _ticks(_extent(figure))
    low, high = ticks[0], ticks[-1]
    start = _top(figure)
    width, height = _WIDTH - _LEFT - _RIGHT, _LINE_HEIGHT - start - _BOTTOM

    def x(index: int) -> float:
        return _LEFT + (width * index / (len(figure.labels) - 1) if len(figure.labels) > 1 else width / 2)

    def y(value: float) -> float:
        return start + height * (high - value) / (high - low)

    parts = [*_head(figure)]
    for tick in ticks:
        colour = _ZERO if tick == 0 else _GRID
        parts.append(
            f"<line x1='{_LEFT}' x2='{_WIDTH - _RIGHT}' y1='{y(tick):.1f}' y2='{y(tick):.1f}' stroke='{colour}'/>"
        )
        parts.append(text_at(_LEFT - 8, y(tick) + 4, _short(tick), anchor="end"))
    parts += [
        text_at(x(index), _LINE_HEIGHT - 14, _day(figure.labels[index]), anchor="middle")
        for index in range(0, len(figure.labels), -(-len(figure.labels) // _MOST_LABELS))
    ]
    for values, colour in zip(figure.series.values(), cycle(_COLOURS), strict=False):
        points = [None if value is None else (x(index), y(float(value))) for index, value in enumerate(values)]
        parts += _line(points, colour)
    return document(figure.title, alternative_text(figure), (_WIDTH, _LINE_HEIGHT), parts)


def bar_chart(figure: Figure) -> str:
    """Return a chart with a horizontal bar for each label and series, and its value."""
    if not figure.labels:
        return _empty(figure)
    low, high = _extent(figure)
    width = _WIDTH - _LABEL_WIDTH - _VALUE_WIDTH - _RIGHT
    row = len(figure.series) * (_BAR + _BAR_GAP) + _ROW_GAP
    start = _top(figure)
    height = start + len(figure.labels) * row + 12
    # Where some are negative, their values need room on the left, too.
    left = _LABEL_WIDTH + (_VALUE_WIDTH if low < 0 else 0)
    width -= left - _LABEL_WIDTH

    def x(value: float) -> float:
        return left + width * (value - low) / (high - low)

    parts = [*_head(figure)]
    for index, label in enumerate(figure.labels):
        top = start + index * row
        name = _day(label)
        short_name = name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"
        middle = top + (row - _ROW_GAP) / 2 + 4
        parts.append(text_at(_LABEL_WIDTH - 10, middle, short_name, anchor="end", colour=INK))
        for number, (values, colour) in enumerate(zip(figure.series.values(), cycle(_COLOURS), strict=False)):
            parts += _bar(values[index], x, top + number * (_BAR + _BAR_GAP), colour)
    bottom = height - 14
    parts.append(f"<line x1='{x(0):.1f}' x2='{x(0):.1f}' y1='{start - 6}' y2='{bottom}' stroke='{_ZERO}'/>")
    return document(figure.title, alternative_text(figure), (_WIDTH, height), parts)


def _bar(value: Value, x: Callable[[float], float], top: float, colour: str) -> Iterator[str]:
    if value is None:
        yield text_at(x(0) + 6, top + _BAR - 3, "not known")
        return
    start, end = sorted((x(0), x(float(value))))
    yield f"<rect x='{start:.1f}' y='{top:.1f}' width='{end - start:.1f}' height='{_BAR}' fill='{colour}'/>"
    if value < 0:
        yield text_at(start - 6, top + _BAR - 3, _short(value), anchor="end")
    else:
        yield text_at(end + 6, top + _BAR - 3, _short(value))


def _line(points: Sequence[tuple[float, float] | None], colour: str) -> Iterator[str]:
    for _, group in groupby(points, key=lambda point: point is None):
        run = [point for point in group if point is not None]
        if len(run) == 1:
            yield f"<circle cx='{run[0][0]:.1f}' cy='{run[0][1]:.1f}' r='3' fill='{colour}'/>"
        elif run:
            path = " ".join(f"{left:.1f},{top:.1f}" for left, top in run)
            yield (
                f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2' "
                "stroke-linejoin='round' stroke-linecap='round'/>"
            )


def _head(figure: Figure) -> Iterator[str]:
    yield text_at(24, 30, figure.title, colour=INK, font_size=15, font_weight=600)
    yield text_at(24, 50, " · ".join(filter(None, (figure.subject, figure.unit))))
    if len(figure.series) > 1:
        left = 24.0
        for name, colour in zip(figure.series, cycle(_COLOURS), strict=False):
            yield f"<rect x='{left:.0f}' y='60' width='12' height='12' rx='2' fill='{colour}'/>"
            yield text_at(left + 18, 70, name, colour=INK)
            left += 18 + 7 * len(name) + 22


def _top(figure: Figure) -> int:
    return _TOP_WITH_LEGEND if len(figure.series) > 1 else _TOP


def _empty(figure: Figure) -> str:
    parts = [*_head(figure), text_at(24, 80, figure.when_empty, colour=INK)]
    return document(figure.title, alternative_text(figure), (_WIDTH, 104), parts)


def document(
    title: str, description: str, size: tuple[int, float], parts: Iterable[str], *, font_size: int = 12
) -> str:
    """Return the SVG of these elements on a white background.

    Args:
        size: The width and the height.
    """
    width, height = size
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height:.0f}' "
        f"viewBox='0 0 {width} {height:.0f}' role='img' {_FONT} font-size='{font_size}'>"
        f"<title>{_escape(title)}</title><desc>{_escape(description)}</desc>"
        f"<rect width='{width}' height='{height:.0f}' rx='6' fill='#ffffff' stroke='{_GRID}'/>"
        f"{''.join(parts)}</svg>"
    )


def text_at(x: float, y: float, text: str, *, colour: str = MUTED, anchor: str = "start", **attributes: object) -> str:
    """Return the element of a text; attributes have underscores in place of hyphens."""
    more = "".join(f" {name.replace('_', '-')}='{value}'" for name, value in attributes.items())
    return f"<text x='{x:.1f}' y='{y:.1f}' fill='{colour}' text-anchor='{anchor}'{more}>{_escape(text)}</text>"


def _extent(figure: Figure) -> tuple[float, float]:
    """Return the least and the greatest value, extended to 0 and never equal."""
    numbers = [float(value) for values in figure.series.values() for value in values if value is not None]
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    return low, high if high > low else low + 1


def _ticks(extent: tuple[float, float]) -> list[float]:
    """Return round numbers at equal distances that enclose the extent."""
    low, high = extent
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, last + 1)]


def _day(label: date | str) -> str:
    return f"{label.day} {label:%b}" if isinstance(label, date) else label


def _short(value: Decimal | float) -> str:
    """Return a number as text for an axis: 1,250 or 12.5k or 0.75."""
    number = float(value)
    size, suffix = next(((size, suffix) for size, suffix in _SIZES if abs(number) >= size), (1.0, ""))
    scaled = number / (1e3 if suffix == "k" else size)
    decimals = 0 if not scaled else min(2, max(0, 2 - math.floor(math.log10(abs(scaled)))))
    digits = f"{scaled:,.{decimals}f}"
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + suffix


def _escape(text: str) -> str:
    return escape(_ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text))
