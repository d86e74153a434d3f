"""The accounts of the books to which journal entries post the ledger.

`DEFAULT_ACCOUNTS` has an account for each line of the standard formula of profit, and for taxes.
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

from seller_platform.marts.rules.files import EntryPattern, Node, RulesFile, like_pattern
from seller_platform.marts.rules.formulas import PAYOUTS, STANDARD

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


def _default_accounts() -> JournalAccounts:
    accounts = {
        "payments": ("Marketplace sales", "4000"),
        PAYOUTS: ("Marketplace payouts", "1260"),
        "storage_fees": ("Storage fees", "6020"),
        "subscription_fees": ("Marketplace subscriptions", "6030"),
        "advertising_fees": ("Marketplace advertising", "6040"),
        "selling_fees": ("Selling fees", "6010"),
        "refunds": ("Marketplace refunds", "4010"),
        "reimbursements": ("Marketplace reimbursements", "4020"),
        "advertising": ("Marketplace advertising", "6040"),
        "storage": ("Storage fees", "6020"),
        "subscriptions": ("Marketplace subscriptions", "6030"),
    }
    lines = [JournalLine(line.name, _account(*accounts[line.name]), line.entries) for line in STANDARD.lines]
    taxes = JournalLine("taxes", _account("Marketplace taxes", "2250"), (EntryPattern("*Tax*"), EntryPattern("*tax*")))
    return JournalAccounts(_account("Marketplace balance", "1250"), (*lines, taxes))


def _account(name: str, code: str) -> BookAccount:
    return BookAccount(name, code, "Tax Exempt")


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
