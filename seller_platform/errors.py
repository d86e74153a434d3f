"""The errors that are raised on purpose, with the next step of each.

The class of an error says what to do next; its message ends with the exact step. An error has a class of its own where
it is caught, or where it stands for an exit code or an HTTP status; all others are a general class with a `code`.

| class | what to do | exit code |
|---|---|---|
| `RequestError` | fix the request | 2 |
| `SettingsError` | fix the settings | 2 |
| `ReauthorizationRequiredError` | authorise again | 3 |
| `RetryableError` | try again later | 4 |
| `UpstreamError` | report to the upstream | 4 |
| `CheckFailedError` | look at what the message names | 5 |
| any other | look at the cause | 1 |
"""

import copyreg
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from difflib import get_close_matches

from seller_platform.commands import runnable
from seller_platform.counts import count_of

ACCOUNTS_NAMED = 20
"""How many accounts a message names."""

INVALID_CLIENT = "invalid_client"
"""The OAuth error of an application that does not exist, or of a wrong secret (RFC 6749 section 5.2)."""

_ENDS = (".", "!", "?", "…", "‽", "。", "．", "！", "？", "｡", "।", "॥", "؟", "۔", "።", "။", "។")
_CLOSING = "\"')]}»›”’“‘」』）】》"
_NO_ENDS = " \t\r\n\v\f\u00a0\u3000\u2028\u2029,;:"
_ITEM = "\n- "


class SellerPlatformError(Exception):
    """The base of every error raised on purpose."""

    next_step = "Look at what the message names as the cause."
    exit_code = 1
    _with_step = False

    def __init_subclass__(cls, *, with_step: bool | None = None) -> None:
        """Make messages of the class end with its next step; without it, they end with a more exact one."""
        if with_step is not None:
            cls._with_step = with_step

    def __init__(self, message: str, problem: str = "", *, code: str | None = None, step: str | None = None) -> None:
        """Keep the message.

        Args:
            message: The whole of it, or its subject, where `problem` follows.
            code: The word by which programs recognise the error; without it, the name of the class.
            step: The next step of this error, in place of that of the class; it is appended to the message.

        `problem_alone` is the message without the step of the class.
        """
        self.subject, self.problem = message, problem or message
        message = f"{message}: {problem}" if problem else message
        self.code = code or type(self).__name__
        self.next_step = step or self.next_step
        self.problem_alone = runnable(message)
        text = followed(message, self.next_step.removesuffix(".")) if self._with_step or step else message
        super().__init__(runnable(text))

    def __reduce__(self) -> tuple[object, ...]:
        """Let another process have the same error: its class, message and attributes."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]  # pickle's


def followed(message: str, step: str) -> str:
    """Return a message and the sentence after it, with one end between them; after a list, it begins a line.

    What others have written may end with a full stop, in any script, or with none; it may be empty.
    """
    message = message.rstrip(_NO_ENDS)
    ended = message.rstrip(_CLOSING).endswith(_ENDS)
    return f"{message}{'' if ended or not message else '.'}{' ' if _ITEM not in message else _ITEM[0]}{step}".strip()


def connect_command(connection: str | None = None) -> str:
    """Return the command that authorises a connection."""
    named = "" if connection in (None, "default") else f" --connection {shlex.quote(str(connection))}"
    return f"seller-platform connect{named}"


def unknown_dataset(name: str, allowed: Sequence[str]) -> "RequestError":
    """Return the error of a name that no dataset has."""
    choice = f"choose one of {', '.join(allowed)}"
    message = f"there is no dataset {name!r}{did_you_mean(name, allowed)}; {choice}"
    return RequestError(message, code="UnknownDatasetError")


def missing_setting(name: str, purpose: str) -> "SettingsError":
    """Return the error of a required setting that is not set."""
    return SettingsError(
        f"{name} is not set; it is {purpose}",
        code="MissingSettingError",
        step="Set the variable in the environment and try again.",
    )


def unknown_schema(version: str, *, first: str) -> "WarehouseError":
    """Return the error for a database that another version of this program made.

    Args:
        first: The oldest version that this program upgrades. Tables of a later one are newer than the program.
    """
    if version < first:
        return WarehouseError(
            f"the database is at schema version {version}, which is older than this version upgrades: its tables and "
            "the keys of its accounts are others",
            code="SchemaVersionError",
            step="It stays as it is: set SELLER_PLATFORM_HOME to a new folder, and a database URL to a new database; "
            "run `seller-platform connect`, and load again with `seller-platform sync --full`.",
        )
    return WarehouseError(
        f"the database is at schema version {version}, which is newer than this version can use",
        code="SchemaVersionError",
        step="Install the version of seller-platform that upgraded the database, or a later one; its rows stay.",
    )


def unusable_home(path: str, problem: str) -> "SettingsError":
    """Return the error of a home folder that this user may not use."""
    return SettingsError(
        f"the home folder cannot be used: {path}: {problem}",
        code="HomeFolderError",
        step="Set SELLER_PLATFORM_HOME to a folder that you may write; `seller-platform doctor` checks it.",
    )


def full_disk(path: str, problem: str) -> "SellerPlatformError":
    """Return the error of a disk that has no room for a file."""
    return SellerPlatformError(
        f"the disk of {path} is full: {problem}",
        code="FullDiskError",
        step="Make room there and try again; what was stored before is kept.",
    )


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return the names that are spelled nearly like one, as a question in brackets; without any, an empty text."""
    spelled = {each.casefold(): each for each in allowed}
    close = [spelled[each] for each in get_close_matches(name.strip().casefold(), spelled)]
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


class RequestError(SellerPlatformError):
    """The request cannot be carried out as it was made."""

    next_step = "Fix the request as the message says, and run the command again."
    exit_code = 2


class SettingsError(SellerPlatformError):
    """A setting is missing or wrong."""

    next_step = "Fix the setting that the message names; `seller-platform docs settings` lists them all."
    exit_code = 2


class UnknownAccountError(RequestError):
    """No account has that key or title."""

    next_step = "Take one of the accounts that the message lists; `seller-platform connect` discovers new ones."

    def __init__(self, key: str, known: Sequence[str], titles: Sequence[str] = ()) -> None:
        self.key = key
        listed = first_few(known, ACCOUNTS_NAMED) or "none yet; run `seller-platform connect`"
        question = did_you_mean(key, [*titles, *known])
        super().__init__(f"there is no account {key!r}{question}; the accounts are: {listed}")


class InexactNumberError(RequestError, with_step=True):
    """A stored number has more digits than Arrow's decimals of one scale can hold."""

    next_step = "Read the numbers with numbers_as_text=True, or as a DataFrame: both keep every digit that was sent."


class NotLoadedError(RequestError):
    """A slice was never loaded, or not yet at a former moment, so an empty result could be wrong."""

    next_step = "Load it first: run the command that the message names, or materialize the asset."

    def __init__(
        self,
        table: str,
        absent: str,
        *,
        accounts: Sequence[str] = (),
        months: tuple[date, date] | None = None,
        as_of: datetime | None = None,
        first_load: datetime | None = None,
    ) -> None:
        """Write the message.

        Args:
            absent: The names of what was never loaded.
            as_of: The former moment whose rows were asked for.
            first_load: When all of it had been loaded, where that was after `as_of`.
        """
        self.first_load = first_load
        if as_of is not None and first_load is not None:
            past, first = (each.astimezone(UTC).isoformat() for each in (as_of, first_load))
            step = f"The first load of it ended at {first}: take that moment or a later one."
            super().__init__(f"not stored yet at {past}: {absent}", step=step)
            return
        schema, _, name = table.partition(".")
        words = {
            "marts": ["marts", "build", name],
            "seller.accounts": ["sync"],
            "seller.report_rows": ["report", "request"],
        }
        command = words.get(schema) or words.get(table) or ["sync", "--dataset", name]
        command += [word for account in accounts for word in ("--account", account)]
        if months is not None:
            command += ["--from", f"{months[0]:%Y-%m}", "--to", f"{months[1]:%Y-%m}"]
        asset = table.replace(".", "/")
        step = f"Run `seller-platform {shlex.join(command)}`, or materialize {asset} for the partition."
        super().__init__(f"never loaded: {absent}", step=step)


class UnanswerableError(RequestError):
    """A question that the stored rows do not answer."""

    next_step = "Ask again as the message says."

    def __init__(self, reason: str, remedy: str, candidates: Sequence[str] = ()) -> None:
        """Keep the parts of the refusal.

        Args:
            reason: Why there is no answer, without a full stop.
            remedy: What would make the question answerable.
            candidates: What may have been meant.
        """
        self.reason, self.remedy, self.candidates = reason, runnable(remedy), tuple(candidates)
        super().__init__(reason, step=remedy)


class ReaderError(RequestError, with_step=True):
    """A role of PostgreSQL cannot be made a reader, or cannot be removed."""

    next_step = "Do what the message says, and run the command again."


class NotHeldError(RequestError, with_step=True):
    """No reading of that load is held."""

    next_step = "Take one of the loads that `seller-platform held` lists."


class NotConnectedError(RequestError):
    """No grant is stored yet."""

    next_step = "Run `seller-platform connect`."

    def __init__(self, connection: str | None = None) -> None:
        named = f"connection {connection!r}" if connection else "any connection"
        super().__init__(f"there is no grant for {named}", step=f"Run `{connect_command(connection)}`.")


class CannotListenError(SellerPlatformError):
    """The service cannot listen on its address and port."""

    next_step = "Choose another port, or end the program that uses it."

    def __init__(self, host: str, port: int, problem: str, *, option: str = "--port") -> None:
        super().__init__(
            f"the service cannot listen on {host} port {port}: {problem}", step=f"Choose another with {option}."
        )


class SheetError(RequestError, with_step=True):
    """A CSV file or a table of the operator has errors, and nothing of it was used.

    Args:
        source: The path of the file, or the name of the table.
        problems: What is wrong, by line and column.
    """

    next_step = "Fix the lines that the message names, and run the command again."

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"{source} cannot be used:{_ITEM}{_ITEM.join(problems)}")


class InvalidSettingError(SettingsError, with_step=True):
    """A setting has a value that cannot be used."""

    next_step = "Correct the variable in the environment, or the file that it names, and try again."


class SecretKeyError(SettingsError, with_step=True):
    """Stored secrets cannot be decrypted with the present key."""

    next_step = (
        "Set SELLER_PLATFORM_SECRET_KEY to the key that the secrets were stored with (several, separated by commas, "
        "are tried in turn), or run `seller-platform connect` again."
    )


class ReauthorizationRequiredError(SellerPlatformError):
    """The upstream no longer accepts the grant; only its user can give a new one."""

    next_step = "Run `seller-platform connect` for the connection that the message names."
    exit_code = 3

    def __init__(self, connection: str, reason: str) -> None:
        step = f"Run `{connect_command(connection)}`."
        super().__init__(f"connection {connection!r} must be authorised again: {reason}", step=step)


class AuthorizationDeniedError(SellerPlatformError, with_step=True):
    """The authorisation ended without a grant."""

    next_step = "Run `seller-platform connect` again, and approve the access in time."
    exit_code = 3


class UpstreamError(SellerPlatformError):
    """The upstream's answer is not what the API promises."""

    next_step = "Report the message to those who run the upstream; try again when they have fixed it."
    exit_code = 4


class RetryableError(UpstreamError):
    """Another attempt may succeed; nothing was stored and nothing was lost."""

    next_step = "Try again later; what was loaded stays."


class UpstreamUnavailableError(RetryableError, with_step=True):
    """The upstream could not be reached, or failed temporarily, in every attempt."""

    next_step = "Try again when the upstream is back; what was loaded stays."

    def __init__(
        self,
        request: str,
        problem: str,
        *,
        attempts: int,
        retry_after_seconds: float | None = None,
        step: str | None = None,
    ) -> None:
        self.attempts, self.retry_after_seconds = attempts, retry_after_seconds
        tries = count_of(attempts, "attempt")
        super().__init__(f"{request}: {problem.rstrip(''.join(_ENDS) + _NO_ENDS)} after {tries}", step=step)
        self.problem = problem


class RequestsUsedUpError(RetryableError):
    """The requests that a connection may send on one day are used up."""

    next_step = "Try again when the budget renews, or raise SELLER_API_REQUESTS_PER_DAY."

    def __init__(self, connection: str, *, per_day: int, renews_at: datetime, sent: int = 0) -> None:
        self.renews_at, self.sent = renews_at, sent  # the requests that were sent for the slice, in vain
        super().__init__(
            f"connection {connection!r} may send {count_of(per_day, 'request')} a day "
            "(SELLER_API_REQUESTS_PER_DAY), and what is left of them does not suffice",
            step=f"The budget renews at {renews_at:%Y-%m-%d %H:%M:%S} UTC: try again then, or raise the setting.",
        )


class BudgetTooSmallError(SettingsError, with_step=True):
    """A slice takes more requests than a connection may send on one day."""

    next_step = "Raise SELLER_API_REQUESTS_PER_DAY, or unset it."

    def __init__(self, connection: str, *, per_day: int, needed: int) -> None:
        super().__init__(
            f"it takes about {count_of(needed, 'request')}, and connection {connection!r} may send {per_day:,} a day"
        )


class UnreadableBodyError(RetryableError, with_step=True):
    """The body of an answer cannot be read: it is not valid JSON, was cut off, or holds something else than asked."""

    next_step = "Try again; if the error stays, something between here and the upstream changes its answers."


class ErrorAnswerError(UnreadableBodyError):
    """An answer with a good status carries an error, so that the rows beside it are not the list."""

    next_step = "Try again; if the error stays, report it to the upstream."


class CutBodyError(UnreadableBodyError):
    """The body of an answer ends early."""


class RepeatedNameError(UnreadableBodyError):
    """An object of an answer has a name twice, of which only one value would be read."""


class RequestRefusedError(UpstreamError, with_step=True):
    """The upstream refused a request, and would refuse it again."""

    next_step = "Check the account and the dates of the request; if they are right, report it to the upstream."

    def __init__(
        self,
        request: str,
        status: int,
        message: str,
        parameters: Mapping[str, Sequence[str]] | None = None,
        *,
        retry_after_seconds: float | None = None,
    ) -> None:
        self.request, self.status, self.parameters = request, status, dict(parameters or {})
        self.message, self.retry_after_seconds = message, retry_after_seconds
        named = "; ".join(f"{name}: {' '.join(texts)}" for name, texts in self.parameters.items())
        text = f"{request}: the upstream answered {status}: {message}"
        super().__init__(followed(text, named) if named else text)


class NotOfferedError(UpstreamError, with_step=True):
    """The upstream has no endpoint for rows that can be computed from others.

    The others are loaded nevertheless.
    """

    next_step = "Compute these rows from the other tables, or leave them out with --dataset; everything else is loaded."

    def __init__(self, dataset: str, path: str, status: int) -> None:
        self.dataset, self.path, self.status = dataset, path, status
        super().__init__(f"{dataset}: the upstream does not offer {path} (it answered {status})")


class ReportFailedError(UpstreamError, with_step=True):
    """A requested report failed."""

    next_step = "Nothing of it was stored; request it again with `seller-platform report request`."


class TokenRefusedError(UpstreamError, with_step=True):
    """The token endpoint answered with an OAuth error (RFC 6749 section 5.2)."""

    next_step = (
        "Check SELLER_API_CLIENT_ID, SELLER_API_CLIENT_SECRET and SELLER_API_REDIRECT_URI, then run "
        "`seller-platform connect`, with --keep-grant where the connection has a grant already."
    )

    def __init__(self, error: str, description: str, *, ends_grant: bool = False) -> None:
        """Keep the answer.

        Args:
            ends_grant: Whether it says that the code or the refresh token is of no more use.
        """
        self.error, self.description, self.ends_grant = error, description, ends_grant
        self.answer = f"{error} ({description.rstrip('.')})" if description else error
        reason = "the client id or the client secret is wrong: " if error == INVALID_CLIENT else ""
        super().__init__(f"{reason}the token endpoint answered {self.answer}")


class ContractViolationError(UpstreamError, with_step=True):
    """The upstream sent an answer that the API does not allow."""

    next_step = "Nothing of the slice was stored; report it to the upstream."


class RowsMissingError(ContractViolationError):
    """An answer has nothing where the rows should be."""


class UnusableAccountError(ContractViolationError):
    """An account cannot be read: its time zone is not known, or no parameter of a request can select it."""

    next_step = "Correct the account at the upstream; all other accounts are read."


class DayMissingError(ContractViolationError):
    """A row lacks the day that decides its slice."""

    next_step = "Nothing of the slice was stored; report to the upstream that its rows lack their day."


class ListChangedError(RetryableError):
    """A list kept changing while it was read."""

    next_step = "Nothing was stored; try again at a quieter hour."


class WarehouseError(SellerPlatformError):
    """PostgreSQL could not carry out a statement."""

    next_step = "Look at the message of PostgreSQL; `seller-platform doctor` checks the rest."


class WarehouseUnavailableError(WarehouseError, with_step=True):
    """PostgreSQL cannot be reached."""

    next_step = "Check the URL of the database, and that its server runs; then try again."

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"PostgreSQL at {where} cannot be used: {problem}")


class MissingRightError(WarehouseError, with_step=True):
    """The user of the database lacks a right."""

    next_step = (
        "Let the user that created the tables, or an administrator of the server, grant the right in psql, or name "
        "that user in the URL of the database."
    )


class DatabaseFullError(WarehouseError, with_step=True):
    """The disk of the PostgreSQL server is full."""

    next_step = "Make room on the disk of the server and try again; what was stored before is kept."

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"the disk of PostgreSQL at {where} is full: {problem}")


class GrantSpoolError(WarehouseError, with_step=True):
    """The tokens of a connection cannot be kept on disk, so none are refreshed."""

    next_step = (
        "Make room there, make it writable, or move the home folder to another disk if this one fails; then try again."
    )


class BackupError(WarehouseError):
    """A backup cannot be written or restored."""

    next_step = "Do what the message says; the former backup is unchanged, and so is the database."

    def __init__(self, what: str, problem: str, step: str) -> None:
        super().__init__(f"backup or restore of {what}: {problem}", step=step)


class WebhookError(SellerPlatformError, with_step=True):
    """The webhook did not accept a message."""

    next_step = "Check SELLER_PLATFORM_ALERT_WEBHOOK_URL; the message is in the log, and is sent again."


class CheckFailedError(SellerPlatformError):
    """Everything ran, but a check of what was stored failed."""

    next_step = "Look at what the message names; what was stored is kept for that."
    exit_code = 5


class ImplausibleReadingError(CheckFailedError, with_step=True):
    """A reading contradicts the stored rows; nothing was stored, and it is read once more."""

    next_step = "Nothing was stored; the slice is read once more."


class ReadingHeldError(CheckFailedError):
    """A reading that contradicts the stored rows was not published, and these stay."""

    next_step = (
        "Compare with the upstream; publish the reading with `seller-platform accept LOAD`, or wait: the next refresh "
        "reads the slice again."
    )

    def __init__(self, what: str, reason: str, load_id: int) -> None:
        self.load_id = load_id
        step = (
            "The stored rows stay, the reading is held. Compare with the upstream, then publish it with "
            f"`seller-platform accept {load_id}` or the job accept_held of the Dagster UI, or wait: each refresh reads "
            "the slice again, and after three that say the same, 20 hours apart, it is published"
        )
        super().__init__(f"{what}: {reason}", step=step)


class InputProblemError(CheckFailedError, with_step=True):
    """A partition of a mart was not built, because the slice of an input has a problem."""

    next_step = "Load the input's partition again, or accept it if it is held; then the mart is built."
    begin = "not built: "
    """How its message begins, by which alerts leave the report to the input."""

    def __init__(self, kind: str, asset: str, partition: str, reason: str) -> None:
        self.kind = kind
        super().__init__(f"{self.begin}{asset} {partition} is {kind}: {reason}")


class PartsFailedError(SellerPlatformError):
    """Some slices, partitions, tables or costs failed; what was done of the others stays."""

    next_step = "Fix the causes that the message lists, and run the command again: what was done stays."

    def __init__(
        self,
        failures: Mapping[str, SellerPlatformError | str],
        what: str,
        done: str,
        *,
        any_done: bool,
        exit_code: int | None = None,
    ) -> None:
        """Write a line for each cause, with the first names that have it.

        Args:
            failures: Why each failed, by its name.
            any_done: Whether there were others.
            exit_code: By default the largest of the failures that are errors.
        """
        names_of: dict[str, list[str]] = {}
        for name, failure in failures.items():
            names_of.setdefault(str(failure), []).append(name)
        lines = "".join(f"{_ITEM}{first_few(names)}: {cause}" for cause, names in names_of.items())
        others = "; all others were" if any_done else ""
        super().__init__(f"{count_of(len(failures), what, 'was')} not {done}{others}:{lines}")
        codes = [each.exit_code for each in failures.values() if isinstance(each, SellerPlatformError)]
        self.exit_code = max(codes, default=1) if exit_code is None else exit_code


def first_few(names: Sequence[str], few: int = 3) -> str:
    """Return the first names, and how many more there are."""
    listed = ", ".join(names[:few])
    return listed if len(names) <= few else f"{listed} and {len(names) - few} more"
