"""Validators: the `ETag` of a page, and requests with `If-None-Match` (RFC 9110 section 13.1.2).

A tag follows from the loads that a page covers, not from its rows. So a page that the caller has already is recognised
without reading rows. Tags are weak, because an answer may be compressed. The total is a part of the tag, because the
link to the next page needs it.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version

from starlette.datastructures import Headers

from seller_platform.service.lists.page_queries import Days, ListRequest
from seller_platform.service.lists.pins import Pin
from seller_platform.service.lists.state import ListState

CACHING = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}
"""Headers of pages: a client may keep them, and asks each time whether they are still right."""

_TAG = re.compile(r'W/"([0-9]{1,19})-([A-Za-z0-9_-]{22})"')
_MOST_TAGS = 50
_SERVICE = version("seller-platform")


@dataclass(frozen=True)
class PageName:
    """What decides, with the state of its list, what a page holds.

    Attributes:
        subject: The list, as `subject_of` returns it.
        days: The days of each account; None for the newest snapshots.
        pin: The moment that the list is pinned to, whose rows never change.
    """

    subject: bytes
    list_request: ListRequest
    days: Sequence[Days] | None
    pin: Pin | None

    def tag(self, total: int, state: ListState) -> str:
        """Return the tag of the page."""
        moment = (self.pin, state.others) if self.pin else (self.days, state.loads, state.others)
        named = repr((_SERVICE, self.subject, self.list_request.page, moment, total)).encode()
        text = urlsafe_b64encode(blake2b(named, digest_size=16).digest()).decode().rstrip("=")
        return f'W/"{total}-{text}"'

    def total_of_equal(self, tags: Sequence[str], state: ListState) -> int | None:
        """Return the total of the page that a caller has, if one of its tags is that of the page."""
        for tag in tags:
            total = int(tag.removeprefix('W/"').partition("-")[0])
            if self.tag(total, state) == tag:
                return total
        return None


def tags_of(headers: Headers) -> Sequence[str]:
    """Return the tags in `If-None-Match` that may be those of pages."""
    sent = ",".join(headers.getlist("if-none-match"))
    return [match[0] for match, _ in zip(_TAG.finditer(sent), range(_MOST_TAGS), strict=False)]
