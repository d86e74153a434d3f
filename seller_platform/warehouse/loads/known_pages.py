"""Stores what is known of the pages of each slice, for the next load of the same slice."""

from collections.abc import Mapping

import msgspec
from sqlalchemy import Connection, delete, insert, select

from seller_platform.contract import Dataset, Window
from seller_platform.contract.loads import NO_PAGES, PageFacts
from seller_platform.warehouse.loads.copy_format import LINE_VERSION
from seller_platform.warehouse.schema.tables import KNOWN_PAGES, LOADS, PUBLISHED_LOADS, loads_of

_Pages = tuple[int, dict[bytes, PageFacts]]
_DECODER = msgspec.msgpack.Decoder(_Pages)


def recall_pages(connection: Connection, dataset: Dataset, account: str, window: Window) -> Mapping[bytes, PageFacts]:
    """Return what the last load of exactly this window knew of its pages, by key of the page."""
    statement = (
        select(KNOWN_PAGES.c.pages)
        .join(LOADS, LOADS.c.id == KNOWN_PAGES.c.load_id)
        .where(
            LOADS.c.dataset == dataset.name,
            LOADS.c.account == account,
            LOADS.c.window_start == window.start,
            LOADS.c.window_end == window.end,
        )
        .order_by(LOADS.c.id.desc())
        .limit(1)
    )
    stored = connection.execute(statement).scalar_one_or_none()
    if stored is None:
        return NO_PAGES
    version, pages = _DECODER.decode(stored)
    return pages if version == LINE_VERSION else NO_PAGES


def keep_pages(  # noqa: PLR0917  # the slice is three of them
    connection: Connection,
    dataset: Dataset,
    account: str,
    window: Window,
    load_id: int,
    pages: Mapping[bytes, PageFacts],
) -> None:
    """Store the pages of a load in the place of those of all loads that read the same days."""
    former = select(PUBLISHED_LOADS.c.id).where(loads_of(dataset, account, window if dataset.is_dated else None))
    connection.execute(delete(KNOWN_PAGES).where(KNOWN_PAGES.c.load_id.in_(former)))
    if pages:
        stored: _Pages = (LINE_VERSION, dict(pages))
        connection.execute(insert(KNOWN_PAGES), {"load_id": load_id, "pages": msgspec.msgpack.encode(stored)})
