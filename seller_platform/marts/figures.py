"""Charts of marts: line charts and bar charts as SVG, small enough to be stored in the metadata of an event.

They have a white background: the Dagster UI shows them as images, which do not follow its theme.
"""

import math
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from html import escape
from itertools import cycle, groupby

from seller_platform.warehouse.derived.declaration import ChartForm

_WIDTH, _LINE_HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 92, 36
_BAR, _BAR_GAP, _ROW_GAP, _LABEL_WIDTH, _VALUE_WIDTH = 14, 2, 10, 210, 86
_MOST_LABELS, _LONGEST_LABEL, _TICKS = 8, 30, 5
_SIZES = ((1e9, 1e9, "bn"), (1e6, 1e6, "m"), (1e4, 1e3, "k"), (0.0, 1.0, ""))

# They differ in lightness, too, for readers who see no difference in hue, and are dark enough for text on white.
_COLOURS = ("#1d4ed8", "#c2570c", "#0f766e", "#86198f")

_INK, _MUTED, _GRID, _ZERO = "#111827", "#4b5563", "#e5e7eb", "#9ca3af"
"""Colours of texts and lines."""
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

    @property
    def text(self) -> str:
        """Its content as a sentence."""
        if not self.labels:
            return f"{self.title}, {self.subject}. {self.when_empty}"
        known = {name: [each for each in values if each is not None] for name, values in self.series.items()}
        ranges = (
            f"{name} from {_short(min(each))} to {_short(max(each))}" if each else f"{name}: nothing is known"
            for name, each in known.items()
        )
        return f"{self.title}, {self.subject}, {self.unit}: {'; '.join(ranges)}"

    @property
    def extent(self) -> tuple[float, float]:
        """The least and the greatest value, extended to 0 and never equal."""
        numbers = [float(value) for values in self.series.values() for value in values if value is not None]
        low, high = min([0.0, *numbers]), max([0.0, *numbers])
        return low, high if high > low else low + 1


def chart(figure: Figure, form: ChartForm) -> str:
    """Return a chart with a line, or horizontal bars, for each series."""
    row = len(figure.series) * (_BAR + _BAR_GAP) + _ROW_GAP
    if not figure.labels:
        parts, height = iter([_text_at(24, _TOP, figure.when_empty, colour=_INK)]), _TOP + 24
    elif form == "lines":
        parts, height = _lines(figure), _LINE_HEIGHT
    else:
        parts, height = _bars(figure, row), _TOP + len(figure.labels) * row + 12
    return _document(figure.title, figure.text, height, [*_head(figure), *parts])


def _head(figure: Figure) -> Iterator[str]:
    yield _text_at(24, 30, figure.title, colour=_INK, font_size=15, font_weight=600)
    yield _text_at(24, 50, " · ".join(filter(None, (figure.subject, figure.unit))))
    left = 24.0
    for name, colour in zip(figure.series, cycle(_COLOURS), strict=False):
        yield f"<rect x='{left:.0f}' y='60' width='12' height='12' rx='2' fill='{colour}'/>"
        yield _text_at(left + 18, 70, name, colour=_INK)
        left += 18 + 7 * len(name) + 22


def _lines(figure: Figure) -> Iterator[str]:
    """Yield a line for each series, interrupted where a value is None, over a grid of round numbers."""
    (low, high), count = figure.extent, len(figure.labels)
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    ticks = [number * step for number in range(math.floor(low / step), math.ceil(high / step) + 1)]
    width, height = _WIDTH - _LEFT - _RIGHT, _LINE_HEIGHT - _TOP - _BOTTOM
    columns = [_LEFT + width * (index / (count - 1) if count > 1 else 0.5) for index in range(count)]

    def y(value: float) -> float:
        return _TOP + height * (ticks[-1] - value) / (ticks[-1] - ticks[0])

    for tick in ticks:
        ends = f"x1='{_LEFT}' x2='{_WIDTH - _RIGHT}' y1='{y(tick):.1f}' y2='{y(tick):.1f}'"
        yield f"<line {ends} stroke='{_GRID if tick else _ZERO}'/>"
        yield _text_at(_LEFT - 8, y(tick) + 4, _short(tick), anchor="end")
    for index in range(0, count, -(-count // _MOST_LABELS)):
        yield _text_at(columns[index], _LINE_HEIGHT - 14, _day(figure.labels[index]), anchor="middle")
    for values, colour in zip(figure.series.values(), cycle(_COLOURS), strict=False):
        for is_known, group in groupby(zip(columns, values, strict=True), key=lambda point: point[1] is not None):
            points = [f"{x:.1f},{y(float(value or 0)):.1f}" for x, value in group]
            # Of a single point, the round ends of the line are a dot.
            path = " ".join(points * 2 if len(points) == 1 else points)
            stroke = f"stroke='{colour}' stroke-width='2' stroke-linejoin='round' stroke-linecap='round'"
            yield f"<polyline points='{path}' fill='none' {stroke}/>" if is_known else ""


def _bars(figure: Figure, row: int) -> Iterator[str]:
    """Yield a horizontal bar for each label and series, with its value."""
    low, high = figure.extent
    room = _WIDTH - _LABEL_WIDTH - _VALUE_WIDTH - _RIGHT

    def x(value: float) -> float:
        return _LABEL_WIDTH + room * (value - low) / (high - low)

    for index, label in enumerate(figure.labels):
        start, name = _TOP + index * row, _day(label)[:_LONGEST_LABEL]
        yield _text_at(_LABEL_WIDTH - 10, start + (row - _ROW_GAP) / 2 + 4, name, anchor="end", colour=_INK)
        for number, (values, colour) in enumerate(zip(figure.series.values(), cycle(_COLOURS), strict=False)):
            value, y = values[index], start + number * (_BAR + _BAR_GAP)
            left, right = sorted((x(0), x(float(value or 0))))
            if value is not None:
                yield f"<rect x='{left:.1f}' y='{y:.1f}' width='{right - left:.1f}' height='{_BAR}' fill='{colour}'/>"
            yield _text_at(right + 6, y + _BAR - 3, "not known" if value is None else _short(value))
    end = _TOP + len(figure.labels) * row - 2
    yield f"<line x1='{x(0):.1f}' x2='{x(0):.1f}' y1='{_TOP - 6}' y2='{end}' stroke='{_ZERO}'/>"


def _day(label: date | str) -> str:
    return f"{label.day} {label:%b}" if isinstance(label, date) else label


def _short(value: Decimal | float) -> str:
    """Return a number as text for an axis: 1,250 or 12.5k or 0.75."""
    number = float(value)
    size, suffix = next((size, suffix) for least, size, suffix in _SIZES if abs(number) >= least)
    scaled = number / size
    decimals = 0 if not scaled else min(2, max(0, 2 - math.floor(math.log10(abs(scaled)))))
    digits = f"{scaled:,.{decimals}f}"
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + suffix


def markdown_image(description: str, svg: str) -> str:
    """Return a chart as an image in Markdown, with its alternative text."""
    words = re.sub(r"[\[\]\\`*_<>!\s]+", " ", description).strip()
    return f"![{words}](data:image/svg+xml;base64,{b64encode(svg.encode()).decode()})"


def _document(title: str, text: str, height: float, parts: Iterable[str]) -> str:
    """Return the SVG of these elements on a white background."""
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height:.0f}' "
        f"viewBox='0 0 {_WIDTH} {height:.0f}' role='img' {_FONT} font-size='12'>"
        f"<title>{_escape(title)}</title><desc>{_escape(text)}</desc>"
        f"<rect width='{_WIDTH}' height='{height:.0f}' rx='6' fill='#ffffff' stroke='{_GRID}'/>"
        f"{''.join(parts)}</svg>"
    )


def _text_at(x: float, y: float, text: str, *, colour: str = _MUTED, anchor: str = "start", **more: object) -> str:
    """Return the element of a text; further attributes have underscores in place of hyphens."""
    attributes = "".join(f" {name.replace('_', '-')}='{value}'" for name, value in more.items())
    return f"<text x='{x:.1f}' y='{y:.1f}' fill='{colour}' text-anchor='{anchor}'{attributes}>{_escape(text)}</text>"


def _escape(text: str) -> str:
    return escape(_ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text))
