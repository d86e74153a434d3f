"""What an application requests, and what a user chooses on the consent page: accounts and scopes.

The form sends `accounts` (`all` or `ticked`), `account:KEY` for each ticked account, and `scope:NAME` for each ticked
scope. A form without `accounts` makes no choice: it approves what was requested, for all accounts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

from starlette.responses import Response

from seller_platform.contract.wire import MCP
from seller_platform.service.access import Scope, ServedAccount
from seller_platform.service.http.responses import ascii_description
from seller_platform.service.oauth.applications import Application
from seller_platform.service.pages.rendering import redirect

_ON = "on"


@dataclass(frozen=True)
class AuthorizationRequest:
    """A request whose answer goes to the application's redirect URI.

    Attributes:
        redirect_uri: The one of the registered redirect URIs that the request names.
        issuer: The URL of this service, which tells the application who answers.
        scopes: What the application requests.
        resource: The path of the resource that its tokens are for; None stands for the REST API.
        is_resource_assumed: Whether the request did not name it.
        problem: The error and its description, where the request cannot be granted.
    """

    application: Application
    redirect_uri: str
    issuer: str
    scopes: Sequence[Scope]
    state: str | None
    code_challenge: str | None
    resource: str | None
    is_resource_assumed: bool
    problem: tuple[str, str] | None

    def answer(self, **parameters: str) -> Response:
        """Redirect the browser to the application."""
        if self.state is not None:
            parameters["state"] = self.state
        parameters["iss"] = self.issuer
        separator = "&" if urlsplit(self.redirect_uri).query else "?"
        return redirect(f"{self.redirect_uri.rstrip('?')}{separator}{urlencode(parameters, quote_via=quote)}")

    def refuse(self, error: str, description: str) -> Response:
        """Redirect the browser to the application with an error (RFC 6749 section 4.1.2.1)."""
        return self.answer(error=error, error_description=ascii_description(description))


@dataclass(frozen=True)
class Choices:
    """The ticks on the consent page.

    Attributes:
        offered: The accounts that the user may read.
        is_all: Whether all accounts are chosen, also those that the user gets later.
    """

    offered: Sequence[ServedAccount]
    scopes: Sequence[Scope]
    is_all: bool
    ticked: Collection[str]

    @property
    def accounts(self) -> Sequence[str] | None:
        """The keys of the accounts; None stands for all."""
        return None if self.is_all else sorted(self.ticked)

    @property
    def problem(self) -> str | None:
        """What is contradictory in the choice, or None."""
        unticked = [account.account_title for account in self.offered if account.key not in self.ticked]
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


def read_choices(form: Mapping[str, str], requested: Sequence[Scope], accounts: Sequence[ServedAccount]) -> Choices:
    """Return the choices in a form, of accounts that the user may read; without any, all that was requested."""
    if "accounts" not in form:
        return Choices(accounts, requested, is_all=True, ticked={account.key for account in accounts})
    scopes = [scope for scope in requested if scope is Scope.READ or form.get(f"scope:{scope}") == _ON]
    ticked = {account.key for account in accounts if form.get(f"account:{account.key}") == _ON}
    return Choices(accounts, scopes, is_all=form["accounts"] == "all", ticked=ticked)
