"""Tests that charts are well-formed XML with every value at its position."""

from base64 import b64decode
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, get_args
from xml.etree import ElementTree

import pytest

from seller_platform.marts.figures import Figure, Value, chart, markdown_image
from seller_platform.warehouse.derived.declaration import ChartForm

_SVG = "{http://www.w3.org/2000/svg}"
_HOSTILE = "<b>\"Tea\" & 'Söhne'</b> ](x) \x00\x0b\ufffe 茶"


def _figure(*values: Value, **changed: Any) -> Figure:
    days = tuple(date(2026, 3, 1) + timedelta(days=index) for index in range(len(values)))
    facts: dict[str, Any] = {
        "title": "Sales by day",
        "subject": "us-1, March 2026",
        "unit": "USD per day",
        "labels": days,
        "series": {"Sales": values},
        "when_empty": "Nothing was sold.",
        **changed,
    }
    return Figure(**facts)


def _drawn(svg: str, tag: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(svg).findall(f"{_SVG}{tag}")


def _texts(svg: str) -> list[str]:
    return [element.text or "" for element in _drawn(svg, "text")]


@pytest.mark.parametrize("form", get_args(ChartForm))
@pytest.mark.parametrize(
    "values",
    [(), (None,), (0,), (Decimal("12.34"),), (1, None, 3), (-5, 5), (-3, -4), (Decimal("1e12"), 1), (1e-9, 2e-9)],
    ids=str,
)
def test_a_chart_of_any_values_is_xml_inside_its_frame(form: ChartForm, values: tuple[Value, ...]) -> None:
    svg = chart(_figure(*values, series={"Sales": values, "Profit": values}), form)

    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for element in root.iter():
        for name, limit in (("x", width), ("x1", width), ("x2", width), ("y", height), ("y1", height), ("y2", height)):
            assert 0 <= float(element.attrib.get(name, 0)) <= limit, ElementTree.tostring(element)
        for point in element.attrib.get("points", "").split():
            left, top = map(float, point.split(","))
            assert 0 <= left <= width
            assert 0 <= top <= height


@pytest.mark.parametrize("form", get_args(ChartForm))
def test_markup_in_labels_is_escaped(form: ChartForm) -> None:
    figure = _figure(1, title=_HOSTILE, subject=_HOSTILE, unit=_HOSTILE, labels=(_HOSTILE,), series={_HOSTILE: (1,)})

    svg, image = chart(figure, form), markdown_image(figure.text, chart(figure, form))

    assert "<b>\"Tea\" & 'Söhne'</b> ](x) \ufffd\ufffd\ufffd 茶" in _texts(svg)
    words, _, source = image.removeprefix("![").partition("](data:image/svg+xml;base64,")
    assert not set(words) & set("[]<>\n")
    assert b64decode(source.removesuffix(")")).decode() == svg


def test_a_line_rises_with_its_values_and_breaks_at_a_missing_one() -> None:
    svg = chart(_figure(0, 10, None, 5, 5, None, 7), "lines")

    lines = [
        [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        for line in _drawn(svg, "polyline")
    ]
    (left, bottom), (right, top) = lines[0]
    assert [len(set(line)) for line in lines] == [2, 2, 1]
    assert right > left
    assert bottom - top == pytest.approx(2 * (bottom - lines[1][0][1]), abs=0.2)


def test_bars_are_as_long_as_their_values_and_negative_ones_point_left() -> None:
    svg = chart(_figure(10, 5, -5, None, labels=("A", "B", "C", "D")), "bars")

    bars = [rect for rect in _drawn(svg, "rect") if rect.attrib["height"] == "14"]
    starts, widths = ([float(bar.attrib[name]) for bar in bars] for name in ("x", "width"))
    assert widths == pytest.approx([widths[0], widths[0] / 2, widths[0] / 2], abs=0.2)
    assert starts[0] == starts[1] == pytest.approx(starts[2] + widths[2], abs=0.2)
    assert {"A", "B", "C", "D", "10", "5", "-5", "not known"} <= set(_texts(svg))


def test_a_chart_has_an_alternative_text_and_one_of_no_values_its_own() -> None:
    figure = _figure(1, None, Decimal("1234.5"), series={"Sales": (1, None, Decimal("1234.5")), "Cost": (None,) * 3})

    assert figure.text == ("Sales by day, us-1, March 2026, USD per day: Sales from 1 to 1,234; Cost: nothing is known")
    assert "Nothing was sold." in _texts(chart(_figure(), "lines"))
    assert _figure().text == "Sales by day, us-1, March 2026. Nothing was sold."


def test_an_axis_has_short_numbers_and_few_days() -> None:
    shown: dict[Value, str] = {
        Decimal("0.50"): "0.5",
        9_999: "9,999",
        12_340: "12.3k",
        -250_000: "-250k",
        4e12: "4,000bn",
    }

    for value, text in shown.items():
        assert text in _texts(chart(_figure(value, labels=("A",)), "bars"))
    days = _texts(chart(_figure(*range(31)), "lines"))
    assert [each for each in days if each.endswith("Mar")] == [f"{day} Mar" for day in range(1, 32, 4)]
