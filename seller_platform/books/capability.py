"""What the books contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="books",
    needs=("ledgers", "marts"),
    commands={
        "month": (
            "seller_platform.books.commands",
            "Close months, and write their journal entries for QuickBooks and Xero.",
        )
    },
    tables="seller_platform.books.tables",
    problems="seller_platform.books.problems:UNBOOKED",
    marts="seller_platform.books.journal_entries:declared",
    explains={"journal_entries": "seller_platform.books.explaining:explain_key"},
    settings="seller_platform.books.settings:BooksSettings",
)
