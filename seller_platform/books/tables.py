"""The tables of bookings and of their lines. Their rows never change."""

from sqlalchemy import DDL, BigInteger, Column, Date, Index, Numeric, Text, event
from sqlalchemy.dialects.postgresql import JSONB

from seller_platform.warehouse.schema.tables import MOMENT, platform_table, required

_KEEP = DDL("""
CREATE OR REPLACE FUNCTION platform.keep_booked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'platform.%% is append-only: what was booked never changes', TG_TABLE_NAME;
END
$$;
CREATE TRIGGER keep_booked BEFORE UPDATE OR DELETE OR TRUNCATE ON %(fullname)s
FOR EACH STATEMENT EXECUTE FUNCTION platform.keep_booked();
COMMENT ON FUNCTION platform.keep_booked IS 'Refuses to change what was booked.'
""")  # type: ignore[no-untyped-call]  # it has no types

BOOKINGS = platform_table(
    "bookings",
    "What was booked of each month of a ledger, when `month` was closed; rows never change.",
    Column("account", Text, primary_key=True, comment="Key of the account."),
    Column("ledger_month", Date, primary_key=True, comment="The first day of the month of the ledger."),
    Column(
        "month",
        Date,
        primary_key=True,
        comment="The first day of the month in which it is booked: `ledger_month` when that is closed, a later one for "
        "adjusting entries.",
    ),
    required("load_id", BigInteger, "The newest load of the ledger's month that is booked."),
    required("accounts", JSONB, "The accounts of the books to which lines were posted."),
    required("booked_at", MOMENT, "When the month was closed."),
    required("booked_by", Text, "Who closed it."),
    Column("ledger_begins", Date, comment="The first month of the stored ledger then; null for adjusting entries."),
    Column("opening_change", JSONB, comment="What is booked of the ledger before the first closed month, by currency."),
    Column("opening_loads", Numeric, comment="The sum of the numbers of the loads that changed it last."),
    is_readable=True,
)

BOOKED_LINES = platform_table(
    "booked_lines",
    "Lines of journal entries of months that were closed; rows never change.",
    required("account", Text, "Key of the account."),
    required("ledger_month", Date, "As in marts.journal_entries; so are the others."),
    required("month", Date, "The month that was closed."),
    required("number", Text, "The number of the journal entry."),
    required("entry_date", Date, "The day on which it is booked."),
    required("kind", Text, "payout, month end or adjusting."),
    required("currency", Text, "ISO 4217 code of the amounts."),
    required("line", Text, "The line of the accounts."),
    required("account_name", Text, "The name of the account of the books."),
    required("account_code", Text, "Its code; empty where it has none."),
    required("tax_rate", Text, "The name of the tax rate of Xero."),
    required("debit", Numeric, "The amount of a debit; else 0."),
    required("credit", Numeric, "The amount of a credit; else 0."),
    required("rows", BigInteger, "How many rows of the ledger it was summed from."),
    Column("causes", Text, comment="Of an adjusting entry: the rows that came and went, the largest first."),
    Index("uq_booked_lines", "number", "line", "account_name", "account_code", "tax_rate", unique=True),
    Index("ix_booked_lines_ledger", "account", "ledger_month"),
    Index("ix_booked_lines_month", "account", "month"),
    is_readable=True,
)

for _table in (BOOKINGS, BOOKED_LINES):
    event.listen(_table, "after_create", _KEEP)
