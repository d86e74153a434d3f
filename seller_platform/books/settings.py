"""The settings of the books."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from seller_platform.settings import Settings, StoredPath


class BooksSettings(Settings):
    """Which accounts entries are posted to."""

    project: ClassVar[Sequence[str]] = ("journal_accounts", "chart_of_accounts")
    paths: ClassVar[Sequence[str]] = project

    journal_accounts: StoredPath | None = Field(
        None,
        description="a YAML file with the accounts of your books, for `marts.journal_entries`; "
        "`seller-platform docs month-end` shows the default",
        examples=["accounts.yaml"],
    )
    chart_of_accounts: StoredPath | None = Field(
        None,
        description="the chart of accounts that Xero exports, a CSV file; with it, `month close` and `month export` "
        "refuse codes and tax rates that the organisation does not have",
        examples=["ChartOfAccounts.csv"],
    )
