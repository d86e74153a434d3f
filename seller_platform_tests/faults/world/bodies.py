"""Lists and reports as bytes, with the rows that they mean."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from itertools import accumulate, pairwise

Row = tuple[object, ...]
"""SKU, text, units and amount."""


class Command(Enum):
    """What reads the body: `sync` a list; `report load` and `report download` a report."""

    SYNC = "sync"
    LOAD = "load"
    DOWNLOAD = "download"


@dataclass(frozen=True)
class Ending:
    """How a command ends: its exit code, and words of its message in any letter case."""

    code: int = 0
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Body:
    """What an upstream sends.

    Attributes:
        pages: The answers for page 1, 2 and so on. All further pages are as the last one.
        other_days: The answer for days without rows.
        rows: What is stored afterwards, or is in the file.
    """

    pages: tuple[bytes, ...]
    rows: Sequence[Row]
    ending: Ending
    command: Command
    content_type: str
    other_days: bytes = b""


_GOOD, _MISMATCH = Ending(), Ending(5, ("Load the partition again",))
DAY = "2026-03-05"
"""The day of all entries, in Berlin."""


def _rows(*names: str) -> tuple[Row, ...]:
    return tuple((name, f"{name} ({number})", number, f"{number}999.99") for number, name in enumerate(names, start=1))


_LATIN = _rows("CAFÉ-1", "CAFÈ-1", "CAFÉ-2", "TÊTE", "Ñ", "ÅÄÖ", "ß", "plain")
_JAPANESE = _rows("抹茶-1", "抹茶-2", "ソー", "表", "能", "ｱ", "plain")
_ANY = _rows("CAFÉ-1", "抹茶-1", "Ω", "😀", "זה", "a\tb", '"c"', "d\\e;f,g")
_LONG: tuple[Row, ...] = (("long", "x", 1, "123456789012345.67"), ("longer", "x", 2, "0.1234567890123456789"))


def _entry(row: Row, moment: str = f"{DAY}T23:30:00+01:00") -> str:
    """Return an entry of a ledger, by default at half past eleven."""
    sku, text, units, amount = row
    texts = {"posted_date": moment, "currency": "EUR", "sku": sku, "description": text}
    return f'{json.dumps(texts, ensure_ascii=False)[:-1]}, "quantity": {units}, "amount": {amount}}}'


def _list(
    rows: Sequence[Row],
    *sizes: int,
    sent: Sequence[str] = (),
    keys: Sequence[str] = (),
    charset: str = "utf-8",
    ending: Ending = _GOOD,
    **envelope: object,
) -> Body:
    """Return a list as JSON, with each entry on a line of its own, so that it can be cut between them.

    Args:
        sizes: How many rows are on each page; an empty one follows. Without them, all are on one page with its counts.
        sent: The entries that are sent; by default, those of the rows.
        keys: The names of the entries, where `data` is an object.
        envelope: What stands before the entries.
    """
    entries, brackets = [*(sent or map(_entry, rows))], "{}" if keys else "[]"
    if not sizes:
        envelope = {"total": len(entries), "per_page": 500, "last_page": 1, "current_page": 1, **envelope}
    named = [f'"{name}": {entry}' for name, entry in zip(keys, entries, strict=False)] or entries

    def page(texts: Sequence[str], counts: Mapping[str, object]) -> bytes:
        before = "".join(f'"{name}": {json.dumps(value)}, ' for name, value in counts.items())
        return "".join(["{", before, '"data": ', brackets[0], ",\n".join(texts), brackets[1], "}"]).encode(charset)

    ends = [*accumulate(sizes or [len(entries)])]
    parts = [named[start:end] for start, end in pairwise([0, *ends, ends[-1]] if sizes else [0, *ends])]
    nothing = {name: {"total": 0, "last_page": 1}.get(name, value) for name, value in envelope.items()}
    return Body(
        tuple(page(part, envelope) for part in parts),
        rows,
        ending,
        Command.SYNC,
        f"application/json; charset={charset}",
        page([], nothing),
    )


def _csv(
    rows: Sequence[Row],
    *,
    separator: str = ",",
    end: str = "\r\n",
    is_open: bool = False,
    charset: str = "utf-8",
    declared: str = "",
    header: str = "sku product_name units_ordered product_sales",
    sent: Sequence[Row] = (),
    ending: Ending = _GOOD,
    command: Command = Command.LOAD,
) -> Body:
    """Return a report as CSV.

    Args:
        is_open: Whether its last line has no end.
        sent: The rows that are sent, where they are others than they mean.
    """
    text = StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator=end)
    writer.writerows([header.split(), *(sent or rows)])
    body = text.getvalue().removesuffix(end) if is_open else text.getvalue()
    return Body((body.encode(charset),), rows, ending, command, f"text/csv; charset={declared or charset}")


BODIES: dict[str, Body] = {
    "a list": _list(_LATIN),
    "an empty list": _list(()),
    "a list of three pages": _list(_LATIN, 3, 3, 2, total=8, per_page=3, last_page=3),
    "pages without counts, one short": _list(_LATIN, 3, 2, 3),
    "pages with last_page alone": _list(_LATIN, 3, 2, 3, last_page=3),
    "a total that is too large": _list(_LATIN, 8, total=9, per_page=500, last_page=1, ending=_MISMATCH),
    "a total that is too small": _list(_LATIN, 3, 3, 2, total=3, per_page=3, last_page=3, ending=_MISMATCH),
    "last_page too small, and a full page": _list(_LATIN, 3, 3, 2, total=3, per_page=3, last_page=1, ending=_MISMATCH),
    "last_page too small, and a true total": _list(_LATIN, 3, 3, 2, total=8, per_page=3, last_page=1, ending=_MISMATCH),
    "keyed data": _list(_LATIN[:3], keys="abc"),
    "keyed data with a name twice": _list(
        (), sent=[*map(_entry, _LATIN[:3])], keys="aba", ending=Ending(4, ("twice",))
    ),
    "cells that are no numbers": _list(
        (*_LATIN[:1], ("bad", "x", None, None), ("bad", "x", None, "5.00")),
        sent=[_entry(_LATIN[0]), _entry(("bad", "x", '""', '"N/A"')), _entry(("bad", "x", '"-"', "5.00"))],
    ),
    "numbers as texts": _list(
        (("a", "x", 1565, "-4835.92"), ("b", "x", 1, "0.5")),
        sent=[_entry(("a", "x", '"1,565"', '"-4,835.92"')), _entry(("b", "x", 1, "5e-1"))],
    ),
    "a day that cannot be read": _list(
        (), sent=[_entry(_LATIN[0]), _entry(_LATIN[1], "0000-00-00")], ending=Ending(4, ("posted_date", "0000-00-00"))
    ),
    "all of Unicode": _list(_ANY),
    "the replacement character": _list(_rows("A\ufffd", "B\ufffd")),
    "text that PostgreSQL does not store": _list(
        _rows("A\ufffd", "\ufffdB"),
        sent=[_entry(_rows("A\0")[0]), _entry(_rows("?", "\ufffdB")[1]).replace("\ufffd", "\\ud800")],
    ),
    "amounts of 17 digits": _list(_LONG),
    "an error beside the rows": _list(
        (), sent=[_entry(_LATIN[0])], status="error", message="a shard is down", ending=Ending(4, ("a shard is down",))
    ),
    "JSON in ISO-8859-1": _list(_LATIN, charset="ISO-8859-1"),
    "JSON in Shift_JIS": _list(_JAPANESE, charset="Shift_JIS"),
    "JSON in UTF-16": _list(_ANY, charset="UTF-16"),
    "JSON after a byte order mark": _list(_ANY, charset="utf-8-sig"),
    "CSV": _csv(_ANY),
    "CSV with semicolons": _csv(_ANY, separator=";", end="\n"),
    "CSV with tabs": _csv(_ANY, separator="\t"),
    "CSV with bars": _csv(_LATIN, separator="|"),
    "CSV whose last line has no end": _csv(_LATIN, is_open=True),
    "CSV of a header alone": _csv(()),
    "CSV with a byte order mark": _csv(_ANY, charset="utf-8-sig", declared="UTF-8"),
    "CSV in ISO-8859-1": _csv(_LATIN, charset="ISO-8859-1"),
    "CSV in Windows-1252": _csv(_rows("5 €", "CAFÉ-1", "…"), charset="windows-1252", declared='"Windows-1252"'),
    "CSV in Shift_JIS": _csv(_JAPANESE, charset="Shift_JIS"),
    "CSV in UTF-16": _csv(_ANY, charset="UTF-16"),
    "CSV with lines in its cells": _csv(_rows("two\nlines", "a,b", 'say "x"', "plain")),
    "CSV with an unknown header": _csv((), sent=_LATIN, header="art name stueck", ending=Ending(4, ("unreadable",))),
    "CSV with a bad cell": _csv(
        (*_LATIN[:1], ("bad", "x", None, "2.00")), sent=(*_LATIN[:1], ("bad", "x", "N/A", "2.00"))
    ),
    "a file": _csv(_ANY, command=Command.DOWNLOAD),
    "a file whose last line has no end": _csv(_LATIN, is_open=True, command=Command.DOWNLOAD),
    "a file in ISO-8859-1": _csv(_LATIN, charset="ISO-8859-1", command=Command.DOWNLOAD),
}
"""What an upstream sends, by name."""
