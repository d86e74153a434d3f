"""Prefetch: requests pages ahead in a few threads, and decodes and yields them in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Self

from seller_platform.client.decoding.pages import Page, PageDecoder
from seller_platform.client.http.api import Answer, SellerApi
from seller_platform.contract import Source
from seller_platform.contract.list_query import ListQuery
from seller_platform.errors import RequestRefusedError, RowsMissingError, UnreadableBodyError, UpstreamError

_NOT_FOUND = 404


@contextmanager
def naming(sku: str) -> Iterator[None]:
    """Add the product to the messages of errors that leave the block."""
    try:
        yield
    except UpstreamError as error:
        error.args = (str(error).replace(": ", f" of SKU {sku!r}: ", 1),)
        raise


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
        return self._page(query, partial(self._api.get, query.dataset.path, query.params))

    def each(self, queries: Iterable[ListQuery]) -> Iterator[Page]:
        """Yield the pages in the order of their queries."""
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
                page = self._page(query, future.result)
        finally:
            for _, future in under_way:
                future.cancel()

    def _page(self, query: ListQuery, get: Callable[[], Answer]) -> Page:
        """Return a page; if its body cannot be read, request it again."""
        decode = partial(self._decoder.decode, query=query)
        is_product = query.dataset.source is Source.PRODUCT_LOOKUP
        with naming(query.value or "") if is_product else nullcontext():
            try:
                answer = get()
                try:
                    page, requests = decode(answer.body), answer.requests
                except UnreadableBodyError:
                    requests = answer.requests
                    path, former = query.dataset.path, answer.body
                    answer, page = self._api.request("GET", path, query.params, decode=decode, former=former)
                    requests += answer.requests
            except (RequestRefusedError, RowsMissingError) as error:
                is_unknown = is_product and isinstance(error, RequestRefusedError) and error.status == _NOT_FOUND
                if query.page == 1 and not is_unknown:
                    raise
                self.requests += 1
                return Page((), refusal=error)
        self.requests += requests
        self.body_bytes += len(answer.body)
        self.is_computed |= answer.is_computed
        self.unknown_fields |= page.unknown_fields
        as_of = query.pin_of(answer.next_query)
        return replace(page, as_of=as_of) if as_of else page
