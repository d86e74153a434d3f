"""The accounts that a user may read."""

from seller_platform.contract.dataset import Column, Dataset, Kind, Slicing, Source

ACCOUNTS = Dataset(
    name="accounts",
    path="/user/accounts",
    doc="One marketplace account of the connected user.",
    area="user",
    slicing=Slicing.CONNECTION,
    source=Source.DISCOVERY,
    columns=(
        Column("id", Kind.INTEGER, "The account's number in the API.", key=True),
        Column("account_title", Kind.TEXT, "The title people gave the account; it may change.", example="Shop US"),
        Column("country_code", Kind.TEXT, "Two-letter country code of the marketplace.", example="DE"),
        Column("currency_code", Kind.TEXT, "ISO 4217 code of the account's currency.", example="EUR"),
        Column(
            "timezone", Kind.TEXT, "IANA name of the zone whose calendar the account keeps.", example="Europe/Berlin"
        ),
        Column("marketplace", Kind.TEXT, "Marketplace identifier; also its `marketplace_id`.", example="DE"),
        Column("seller_id", Kind.TEXT, "The seller's identifier on the marketplace.", example="A1EXAMPLE"),
    ),
    order=("id",),
)

USER = (ACCOUNTS,)
