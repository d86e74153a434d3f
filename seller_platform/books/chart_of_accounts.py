"""The chart of accounts of an organisation in Xero, against which codes and tax rates are checked.

It is the file that Xero exports under *Accounting*, *Chart of accounts*, with the columns `*Code`, `*Name`, `*Type` and
`*Tax Code` (https://www.xero.com/blog/2008/01/chart-of-accounts-import-export-and-much-much-more/).
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seller_platform.errors import InvalidSettingError, RequestError, first_few

_SETTING = "SELLER_PLATFORM_CHART_OF_ACCOUNTS"
_NAMED = 60
_RATE = re.compile(r" \([\d.]+ ?%\)$")

# https://support.approvalmax.com/portal/en/kb/articles/troubleshooting-errors-during-manual-journal-creation-via-csv-file-upload
_REFUSED_TYPES = {"Bank", "Accounts Receivable", "Accounts Payable"}


@dataclass(frozen=True)
class ChartOfAccounts:
    """The accounts of an organisation.

    Attributes:
        accounts: The name and the type of each account, by its code.
        tax_rates: The names of the tax rates that its accounts have.
    """

    path: Path
    accounts: Mapping[str, tuple[str, str]]
    tax_rates: frozenset[str]

    def expect(self, lines: Iterable[Any]) -> None:
        """Raise an error if Xero would refuse lines, which have an account_name, account_code and tax_rate.

        Raises:
            RequestError: It has no account of that code or no such tax rate, or takes no manual journals for it.
        """
        codes, rates, refused = (dict[str, None]() for _ in range(3))
        for line in lines:
            account = f"{line.account_code!r} ({line.account_name})"
            if line.account_code not in self.accounts:
                codes[account] = None
            elif (kind := self.accounts[line.account_code][1]) in _REFUSED_TYPES:
                refused[f"{account}, of type {kind}"] = None
            if line.tax_rate not in self.tax_rates and line.tax_rate not in self._names_without_rate:
                rates[repr(line.tax_rate)] = None
        problems = [
            f"{what} {', '.join(names)}"
            for what, names in (
                ("no account has the code", codes),
                ("no account has the tax rate", rates),
                ("no manual journal can be posted to", refused),
            )
            if names
        ]
        if problems:
            usable = [f"{code} {name}" for code, (name, kind) in self.accounts.items() if kind not in _REFUSED_TYPES]
            raise RequestError(
                f"Xero would refuse lines, as {self.path} says: {'; '.join(problems)}. It has the accounts "
                f"{first_few(usable, _NAMED)}, and the tax rates {', '.join(sorted(self.tax_rates))}",
                code="ChartOfAccountsError",
                step="Write codes and tax rates of the organisation into the file that "
                "SELLER_PLATFORM_JOURNAL_ACCOUNTS names, or add the accounts in Xero and export its chart anew.",
            )

    @property
    def _names_without_rate(self) -> set[str]:
        """The names as the settings of Xero show them; the chart of accounts may add the rate, as `Tax Exempt (0%)`."""
        return {_RATE.sub("", name) for name in self.tax_rates}


def chart_of(path: Path | None) -> ChartOfAccounts | None:
    """Return the chart of accounts in the file that the setting names, if there is one.

    Raises:
        SettingsError: The file cannot be read, or is none that Xero exports.
    """
    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise InvalidSettingError(_SETTING, f"{path}: cannot be read: {problem}") from None
    rows = csv.DictReader(io.StringIO(text, newline=""))
    columns = {name.strip().lstrip("*"): name for name in rows.fieldnames or () if name}
    if missing := [f"*{name}" for name in ("Code", "Name", "Type", "Tax Code") if name not in columns]:
        problem = f"has no column {', '.join(missing)}; export it in Xero: Accounting, Chart of accounts, Export"
        raise InvalidSettingError(_SETTING, f"{path}: {problem}")
    accounts, tax_rates = dict[str, tuple[str, str]](), set[str]()
    for row in rows:
        code, name, kind, tax_rate = ((row[columns[key]] or "").strip() for key in ("Code", "Name", "Type", "Tax Code"))
        if code:
            accounts[code] = (name, kind)
        tax_rates |= {tax_rate} - {""}
    return ChartOfAccounts(path, accounts, frozenset(tax_rates))
