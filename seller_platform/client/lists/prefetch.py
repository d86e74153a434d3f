"""Prefetch: requests pages ahead in a few threads, and decodes and yields them in order."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from seller_platform.client.decoding.pages import LateRows, Page, PageDecoder
from seller_platform.client.http.api import Answer, SellerApi
from seller_platform.client.http.concurrency import in_threads
from seller_platform.contract import Source
from seller_platform.contract.list_query import ListQuery
from seller_platform.errors import RequestRefusedError, RowsMissingError, UnreadableBodyError, UpstreamError


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
        self.requests = self.body_bytes = 0
        self.unknown_fields: set[str] = set()
        self.is_computed = False

    def one(self, query: ListQuery) -> Page:
        """Return one page."""
        return self._page(*self._answered(query))

    def each(self, queries: Iterable[ListQuery]) -> Iterator[Page]:
        """Yield the pages in the order of their queries."""
        for answered in in_threads(self._answered, queries, self._look_ahead):
            yield self._page(*answered)

    def _answered(self, query: ListQuery) -> tuple[ListQuery, Answer | UpstreamError]:
        try:
            return query, self._api.get(query.dataset.path, query.params)
        except UpstreamError as error:
            return query, error

    def _page(self, query: ListQuery, answer: Answer | UpstreamError, *, is_late: bool = True) -> Page:
        """Return the page of an answer; if its body cannot be read, request it again."""
        decode = partial(self._decoder.decode, query=query, is_late=is_late)
        is_product = query.dataset.source is Source.PRODUCT_LOOKUP
        with naming(query.value or "") if is_product else nullcontext():
            try:
                if isinstance(answer, UpstreamError):
                    self.requests += 1
                    raise answer
                self.requests += answer.requests
                try:
                    page = decode(answer.body)
                except UnreadableBodyError:
                    path, former = query.dataset.path, answer.body
                    answer, page = self._api.request("GET", path, query.params, decode=decode, former=former)
                    self.requests += answer.requests
            except (RequestRefusedError, RowsMissingError) as error:
                is_unknown = is_product and isinstance(error, RequestRefusedError) and error.status == 404
                if query.page == 1 and not is_unknown:
                    raise
                return Page((), refusal=error)
        self.body_bytes += len(answer.body)
        self.is_computed |= answer.is_computed
        self.unknown_fields |= page.unknown_fields
        if isinstance(page.rows, LateRows) and page.rows.facts is None:
            page.rows.page_of = partial(self._late, query, answer)
        as_of = query.pin_of(answer.next_query)
        return replace(page, as_of=as_of) if as_of else page

    def _late(self, query: ListQuery, answer: Answer, body: bytes) -> Page:
        """Return a page that was only counted, decoded."""
        self.body_bytes -= len(body)
        return self._page(query, replace(answer, requests=0), is_late=False)
