"""The accounts of the books to which journal entries post the ledger.

`DEFAULT_ACCOUNTS` has an account for each kind of entry that marketplaces are known to post.
SELLER_PLATFORM_JOURNAL_ACCOUNTS names a file with accounts of one's own instead:

    balance: {name: Marketplace balance, code: "1250"}    # what the marketplace owes: not yet paid out
    tax_rate: Tax Exempt                                  # Xero's name of the tax rate, unless an account has its own
    lines:
      - line: payouts                                     # always there: transfers to the bank account
        name: Marketplace payouts                         # the name of the account, which QuickBooks takes
        code: "1260"                                      # its code, which Xero takes
        entries:
          - {type: "Transfer*"}

An entry belongs to the first line that names it, as in a formula. What no line names has no account: a check fails.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from psycopg import sql

from seller_platform.marts.rules.files import ANY, EntryPattern, Node, RulesFile, like_pattern
from seller_platform.marts.rules.formulas import PAYOUT_TYPES, PAYOUTS, names_entry

BALANCE = "balance"
"""The line of what was earned and is not paid out."""

UNMAPPED = "unmapped"
"""The line of entries that no line names."""

_KEYS = (BALANCE, "tax_rate", "lines")
_ACCOUNT_KEYS = ("name", "code", "tax_rate")
_LINE_KEYS = ("line", *_ACCOUNT_KEYS, "entries")
_LONGEST = {"name": 100, "code": 10, "tax_rate": 50}


@dataclass(frozen=True)
class BookAccount:
    """An account of the books.

    Attributes:
        name: Its name, as QuickBooks has it.
        code: Its code, as Xero has it; empty where none was given.
        tax_rate: The name of the tax rate of Xero under which it is posted.
    """

    name: str
    code: str
    tax_rate: str


@dataclass(frozen=True)
class JournalLine:
    """The account of entries of the ledger."""

    name: str
    account: BookAccount
    entries: tuple[EntryPattern, ...]


@dataclass(frozen=True)
class JournalAccounts:
    """Which entries of the ledger are posted to which account.

    Attributes:
        balance: The account of what the marketplace owes.
        lines: In the order in which they are compared with an entry; one has the name PAYOUTS.
        content: The text of their file; empty of the default ones.
    """

    balance: BookAccount
    lines: tuple[JournalLine, ...]
    content: str = ""

    @property
    def document(self) -> dict[str, Any]:
        """The accounts as PostgreSQL reads them; patterns are those of LIKE."""
        return {
            BALANCE: asdict(self.balance),
            "lines": [
                {
                    "line": line.name,
                    **asdict(line.account),
                    "entries": [
                        {"type": like_pattern(each.type), "description": like_pattern(each.description)}
                        for each in line.entries
                    ],
                }
                for line in self.lines
            ],
        }

    @property
    def is_payout(self) -> sql.Composed:
        """The condition for entries of the line PAYOUTS, from their columns `transaction_type` and `description`."""
        place = [line.name for line in self.lines].index(PAYOUTS)
        earlier = [entry for line in self.lines[:place] for entry in line.entries]
        conditions = [names_entry(self.lines[place].entries), *([names_entry(earlier)] if earlier else [])]
        return sql.SQL(" AND NOT ").join(conditions)


def _default_accounts() -> JournalAccounts:
    """Return accounts for every entry that marketplaces are known to post.

    Parts of orders and refunds are named by whole descriptions, because the description of an order may be the name of
    a product. So they stand behind the fees, and before the payments, whose types have all descriptions.
    """
    taxes = "Tax, Product tax, Sales tax, Product sales tax, Shipping tax, ShippingTax, Gift wrap tax, GiftwrapTax"
    withheld = "*acilitatorTax*, *acilitator tax*, *axWithheld*, *ax withheld*, *ithheld tax*"
    shipping = "Shipping, Shipping charge, ShippingCharge, Shipping credit, Shipping credits"
    gift_wrap = "Gift wrap, GiftWrap, Giftwrap, Gift wrap credit, Gift wrap credits"
    promotions = "Promotion, Promotional rebate, Promotional rebates, Promotional discount, Discount"
    released = "*eserve*elease*, *elease*eserve*, *eserveCredit*"
    advertising = "*dvertis*, *ponsored*"
    lines = (
        _line(PAYOUTS, "Marketplace payouts 1260", ", ".join(PAYOUT_TYPES)),
        _line("storage_fees", "Storage fees 6020", descriptions="*torage*", of_type="Fee"),
        _line("subscription_fees", "Marketplace subscriptions 6030", descriptions="*ubscription*", of_type="Fee"),
        _line("advertising_fees", "Marketplace advertising 6040", descriptions="*dvertis*", of_type="Fee"),
        _line("selling_fees", "Selling fees 6010", "Fee"),
        _line("taxes_withheld", "Marketplace tax withheld 2260", "*ithh*, *acilitator*", withheld),
        _line("taxes", "Marketplace taxes 2250", "*Tax*, *tax*, VAT*, GST*", f"{taxes}, TaxDiscount, VAT, GST"),
        _line("shipping", "Shipping income 4030", descriptions=shipping),
        _line("gift_wrap", "Gift wrap income 4040", "Gift*rap*", gift_wrap),
        _line("promotions", "Promotional rebates 4050", "Promotion*, *ebate*", promotions),
        _line("payments", "Marketplace sales 4000", "Order"),
        _line("refunds", "Marketplace refunds 4010", "Refund"),
        _line("liquidations", "Liquidation sales 4060", "*iquidation*"),
        _line("reserves_released", "Marketplace reserve 1255", released, f"Previous Reserve*, {released}"),
        _line("reserves_held", "Marketplace reserve 1255", "*eserve*", "Current Reserve*, Reserve*"),
        _line("loans", "Marketplace loans 2270", "*Loan*, *loan*, *Lending*", "Loan*"),
        _line("reimbursements", "Marketplace reimbursements 4020", "*eimbursement*, SAFE-T*", "*eimbursement*"),
        _line("advertising", "Marketplace advertising 6040", advertising, advertising),
        _line("storage", "Storage fees 6020", "*torage*", "*torage*"),
        _line("subscriptions", "Marketplace subscriptions 6030", "*ubscription*", "*ubscription*"),
        _line("claims", "Marketplace refunds 4010", "*efund*, *hargeback*, A-to-z*, *laim*, *etrocharge*"),
        _line("other_fees", "Other marketplace fees 6050", "*Fee*, *fee*, *Service*, *ommission*"),
        _line("debts", "Marketplace payouts 1260", "Debt*"),
        _line("adjustments", "Marketplace adjustments 4070", "*djustment*", "*djustment*"),
    )
    return JournalAccounts(BookAccount("Marketplace balance", "1250", "Tax Exempt"), lines)


def _line(line: str, account: str, types: str = "", descriptions: str = "", *, of_type: str = ANY) -> JournalLine:
    """Return a line of the default accounts.

    Args:
        account: Its name, a blank and its code.
        types: Patterns of types, with commas between them.
        descriptions: Patterns of descriptions, likewise.
        of_type: The type of the entries that have the descriptions.
    """
    name, _, code = account.rpartition(" ")
    entries = [
        *(EntryPattern(each) for each in types.split(", ") if each),
        *(EntryPattern(of_type, each) for each in descriptions.split(", ") if each),
    ]
    return JournalLine(line, BookAccount(name, code, "Tax Exempt"), tuple(entries))


DEFAULT_ACCOUNTS = _default_accounts()
"""The accounts without a file of one's own."""


def accounts_of(path: Path | None) -> JournalAccounts:
    """Return the accounts in the YAML file that the setting names, or the default.

    Raises:
        SettingsError: The file cannot be read, or has no accounts; the message names line, value and what is allowed.
    """
    if path is None:
        return DEFAULT_ACCOUNTS
    file = RulesFile(path, "accounts", "SELLER_PLATFORM_JOURNAL_ACCOUNTS")
    fields = file.mapping(file.root, _KEYS, required=(BALANCE, "lines"), what="the file")
    tax_rate = DEFAULT_ACCOUNTS.balance.tax_rate
    if "tax_rate" in fields:
        tax_rate = file.text(fields["tax_rate"], "tax_rate", _LONGEST["tax_rate"])
    balance = file.mapping(fields[BALANCE], _ACCOUNT_KEYS, required=("name",), what=BALANCE)
    lines: list[JournalLine] = []
    for each in file.sequence(fields["lines"], "lines"):
        line = file.mapping(each, _LINE_KEYS, required=("line", "name", "entries"), what="a line")
        name = file.name(line["line"], "line", taken=(BALANCE, UNMAPPED, *(line.name for line in lines)))
        lines.append(JournalLine(name, _read_account(file, line, tax_rate), file.entries(line["entries"], name)))
    if PAYOUTS not in {line.name for line in lines}:
        raise file.error(fields["lines"], f"no line is {PAYOUTS!r}; add the one of transfers to the bank account")
    return JournalAccounts(_read_account(file, balance, tax_rate), tuple(lines), file.content)


def _read_account(file: RulesFile, fields: dict[str, Node], tax_rate: str) -> BookAccount:
    values = {"code": "", "tax_rate": tax_rate}
    for key in _ACCOUNT_KEYS:
        if key in fields:
            values[key] = file.text(fields[key], key, _LONGEST[key]).strip()
            if not values[key] or not values[key].isprintable():
                raise file.error(fields[key], f"{key} is {values[key]!r}; write one line of text")
    return BookAccount(**values)
