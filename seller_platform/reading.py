"""Reads stored rows in Python: the function `read`.

It reads the tables of the lists, and the marts:

    import seller_platform

    orders = seller_platform.read("orders", account="North Pine US", month="2026-10")
    profit = seller_platform.read("marts.account_profit_daily", month="2026-01:2026-03", amounts="float")
    stock = seller_platform.read("inventory", account=["us-1042", "ca-1042"], as_="arrow")

Reading creates no home folder and no database, and it migrates neither.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, Unpack, overload

from pydantic import SecretStr

from seller_platform.clocks import utc_now
from seller_platform.contract import Kind, Window
from seller_platform.contract.window import read_month
from seller_platform.errors import NotLoadedError, RequestError, WarehouseError, did_you_mean, followed
from seller_platform.settings import Settings, read_settings
from seller_platform.warehouse.connections.accounts import account_named, accounts, accounts_by_key
from seller_platform.warehouse.migrations.pending import version_of
from seller_platform.warehouse.monitoring.metrics import evidence
from seller_platform.warehouse.monitoring.problems import slice_problems
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import nothing_stored, stored_warehouse_url
from seller_platform.warehouse.readers.loaded import loaded_accounts, require_loaded
from seller_platform.warehouse.readers.relations import ACCOUNT, Relation, Selection, relation_of, source_named

if TYPE_CHECKING:  # they take half a second to import, and only one of them is returned
    import pandas as pd
    import pyarrow as pa

Accounts: TypeAlias = str | Sequence[str] | None
Amounts: TypeAlias = Literal["decimal", "float"]


class MixedCurrenciesWarning(UserWarning):
    """Amounts of several currencies were read together; their sum would be of none."""


_CURRENCY = "currency"
_FORMS = ("pandas", "arrow")
_AMOUNTS = ("decimal", "float")
_ALL = "all"
_FIRST_ZONE = timedelta(hours=14)
"""How much earlier than in UTC a day begins where it begins first."""


class _Choice(TypedDict, total=False):
    """The arguments of `read` that do not decide what it returns."""

    account: Accounts
    month: str | None
    day: str | date | None
    as_of: str | datetime | None
    amounts: Amounts
    database_url: str | None
    home: str | Path | None


@overload
def read(name: str, *, as_: Literal["pandas"] = "pandas", **choice: Unpack[_Choice]) -> "pd.DataFrame": ...
@overload
def read(name: str, *, as_: Literal["arrow"], **choice: Unpack[_Choice]) -> "pa.Table": ...
def read(
    name: str,
    *,
    account: Accounts = None,
    month: str | None = None,
    day: str | date | None = None,
    as_of: str | datetime | None = None,
    as_: Literal["pandas", "arrow"] = "pandas",
    amounts: Amounts = "decimal",
    database_url: str | None = None,
    home: str | Path | None = None,
) -> "pd.DataFrame | pa.Table":
    """Return the stored rows of a table, by account and then as the API lists them.

    The columns and their types are always the same, also without rows. The account key comes first, then the row's
    local day. Timestamps are in UTC. In a DataFrame, text is `string`, integers are `Int64`, dates `datetime64[s]`,
    `attrs["currencies"]` lists the currencies of its amounts, `attrs["problems"]` says what is wrong with the slices
    that were read, and `attrs["sample"]` how many of all slices differ from the upstream at most, as far as random
    comparisons show.

    Amounts of several currencies cause a `MixedCurrenciesWarning`, which a DataFrame keeps as `attrs["warning"]`. The
    first column is then `currency`, that of the row's amounts.

    Args:
        name: The table, such as `orders`, `accounts` or `marts.account_profit_daily`.
        account: The key, the title or `<seller_id>.<marketplace>` of an account, or a list of them. None or "all"
            stands for every account of which the table was ever loaded.
        month: A month as "2026-10", or the first and the last one as "2026-01:2026-03". None or "all" stands for every
            month that is stored, and of a table that keeps snapshots for the newest snapshot.
        day: A single local day, as "2026-10-31" or a date; of a table that keeps snapshots, the day of the snapshot.
        as_of: Read the rows as they were stored at this moment. Without an offset it is in UTC.
        as_: "pandas" returns a DataFrame, "arrow" a `pyarrow.Table`.
        amounts: "decimal" returns money and numbers exactly as they were sent: as `Decimal`, in Arrow as decimals of
            fixed scale. "float" returns doubles.
        database_url: The `postgresql://` URL of the warehouse; by default that of the settings.
        home: The home folder whose embedded server has the warehouse; by default that of the settings.

    Raises:
        RequestError: Several accounts have the name.
        RequestError: The home folder has no database.
        NotLoadedError: A month was never loaded or built; the message has the command that loads it. Or it was not
            yet loaded at `as_of`; the message has the moment of its first load.
        RequestError: An argument does not fit the table.
        UnknownAccountError: No account has that key or title.
        RequestError: There is no such table.
    """
    _require("as_", as_, _FORMS)
    _require("amounts", amounts, _AMOUNTS)
    relation = replace(relation_of(source_named(name)), as_of=_moment(as_of))
    if relation.is_mart and as_of is not None:
        raise RequestError(
            f"{relation.table} keeps no former rows. Leave as_of out, or read the lists it is built from"
        )
    window, settings = _window(relation, month, day), _settings(database_url, home)
    with open_stored(settings) as database, _explained(window, settings, is_named=home is not None):
        parts = _parts(database, relation, account, window)
        import pyarrow as pa  # it takes a while, as the next one does

        from seller_platform.warehouse.readers.arrow import read_arrow, read_floats, read_frames

        if as_ == "arrow":
            table = (read_floats if amounts == "float" else read_arrow)(database, relation, parts)
            codes = _currencies(database, relation, table[relation.currency].unique().to_pylist())
            if _warning(relation, codes) is None:
                return table
            currencies = [codes.get(value) for value in table[relation.currency].to_pylist()]
            others = table.select([name for name in table.column_names if name != _CURRENCY])
            return others.add_column(0, _CURRENCY, pa.array(currencies, pa.string()))
        frame = read_frames(database, relation, parts, as_floats=amounts == "float")
        codes = _currencies(database, relation, frame[relation.currency].dropna().unique())
        warning = _warning(relation, codes)
        if warning is not None:
            of_rows = frame[relation.currency].map(codes).astype("string")
            frame = frame.drop(columns=_CURRENCY, errors="ignore")
            frame.insert(0, _CURRENCY, of_rows)
            frame.attrs["warning"] = warning
        frame.attrs["currencies"] = sorted(set(codes.values()))
        unsound = slice_problems(
            database,
            [relation.table.removeprefix("seller.")],
            accounts=None if parts is None else [part.account for part in parts],
            months=None if window is None else [Window.month_of(each.start).start for each in window.months()],
        )
        frame.attrs["problems"] = [f"{each.subject}: {each.sentence}" for each in unsound]
        frame.attrs["sample"] = evidence(database, utc_now()).sentence
        return frame


def _currencies(database: Database, relation: Relation, values: Iterable[str | None]) -> dict[str, str]:
    """Return the currency of the amounts of each row, by the value in the relation's column of currencies."""
    if not any(column.kind is Kind.MONEY for column in relation.own):
        return {}
    keys = [value for value in values if value is not None]
    if relation.currency != ACCOUNT:
        return dict(zip(keys, keys, strict=True))
    known = accounts_by_key(database, keys).values()
    return {each.key: each.account.currency_code for each in known if each.account.currency_code}


def _warning(relation: Relation, codes: Mapping[str, str]) -> str | None:
    """Warn where the amounts are of several currencies, and return the sentence."""
    if len(set(codes.values())) < 2:
        return None
    text = (
        f"{relation.table} has amounts in {', '.join(sorted(set(codes.values())))}: group by `{_CURRENCY}`, "
        "the first column, before you add them"
    )
    warnings.warn(text, MixedCurrenciesWarning, stacklevel=3)
    return text


def _require(argument: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        words = " or ".join(f'"{each}"' for each in allowed)
        raise RequestError(f"{argument} is {value!r}{did_you_mean(str(value), allowed)}; it must be {words}")


def _moment(as_of: str | datetime | None) -> datetime | None:
    if as_of is None:
        return None
    try:
        moment = as_of if isinstance(as_of, datetime) else datetime.fromisoformat(as_of)
    except (TypeError, ValueError):
        raise RequestError(f"as_of is {as_of!r}, which is not a moment; write it as 2026-03-01T06:00+01:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _window(relation: Relation, month: str | None, day: str | date | None) -> Window | None:
    """Return the local days that are asked for.

    Raises:
        RequestError: They are not written as days or months, or the table has none.
    """
    month = None if month == _ALL else month
    if month is None and day is None:
        return None
    if relation.day is None:
        rows = "one row for each account" if not relation.has_account_parts else "the rows of an account as a whole"
        raise RequestError(f"{relation.table} has {rows}, and no days. Leave month and day out")
    if month is not None and day is not None:
        raise RequestError(f"month is {month!r} and day is {day!r}; give one of them")
    try:
        if day is not None:
            return Window.day(day if isinstance(day, date) else date.fromisoformat(day))
        first, colon, last = str(month).partition(":")
        start, end = read_month(first), Window.month_of(read_month(last if colon else first)).end
    except (TypeError, ValueError) as error:
        example = "day as 2026-10-31" if day is not None else "month as 2026-10, or months as 2026-01:2026-03"
        raise RequestError(followed(str(error), f"Write a {example}")) from None
    if end <= start:
        raise RequestError(f"month is {month!r}, whose first month comes after the last. Write the earlier one first")
    return Window(start, end)


@contextmanager
def open_stored(settings: Settings) -> Iterator[Database]:
    """Open the warehouse for reading, and close its connections at the end. Nothing is created or migrated.

    Raises:
        RequestError: There is no database, or it has no tables of Seller Platform.
        WarehouseError: An older version of this program made the database.
        WarehouseError: Another version made it.
    """
    with Database(stored_warehouse_url(settings), connections=1) as database:
        if (version := version_of(database)) is None:
            raise nothing_stored(settings)
        if version.lacks_migrations:
            raise WarehouseError(
                f"the database is at schema version {version.revision}, and this program reads a newer one",
                code="OutdatedSchemaError",
                step="Run `seller-platform migrate`: reading alone does not change a database.",
            )
        yield database


@contextmanager
def _explained(window: Window | None, settings: Settings, *, is_named: bool) -> Iterator[None]:
    """Let a refusal say which days are in the future, and name the command for the home folder that is read.

    Args:
        is_named: Whether the caller names the home folder.

    Raises:
        NotLoadedError: The rows were never loaded.
        RequestError: The last month or day has not begun.
    """
    try:
        yield
    except NotLoadedError as error:
        if window is not None:
            today = (utc_now() + _FIRST_ZONE).date()  # the day that has begun in some zone
            is_day = window.days == 1
            form, begin = ("%Y-%m-%d", window.start) if is_day else ("%Y-%m", window.last_day.replace(day=1))
            if begin > today:
                problem = f"{begin:{form}} has not begun; the last that can be read is {today:{form}}"
                raise RequestError(problem) from None
        if is_named or settings.demo:
            start = f"`SELLER_PLATFORM_HOME={quote(str(settings.home))} seller-platform "
            error.args = (str(error).replace("`seller-platform ", start),)
        raise


def _settings(database_url: str | None, home: str | Path | None) -> Settings:
    if database_url is not None and home is not None:
        raise RequestError("database_url and home name two warehouses; give one of them")
    settings = read_settings()
    if database_url is not None:
        return settings.model_copy(update={"database_url": SecretStr(database_url)})
    if home is not None:
        if not str(home):
            raise RequestError("home is empty; name a folder, or leave it out to read that of the settings")
        return settings.model_copy(update={"database_url": None, "home": Path(home).expanduser().absolute()})
    return settings


def _parts(
    database: Database, relation: Relation, account: Accounts, window: Window | None
) -> Sequence[Selection] | None:
    """Return the parts that are asked for; None for all rows of every account."""
    names = [account] if isinstance(account, str) else account
    if names is not None and not (isinstance(names, Sequence) and all(isinstance(name, str) for name in names)):
        raise RequestError(f"account is {account!r}; write a key, a title, or a list of them")
    is_every = names is None or list(names) == [_ALL]
    if not relation.has_account_parts:
        if not is_every:
            raise RequestError(f"{relation.table} has one row for each account. Leave account out, and choose the rows")
        return None
    if not is_every:
        if not names:
            raise RequestError("account is an empty list; leave it out to read every account")
        return [Selection(account_named(database, name).key, window) for name in names]
    if window is None:
        return None
    loaded, listed = loaded_accounts(database, relation), {each.key for each in accounts(database)}
    parts = [part for key in loaded for part in _stored_parts(database, relation, key, window, is_listed=key in listed)]
    if not parts:
        months = (window.start, window.last_day) if relation.is_monthly else None
        raise NotLoadedError(relation.table, relation.name, months=months)
    return parts


def _stored_parts(
    database: Database, relation: Relation, account: str, window: Window, *, is_listed: bool
) -> Iterator[Selection]:
    """Yield the part of an account; of a retired account only the months that were loaded."""
    if is_listed:
        yield Selection(account, window)
        return
    for month in window.months():
        part = Selection(account, month)
        try:
            require_loaded(database, relation, [part])
        except NotLoadedError:
            continue
        yield part
