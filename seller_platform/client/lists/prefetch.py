"""Prefetch: requests pages ahead in a few threads, and decodes and yields them in order."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Self

from seller_platform.client.decoding.pages import Page, PageDecoder
from seller_platform.client.http.api import Answer, SellerApi
from seller_platform.contract.list_query import ListQuery
from seller_platform.errors import UnreadableBodyError


class PageFetcher:
    """Fetches pages, and counts their requests and bytes.

    Args:
        decoder: Decodes the pages of all lists of the slice.
        look_ahead: The most pages that are under way, or waiting to be decoded, at once.

    Attributes:
        requests: HTTP requests so far, retries included.
        body_bytes: Bytes of the bodies so far.
        unknown_fields: Fields of rows so far that the contract does not know.
        is_computed: Whether the upstream says of any page that it is a replica and computed the rows itself.
    """

    def __init__(self, api: SellerApi, decoder: PageDecoder, look_ahead: int) -> None:
        self._api, self._decoder, self._look_ahead = api, decoder, look_ahead
        self._threads = ThreadPoolExecutor(look_ahead, thread_name_prefix="page")
        self.requests = self.body_bytes = 0
        self.unknown_fields: set[str] = set()
        self.is_computed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)

    def one(self, query: ListQuery) -> Page:
        """Return one page."""
        decode = partial(self._decoder.decode, window=query.window, number=query.page, value=query.value)
        answer, page = self._api.request("GET", query.dataset.path, query.params, decode=decode)
        self.unknown_fields |= page.unknown_fields
        return self._counted(query, answer, page)

    def each(self, queries: Iterable[ListQuery], *, as_firsts: bool = False) -> Iterator[Page]:
        """Yield the pages in the order of their queries.

        Args:
            as_firsts: They are the first pages of lists; if a list is longer, the rows of its page may only be counted.
        """
        remaining = iter(queries)
        under_way: deque[tuple[ListQuery, Future[Answer]]] = deque()
        page: Page | None = None
        try:
            while True:
                for query in islice(remaining, self._look_ahead - len(under_way)):
                    # In the caller's context, so that logs name the slice that the page is of.
                    get = copy_context().run
                    future = self._threads.submit(get, self._api.get, query.dataset.path, query.params)
                    under_way.append((query, future))
                if page is not None:
                    yield page
                if not under_way:
                    return
                query, future = under_way.popleft()
                answer, page_of = future.result(), partial(self._decoded, query)
                page = None
                if as_firsts and query.window is not None and query.dataset.is_divisible:
                    page = self._decoder.counted(answer.body, query.page_size, page_of)
                page = self._counted(query, answer, page_of(answer.body) if page is None else page)
        finally:
            for _, future in under_way:
                future.cancel()

    def _decoded(self, query: ListQuery, body: bytes) -> Page:
        """Return the page of a body; if it cannot be read, request it again."""
        try:
            page = self._decoder.decode(body, query.window, number=query.page, value=query.value)
        except UnreadableBodyError:
            self.body_bytes -= len(body)
            return self.one(query)
        self.unknown_fields |= page.unknown_fields
        return page

    def _counted(self, query: ListQuery, answer: Answer, page: Page) -> Page:
        self.requests += answer.requests
        self.body_bytes += len(answer.body)
        self.is_computed |= answer.is_computed
        as_of = query.pin_of(answer.next_query)
        return replace(page, as_of=as_of) if as_of else page
