"""What a user chooses on the consent page: accounts and scopes.

The form sends `accounts` (`all` or `ticked`), `account:KEY` for each ticked account, and `scope:NAME` for each ticked
scope. A form without `accounts` makes no choice: it approves what was requested, for all accounts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from seller_platform.contract.tokens import Scope
from seller_platform.contract.wire import MCP
from seller_platform.service.access import ServedAccount

ALL, TICKED = "all", "ticked"
MOST_FIELDS = 4_000
_ON = "on"


@dataclass(frozen=True)
class Choices:
    """The ticks on the consent page.

    Attributes:
        is_all: Whether all accounts are chosen, also those that the user gets later.
        ticked: The keys of the ticked accounts.
    """

    scopes: Sequence[Scope]
    is_all: bool
    ticked: Collection[str]

    @property
    def accounts(self) -> Sequence[str] | None:
        """The keys of the accounts; None stands for all."""
        return None if self.is_all else sorted(self.ticked)

    def problem(self, accounts: Sequence[ServedAccount]) -> str | None:
        """Return what is contradictory in the choice among these accounts, or None."""
        unticked = [account.account_title for account in accounts if account.key not in self.ticked]
        if self.is_all and unticked:
            names = f"{', '.join(unticked)} {'are' if len(unticked) > 1 else 'is'}"
            return f"You chose all accounts, but {names} not ticked. Choose only the ticked accounts, or tick them all."
        if not self.is_all and not self.ticked:
            return "Tick at least one account, or deny the request."
        return None


def path_of_resource(resource: str, base_url: str) -> str | None:
    """Return the path that a `resource` parameter names, empty for the REST API; None: it is not served here.

    Scheme and host are in any letter case, and the port may be the default one (RFC 3986 section 6.2).
    """
    scheme, separator, rest = resource.removesuffix("/").partition("://")
    host, slash, path = rest.partition("/")
    host = host.lower().removesuffix({"http": ":80", "https": ":443"}.get(scheme.lower(), "/"))
    paths = {base_url: "", f"{base_url}{MCP}": MCP}
    return paths.get(f"{scheme.lower()}{separator}{host}{slash}{path}")


def offered_choices(requested: Sequence[Scope], accounts: Sequence[ServedAccount]) -> Choices:
    """Return what is ticked when the page is shown first: everything that was requested."""
    return Choices(requested, is_all=True, ticked={account.key for account in accounts})


def read_choices(form: Mapping[str, str], requested: Sequence[Scope], accounts: Sequence[ServedAccount]) -> Choices:
    """Return the choices in a form; of the accounts, those that the user may read."""
    if "accounts" not in form:
        return offered_choices(requested, accounts)
    scopes = [scope for scope in requested if scope is Scope.READ or form.get(f"scope:{scope}") == _ON]
    ticked = {account.key for account in accounts if form.get(f"account:{account.key}") == _ON}
    return Choices(scopes, is_all=form["accounts"] == ALL, ticked=ticked)
