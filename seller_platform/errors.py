"""Every error raised on purpose; its class says what to do next, its message ends with how.

| class | what to do | exit code |
|---|---|---|
| `RequestError` | mend what was asked for | 2 |
| `SettingsError` | mend the settings | 2 |
| `ReauthorizationRequiredError` | authorise again | 3 |
| `RetryableError` | try again later | 4 |
| `UpstreamError` | tell the upstream | 4 |
| `CheckFailedError` | look at the check | 5 |
| any other | look at the cause | 1 |
"""

from collections.abc import Mapping, Sequence


class SellerPlatformError(Exception):
    """The base of every error raised on purpose."""

    exit_code = 1


class RequestError(SellerPlatformError):
    """What was asked for cannot be done as it was asked."""

    exit_code = 2


class SettingsError(SellerPlatformError):
    """A setting is missing or wrong."""

    exit_code = 2


class UnknownAccountError(RequestError):
    """No account of that key is known."""

    def __init__(self, key: str, known: Sequence[str]) -> None:
        self.key, self.known = key, tuple(known)
        listed = ", ".join(known) or "none yet; run `seller-platform connect`"
        super().__init__(f"there is no account {key!r}; the accounts are: {listed}")


class UnknownDatasetError(RequestError):
    """No dataset of that name exists."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(f"there is no dataset {name!r}; choose one of {', '.join(known)}")


class NotConnectedError(RequestError):
    """No grant is stored yet."""

    def __init__(self, connection: str | None = None) -> None:
        self.connection = connection
        named = f"connection {connection!r}" if connection else "any connection"
        super().__init__(f"there is no grant for {named}; run `seller-platform connect` to authorise one")


class MissingSettingError(SettingsError):
    """A setting that this work needs is not set."""

    def __init__(self, name: str, purpose: str) -> None:
        self.name = name
        super().__init__(f"{name} is not set; it is {purpose}. Set it in the environment and run the command again")


class InvalidSettingError(SettingsError):
    """A setting has a value that cannot be used."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f"{name}: {problem}. Correct it in the environment and run the command again")


class SecretKeyError(SettingsError):
    """Stored secrets cannot be read with the key that is set."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"{what} cannot be decrypted with the present key. Set SELLER_PLATFORM_SECRET_KEY to the key it was "
            "stored with (several, separated by commas, are tried in turn), or run `seller-platform connect` again"
        )


class ReauthorizationRequiredError(SellerPlatformError):
    """The upstream no longer honours the grant; only its user can give a new one."""

    exit_code = 3

    def __init__(self, connection: str, reason: str) -> None:
        self.connection, self.reason = connection, reason
        super().__init__(f"connection {connection!r} must be authorised again: {reason}. Run `seller-platform connect`")


class AuthorizationDeniedError(SellerPlatformError):
    """The authorisation ended without a grant."""

    exit_code = 3

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"authorisation failed: {reason}. Run `seller-platform connect` to try again")


class UpstreamError(SellerPlatformError):
    """The upstream answered, but not as the API promises."""

    exit_code = 4


class RetryableError(UpstreamError):
    """It may work when tried again; nothing was stored and nothing was lost."""


class UpstreamUnavailableError(RetryableError):
    """The upstream could not be reached, or answered with a passing fault, more often than we try."""

    def __init__(self, request: str, problem: str, *, attempts: int, retry_after_seconds: float | None = None) -> None:
        self.request, self.problem, self.attempts = request, problem, attempts
        self.retry_after_seconds = retry_after_seconds
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(f"{request}: {problem} after {tries}; run the command again when the upstream is back")


class UnreadableBodyError(RetryableError):
    """The body of an answer is not the JSON it should be; it may have been cut on its way."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{problem}; run the command again")


class RequestRefusedError(UpstreamError):
    """The upstream refused a request for good."""

    def __init__(
        self, request: str, status: int, message: str, parameters: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.request, self.status, self.parameters = request, status, dict(parameters or {})
        named = "".join(f"; {name}: {' '.join(texts)}" for name, texts in self.parameters.items())
        super().__init__(
            f"{request}: the upstream answered {status}: {message}{named}. Check the account and the dates asked for"
        )


class TokenRefusedError(UpstreamError):
    """The token endpoint answered with an OAuth error (RFC 6749 section 5.2)."""

    def __init__(self, error: str, description: str) -> None:
        self.error, self.description = error, description
        told = f"{error}: {description}" if description else error
        super().__init__(
            f"the token endpoint answered {told}. Check SELLER_API_CLIENT_ID, SELLER_API_CLIENT_SECRET and "
            "SELLER_API_REDIRECT_URI, then run `seller-platform connect`"
        )


class ContractViolationError(UpstreamError):
    """The upstream sent something that the API does not allow."""

    def __init__(self, what: str, problem: str) -> None:
        self.what, self.problem = what, problem
        super().__init__(f"{what}: {problem}. Nothing of the slice was stored; report it to the upstream")


class ListChangedError(RetryableError):
    """A list kept changing while it was read."""

    def __init__(self, what: str, *, attempts: int, last: str) -> None:
        self.what, self.attempts, self.last = what, attempts, last
        super().__init__(
            f"{what}: the list changed while it was read, in each of {attempts} attempts (last: {last}). "
            "Nothing was stored; run the command again at a quieter hour"
        )


class WarehouseError(SellerPlatformError):
    """PostgreSQL did not do what it was asked to do."""


class WarehouseUnavailableError(WarehouseError):
    """PostgreSQL cannot be reached."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        super().__init__(
            f"PostgreSQL at {where} cannot be used: {problem}. "
            "Check SELLER_PLATFORM_DATABASE_URL and that the server accepts connections, then run the command again"
        )


class EmbeddedServerError(WarehouseError):
    """The embedded PostgreSQL server does not start."""

    def __init__(self, folder: str, problem: str) -> None:
        self.folder = folder
        super().__init__(
            f"the embedded PostgreSQL server in {folder} does not start: {problem}. Mend that and run the command "
            "again, choose another folder by SELLER_PLATFORM_HOME, or set SELLER_PLATFORM_DATABASE_URL to a server "
            "of your own"
        )


class SchemaVersionError(WarehouseError):
    """The database was made by a newer version of this program."""

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(
            f"the database is at schema version {found}, which this version does not know; "
            "install the newer version of seller-platform that made it"
        )


class CheckFailedError(SellerPlatformError):
    """Everything ran, but what was stored is not right."""

    exit_code = 5


class SlicesFailedError(SellerPlatformError):
    """Some slices were not loaded; the others were."""

    def __init__(self, failures: Mapping[str, str], exit_code: int = 1) -> None:
        self.failures, self.exit_code = dict(failures), exit_code
        named = "; ".join(f"{slice_}: {problem}" for slice_, problem in self.failures.items())
        super().__init__(f"{len(self.failures)} slices were not loaded: {named}")
