"""Where a stored row came from: its load, its page and its request."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlencode

import msgspec
from sqlalchemy import ColumnElement, Connection, Text, and_, cast, func, literal, select, union_all
from sqlalchemy.exc import DataError

from seller_platform.contract import LOCAL_DAY, Account, Dataset, Slicing, Source, Window
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import RequestError, followed
from seller_platform.warehouse.connections.accounts import accounts_by_key, connections
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import GONE_LOAD_ID, LOADS, history_of, table_for

ROWS_AT_MOST = 20

_LOAD_ID, _PAGE = "load_id", "page"
_REPORT_ID, _SKU = "report_id", "sku"

_Row: TypeAlias = Mapping[Any, Any]


class Request(msgspec.Struct, frozen=True):
    """The request that brought a row, as it can be made again.

    Attributes:
        is_exact: Whether it asks for the page of the row; else for the days of that page.
    """

    url: str
    params: dict[str, str]
    is_exact: bool


class FormerVersion(msgspec.Struct, frozen=True):
    """A former version of a row.

    Attributes:
        load_id: The load that brought it.
        gone_load_id: The load that no longer listed it.
        differed: The values that are others now.
    """

    load_id: int
    gone_load_id: int
    row: dict[str, Any]
    differed: dict[str, Any]


class Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stored row, and where it came from.

    Attributes:
        extra: Fields that the contract does not know.
        local_day: Its day; null for an account.
        connection: For an account, the connection that lists it.
        page: The page that brought it, counted through the load.
        load: Null where its receipt was pruned.
        first_load_id: The load that first brought a row of this key.
        confirmed_load_ids: The loads that found the row as it was.
        confirmed_at: When the last of them ended.
        former_versions: The oldest first; none for a dataset without a key.
        history: Every load of its day, the oldest first.
        gone_load_id: The load that no longer listed it; null for a row that is stored.
    """

    row: dict[str, Any]
    extra: dict[str, Any] | None
    account: str
    local_day: date | None
    connection: str | None
    page: int
    load_id: int
    load: Receipt | None
    request: Request | None
    first_load_id: int
    confirmed_load_ids: list[int]
    confirmed_at: Annotated[datetime, msgspec.Meta(tz=True)] | None
    former_versions: list[FormerVersion]
    history: list[Receipt]
    gone_load_id: int | None


def conditions_of(dataset: Dataset, key: Sequence[str]) -> dict[str, str]:
    """Return the values of a row's key by column.

    A part `column=value` names its column; the others are values of the dataset's key columns, in their order. Key
    columns at the end may be left out.

    Raises:
        RequestError: There are more parts than key columns, or a column is named twice.
    """
    columns = _columns(dataset)
    conditions: dict[str, str] = {}
    unnamed = list(dataset.key)
    for part in key:
        name, equals, value = part.partition("=")
        if not (equals and name in columns):
            if not unnamed:
                raise _invalid_key(dataset, f"{part!r} is of no key column")
            name, value = unnamed.pop(0), part
        if name in conditions:
            raise _invalid_key(dataset, f"{name} is given twice")
        conditions[name] = value
    return conditions


def _invalid_key(dataset: Dataset, problem: str) -> RequestError:
    """Return the error of a key that does not identify a row of a dataset."""
    keyed = f"the values of {', '.join(dataset.key)} in this order, or " if dataset.key else ""
    give = f"Give {keyed}column=value with one of {', '.join(_columns(dataset))}"
    return RequestError(followed(f"{dataset.name}: {problem}", give), code="InvalidRowKeyError")


def explain(
    database: Database, dataset: Dataset, conditions: Mapping[str, str], *, account: str | None = None
) -> tuple[int, tuple[Provenance, ...]]:
    """Return how many stored rows meet the conditions, and the origin of the first ones.

    The conditions are values by column, spelled as PostgreSQL reads them. Of snapshots only each account's newest
    counts, unless a condition names a day or a load.

    Raises:
        RequestError: A value cannot be one of its column, or no stored row meets them.
    """
    columns, other = table_for(dataset).c, table_for(dataset).alias().c
    met = [columns[name] == cast(literal(value, Text()), columns[name].type) for name, value in conditions.items()]
    if account is not None:
        met.append(columns.account == account)
    if dataset.keeps_snapshots and not {LOCAL_DAY, _LOAD_ID} & set(conditions):
        newest = select(func.max(other[LOCAL_DAY])).where(other.account == columns.account)
        met.append(columns[LOCAL_DAY] == newest.scalar_subquery())
    try:
        count, origins = explained(database, dataset, and_(*met))
    except DataError as error:
        raise _invalid_key(dataset, str(error.orig).partition("\n")[0]) from None
    if not origins:
        named = " and ".join(f"{name} = {value!r}" for name, value in conditions.items())
        of = f" of {account}" if account else ""
        raise RequestError(
            f"{dataset.name} has no stored row{of} with {named}",
            code="RowNotFoundError",
            step="Look with `seller-platform status` whether its days were loaded.",
        )
    return count, origins


def explained(
    database: Database, dataset: Dataset, condition: ColumnElement[bool], limit: int = ROWS_AT_MOST
) -> tuple[int, tuple[Provenance, ...]]:
    """Return how many stored rows meet a condition, and the origin of the first ones."""
    table = table_for(dataset)
    order = [table.c.account, *(table.c[name] for name in (*dataset.order, _LOAD_ID, _PAGE))]
    with database.begin() as connection:
        count = connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one()
        rows = connection.execute(select(table).where(condition).order_by(*order).limit(limit)).mappings().all()
    return count, origins_of(database, dataset, rows)


def origins_of(database: Database, dataset: Dataset, rows: Collection[_Row]) -> tuple[Provenance, ...]:
    """Return where rows came from: whole ones of schema `seller` or `history`, in UTC."""
    owners = accounts_by_key(database, {row["account"] for row in rows})
    urls = {each.name: each.base_url for each in connections(database)}
    with database.begin() as connection:
        read_by = ((row, owners[row["account"]]) for row in rows)
        return tuple(_provenance(connection, dataset, row, own.account, urls[own.connection]) for row, own in read_by)


def _columns(dataset: Dataset) -> tuple[str, ...]:
    return (*(column.name for column in (*dataset.columns, *dataset.tags)), dataset.slice_column, _LOAD_ID, _PAGE)


def _history(connection: Connection, dataset: Dataset, row: _Row) -> list[Receipt]:
    statement = select(LOADS).where(LOADS.c.dataset == dataset.name)
    if dataset.slicing is Slicing.CONNECTION:
        statement = statement.where(LOADS.c.account == row[dataset.slice_column])
    else:
        of_day = (LOADS.c.window_start <= row[LOCAL_DAY], LOADS.c.window_end > row[LOCAL_DAY])
        statement = statement.where(LOADS.c.account == row["account"], *of_day)
    if dataset.source is Source.REPORT:
        statement = statement.where(LOADS.c.notes[_REPORT_ID].astext == row[_REPORT_ID])
    return [Receipt.of(row) for row in connection.execute(statement.order_by(LOADS.c.id)).mappings()]


def _former(connection: Connection, dataset: Dataset, row: _Row) -> list[FormerVersion]:
    if not dataset.key:
        return []
    table = history_of(dataset)
    key = (*dataset.key, *(tag.name for tag in dataset.tags))
    same = [table.c.account == row["account"], *(table.c[name].is_not_distinct_from(row[name]) for name in key)]
    if dataset.keeps_snapshots:
        same.append(table.c[LOCAL_DAY] == row[LOCAL_DAY])
    versions = connection.execute(select(table).where(*same).order_by(table.c.gone_load_id, table.c.load_id)).mappings()
    names = [column.name for column in (*dataset.columns, *dataset.tags)]
    return [
        FormerVersion(
            each[_LOAD_ID],
            each[GONE_LOAD_ID],
            {name: each[name] for name in names},
            {name: each[name] for name in names if each[name] != row[name]},
        )
        for each in versions
    ]


def _provenance(connection: Connection, dataset: Dataset, row: _Row, account: Account, base_url: str) -> Provenance:
    load_id, gone, history = row[_LOAD_ID], row.get(GONE_LOAD_ID), _history(connection, dataset, row)
    load = next((each for each in history if each.id == load_id), None)
    request = None
    if load is not None:
        params, is_exact = _request(connection, dataset, row, account, load)
        request = Request(f"{base_url}{dataset.path}?{urlencode(params)}".rstrip("?"), dict(params), is_exact)
    former = _former(connection, dataset, row)
    later = (each for each in history if each.id > load_id and (gone is None or each.id < gone))
    # Each later load of the day found the row as it was; a revert reads nothing.
    read = (each for each in later if "reverts_load" not in (each.notes or {}))
    confirmed = [each for each in read if each.verdict is not CountVerdict.HELD]
    return Provenance(
        row={column.name: row[column.name] for column in (*dataset.columns, *dataset.tags)},
        extra=row["extra"],
        account=row["account"],
        local_day=row.get(LOCAL_DAY),
        connection=row.get("connection"),
        page=row[_PAGE],
        load_id=load_id,
        load=load,
        request=request,
        first_load_id=min([load_id, *(version.load_id for version in former)]),
        confirmed_load_ids=[each.id for each in confirmed],
        confirmed_at=confirmed[-1].finished_at if confirmed else None,
        former_versions=former,
        history=history,
        gone_load_id=gone,
    )


def _request(
    connection: Connection, dataset: Dataset, row: _Row, account: Account, receipt: Receipt
) -> tuple[Mapping[str, str], bool]:
    """Return the parameters of the request that brought a row, and whether it asks for the row's page.

    A load counts its pages through all of its lists; each list counts its own from 1.
    """
    match dataset.source:
        case Source.DISCOVERY:
            return {}, True
        case Source.REPORT:
            return {**account.selection, _REPORT_ID: row[_REPORT_ID]}, True
        case Source.PRODUCT_LOOKUP:
            return {**account.selection, _SKU: row[_SKU]}, True
    # Rows of the load may be gone since.
    shared = [column.name for column in table_for(dataset).c]
    tables = (select(*(table.c[name] for name in shared)) for table in (table_for(dataset), history_of(dataset)))
    columns, value = union_all(*tables).subquery().c, None
    same_list = and_(columns.account == row["account"], columns.load_id == row[_LOAD_ID])
    if dataset.split_by and dataset.split_by.column:
        value = row[dataset.split_by.column]
        same_list = and_(same_list, columns[dataset.split_by.column].is_not_distinct_from(value))
    if dataset.is_dated:  # the indexes are by day
        day, window = columns[LOCAL_DAY], receipt.window
        same_list = and_(same_list, day >= window.start, day < window.end)
    pages = select(func.min(columns.page), func.max(columns.page)).where(same_list)
    first_page, last_page = connection.execute(pages).one()
    # A list of days that does not fit a page may have been read in smaller windows, each with a page 1 of its own.
    is_exact = first_page == last_page or not dataset.is_divisible
    window, number = receipt.window, row[_PAGE] - first_page + 1
    if not is_exact:
        day = columns[LOCAL_DAY]
        days = select(func.min(day), func.max(day)).where(same_list, columns.page == row[_PAGE])
        start, last_day = connection.execute(days).one()
        window, number = Window(start, Window.day(last_day).end), 1
    return ListQuery(dataset, account, window if dataset.is_dated else None, value, number).params, is_exact
