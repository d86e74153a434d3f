"""The table of repeated ledgers."""

from sqlalchemy import BigInteger, Column, Date, Text
from sqlalchemy.dialects.postgresql import JSONB

from seller_platform.warehouse.schema.tables import platform_table, required, stamped

REPEATED_LEDGERS = platform_table(
    "repeated_ledgers",
    "Entries of transactions that several accounts of a seller have: sums count them several times.",
    Column("account", Text, primary_key=True, comment="Key of the account."),
    Column("month", Date, primary_key=True, comment="The first day of the month."),
    Column("other", Text, primary_key=True, comment="Key of the other account that has the same entries."),
    required("rows", BigInteger, "Entries that both accounts have."),
    required("compared", BigInteger, "Entries of the account that have an order."),
    required("amounts", JSONB, "The sum of the entries that both have, by currency."),
    stamped("noticed_at", "When the accounts were compared."),
    is_readable=True,
)
