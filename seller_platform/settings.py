"""The settings of the platform, read from the environment."""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from seller_platform.capabilities import contributed
from seller_platform.errors import InvalidSettingError, missing_setting
from seller_platform.logs import LogFormat
from seller_platform.project import nearest_home, project_file, read_project

OWNER = re.compile(r"team:[A-Za-z0-9_]+|[^@\s]+@[^@\s]+\.[^@\s]+")
"""An owner of assets, as Dagster accepts it."""

# The variables of these begin with SELLER_API_; those of all others begin with SELLER_PLATFORM_.
_OF_THE_API = ("base_url", "auth_url", "client_id", "client_secret", "redirect_uri", "requests_per_day")

DEMO_FOLDER = "sandbox"
"""The folder in the home folder where `demo` and `dev` keep everything."""


def http_url(url: str) -> str:
    """Return a URL of http or https.

    Raises:
        ValueError: It is another one, or none. The message does not repeat it.
    """
    problem = "must be an http or https URL"
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(problem) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(problem)
    return url


def absolute_path(path: Path) -> Path:
    """Return a path as it is stored.

    Raises:
        ValueError: It begins with the home of nobody, or is relative to a folder that no longer exists.
    """
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise ValueError("begins with ~ and a user that this machine does not have") from None
    except FileNotFoundError:
        raise ValueError("is relative to the working directory, which no longer exists") from None


def listed(names: str) -> tuple[str, ...]:
    """Return the values of a text that holds several, with commas between them."""
    return tuple(filter(None, names.replace(" ", "").split(",")))


StoredPath = Annotated[Path, AfterValidator(absolute_path)]
"""A path that is kept as an absolute one."""

HttpUrl = Annotated[str, AfterValidator(http_url)]
"""A URL of http or https."""

Names = Annotated[
    tuple[str, ...], NoDecode, BeforeValidator(lambda value: listed(value) if isinstance(value, str) else value)
]
"""Several names; in a variable with commas between them."""

S = TypeVar("S", bound="Settings")


class Settings(BaseSettings):
    """The core's settings with their defaults; the alias of each is its environment variable.

    A capability declares its own in a subclass. What `read_settings` returns is an instance of each.

    Attributes:
        project: Those that a project file may have, beside the environment.
        paths: Those of them that are paths.
        elsewhere: Those that would lead a command of the sandbox to another database or API, or limit its requests.
    """

    project: ClassVar[Sequence[str]] = (
        *("datasets", "accounts", "history_start", "requests_per_day", "lookback"),
        *("schedules", "owners", "dagster_url", "fail_on"),
    )
    paths: ClassVar[Sequence[str]] = ()
    elsewhere: ClassVar[Sequence[str]] = (
        *("database_url", "reader_url", "history_start"),
        *("base_url", "auth_url", "client_id", "client_secret", "redirect_uri", "requests_per_day"),
    )

    model_config = SettingsConfigDict(
        extra="ignore",
        frozen=True,
        validate_default=True,
        defer_build=True,  # only `settings_class` is used
        alias_generator=lambda name: f"{'SELLER_API' if name in _OF_THE_API else 'SELLER_PLATFORM'}_{name.upper()}",
    )

    home: StoredPath = Field(
        default_factory=nearest_home,
        description="the folder of the embedded PostgreSQL, the key and the Dagster instance; by default that of the "
        "working directory, else the nearest one of the folders above",
    )
    demo: bool = Field(
        False, description="use the data of `demo` and `dev`, and no setting that names another database or API"
    )
    root_data_folder: StoredPath = Field(
        Path("/var/lib/seller-platform"),
        description="as root: the data folder of the embedded PostgreSQL, which then runs as the user "
        "`seller-postgres`",
    )
    database_url: SecretStr | None = Field(
        None,
        description="the warehouse, also for Dagster's own tables: `postgresql://...`; by default the embedded server",
    )
    reader_url: SecretStr | None = Field(
        None,
        description="the login of a reader of that warehouse, as which `query` and the tool `sql` of `mcp` connect; "
        "`database reader` makes one, and the embedded server has its own",
    )
    celery_broker_url: SecretStr | None = Field(
        None, description="the Redis server that queues runs for Celery's workers"
    )
    secret_key: SecretStr | None = Field(
        None,
        description="the Fernet key of grants and client secrets, several with commas between them to rotate; "
        "by default a file in the home",
    )
    history_start: date = Field(
        date(2025, 1, 1), description="the first day of history until one is stored; its month is the first partition"
    )
    owners: Names = Field(
        ("team:data",),
        alias="SELLER_PLATFORM_OWNER",
        description="the owners of every asset: e-mail addresses or `team:NAME`",
    )
    datasets: Names | None = Field(
        None,
        description="the datasets that `sync` loads and Dagster has assets of; by default all",
        examples=[["orders", "daily_product_sales", "transactions", "inventory"]],
    )
    accounts: Names | None = Field(
        None, description="the keys of the accounts that are loaded; by default all", examples=[["us-1042"]]
    )
    schedules: bool | dict[str, dict[str, Any]] = Field(
        True,
        description="whether Dagster's schedules are on when they are first loaded, or the settings of each",
        examples=['{ refresh = { cron = "0 11,12,14,18 * * *" }, snapshot = { enabled = true } }'],
    )
    fail_on: Literal["error", "warning", "never"] = Field(
        "error", description="which problems let `status` and `sync` end with an exit code"
    )
    base_url: HttpUrl | None = Field(None, description="the base URL of the API's paths")
    auth_url: HttpUrl | None = Field(None, description="the base URL of `/oauth/authorize`; by default the base URL")
    client_id: str | None = Field(None, description="the id of the registered application")
    client_secret: SecretStr | None = Field(None, description="the secret of the registered application")
    requests_per_day: int | None = Field(
        None,
        description="how many requests each connection may send on one day in UTC, all processes together; by "
        "default any number",
        ge=1,
        le=100_000_000,
        examples=[5_000],
    )
    dagster_url: HttpUrl | None = Field(
        None, description="the URL of the Dagster UI, for links in alerts", examples=["https://dagster.example.com"]
    )
    dagster_retention_days: int = Field(
        30,
        description="after how many days `prune` deletes Dagster's events, runs and check results; partitions "
        "keep their last state",
        ge=1,
        le=36_500,
    )
    second_reading_seconds: float = Field(
        60,
        description="how long after an implausible reading its slice is read once more; for the list of "
        "accounts at most 15",
        ge=0,
        le=3600,
    )
    lookback: Literal["adaptive", "fixed"] = Field(
        "adaptive",
        description="`adaptive` reads days again for as long as such days changed so far, `fixed` for the "
        "dataset's whole lookback",
    )
    log_format: LogFormat = Field(
        "text", description="`json` writes logs for programs: one JSON object on each line of standard error"
    )
    redirect_uri: HttpUrl = Field(
        "http://127.0.0.1:8765/callback", description="the redirect URL that the application is registered with"
    )

    @property
    def is_adaptive(self) -> bool:
        """Whether days are read again for as long as such days changed so far."""
        return self.lookback == "adaptive"

    def of(self, kind: type[S]) -> S:
        """Return these as the settings of a capability, of which they are."""
        assert isinstance(self, kind)
        return self

    @field_validator("home")
    @classmethod
    def _one_line(cls, home: Path) -> Path:
        if not str(home).isprintable():
            raise ValueError("holds a line break or another control character, which PostgreSQL's files cannot hold")
        return home

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: object, info: ValidationInfo) -> object:
        name = info.field_name or ""
        # A variable that was meant to name a folder or a server must not lead to another one.
        if value == "" and name == "home":
            raise ValueError("is empty; unset it to use the nearest home folder, or name a folder")
        if value == "" and name == "database_url":
            raise ValueError("is empty; unset it to use the embedded server, or give the URL of a database")
        default = cls.model_fields[name].default
        return default if value == "" and (default is None or name == "log_format") else value

    @field_validator("owners")
    @classmethod
    def _owners_of_dagster(cls, owners: tuple[str, ...]) -> tuple[str, ...]:
        if not owners or not all(map(OWNER.fullmatch, owners)):
            raise ValueError("must be an e-mail address or team:NAME")
        return owners

    @field_validator("base_url", "auth_url", "dagster_url")
    @classmethod
    def _without_last_slash(cls, url: str | None) -> str | None:
        # Paths are appended to these; the redirect URI is compared to the last character, and stays as it is.
        return url.rstrip("/") if url is not None else None


@cache
def settings_class() -> type[Settings]:
    """Return the class of all settings: a subclass of this module's, and of those that capabilities contribute."""
    return create_model("AllSettings", __base__=(*contributed("settings"), Settings))


def __getattr__(name: str) -> type[Settings]:
    """Return that class where settings are sent to another process, which finds it by its name."""
    if name != "AllSettings":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return settings_class()


def named_in(attribute: str) -> dict[str, FieldInfo]:
    """Return the settings that an attribute of `Settings` names, or of a capability's, by name."""
    kinds, fields = settings_class().__mro__, settings_class().model_fields
    return {name: fields[name] for kind in reversed(kinds) for name in vars(kind).get(attribute, ())}


def read_settings() -> Settings:
    """Read the settings from the environment, and from the project file where it has others.

    Under SELLER_PLATFORM_DEMO, the home folder is the demo's, what would lead elsewhere is as by default, and there is
    no project file.

    A setting may also be a file named like its variable in the folder SELLER_PLATFORM_SECRETS_DIR (by default
    `/run/secrets`, where containers have their secrets); a variable of the environment comes first.

    Raises:
        InvalidSettingError: A variable or the project file has an invalid value. The message does not repeat the value.
    """
    settings = _settings({})
    if settings.demo:
        by_default = {name: field.default for name, field in named_in("elsewhere").items()}
        return settings.model_copy(update={**by_default, "home": settings.home / DEMO_FOLDER})
    return _settings(_of_project(settings))


def origins(settings: Settings) -> dict[str, str]:
    """Return where each setting comes from that is not as by default: the project file, or its variable."""
    in_file = {} if settings.demo else _of_project(_settings({}))
    fields = {name: type(settings).model_fields[name].alias or "" for name in sorted(settings.model_fields_set)}
    return {name: str(project_file()) if alias in in_file else alias for name, alias in fields.items()}


def _of_project(environment: Settings) -> dict[str, object]:
    """Return what the project file sets and the environment does not, by the names of variables."""
    if (file := project_file()) is None:
        return {}
    known = named_in("project")
    values = read_project(file, known, named_in("paths"))
    return {str(known[name].alias): values[name] for name in values.keys() - environment.model_fields_set}


def _settings(in_file: Mapping[str, object]) -> Settings:
    folder = Path(os.environ.get("SELLER_PLATFORM_SECRETS_DIR", "/run/secrets"))
    try:
        return settings_class()(_secrets_dir=folder if folder.is_dir() else None, **in_file)  # type: ignore[call-arg, arg-type]  # they are named by their variables
    except ValidationError as error:
        # The value may be a secret, and is not repeated.
        first = error.errors(include_input=False, include_url=False)[0]
        name = str(first["loc"][0])
        keys = {str(field.alias): key for key, field in named_in("project").items()}
        problem = first["msg"].removeprefix("Value error, ").replace("Input should", "must")
        raise InvalidSettingError(f"{project_file()}: {keys[name]}" if name in in_file else name, problem) from None


def required(value: str | SecretStr | None, name: str, purpose: str) -> str:
    """Return the value of a required setting.

    Raises:
        SettingsError: It is not set.
    """
    if value is None:
        raise missing_setting(name, purpose)
    return value.get_secret_value() if isinstance(value, SecretStr) else value
