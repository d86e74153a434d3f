"""The query parameters of one page of a list, for the client and for `explain`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from seller_platform.contract.accounts import Account
from seller_platform.contract.dataset import Dataset, Source
from seller_platform.contract.window import Window
from seller_platform.contract.wire import AS_OF


@dataclass(frozen=True)
class ListQuery:
    """Requests one page of a list.

    Attributes:
        account: None for the list of accounts itself.
        window: The days of the rows; None for a list that takes no days.
        value: The value of the filter that splits the list; None for the unfiltered list.
        per_page: Rows of a full page; None for the most that the list allows.
        as_of: The moment that the list is pinned to, as the upstream's link to the next page names it.
    """

    dataset: Dataset
    account: Account | None = None
    window: Window | None = None
    value: str | None = None
    page: int = 1
    per_page: int | None = None
    as_of: str | None = None

    @property
    def page_size(self) -> int | None:
        """The rows of a full page; None where the contract does not say."""
        return self.per_page or max(self.dataset.page_sizes, default=self.dataset.fixed_page_size)

    @property
    def params(self) -> dict[str, str]:
        """The parameters by name, in the order in which they are sent."""
        params = dict(self.dataset.parameters) | (self.account.selection if self.account else {})
        if self.window is not None:
            params |= {"start_date": self.window.start.isoformat(), "end_date": self.window.last_day.isoformat()}
        if self.dataset.page_sizes:
            params["per_page"] = str(self.page_size)
        if self.dataset.split_by and self.value is not None:
            params[self.dataset.split_by.parameter] = self.value
        if self.dataset.source is Source.LIST or self.page > 1:  # the API promises no pages of others
            params["page"] = str(self.page)
        return params | ({AS_OF: self.as_of} if self.as_of else {})

    def pin_of(self, link: Mapping[str, str]) -> str | None:
        """Return the moment that a link to the next page pins the list to.

        Args:
            link: The parameters of the link; None is returned if it changes others than the page and the moment.
        """
        as_of = link.get(AS_OF)
        if not as_of or len(as_of) > 1_000:
            return None
        return as_of if replace(self, page=self.page + 1, as_of=as_of).params == link else None
