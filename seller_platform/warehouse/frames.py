"""Reading back: stored rows as pandas DataFrames."""

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from sqlalchemy import select

from seller_platform.contract import Dataset, Kind, Slicing, Window
from seller_platform.errors import RequestError
from seller_platform.warehouse.accounts import account_of
from seller_platform.warehouse.database import Database
from seller_platform.warehouse.tables import LOCAL_DAY, table_for

if TYPE_CHECKING:  # pandas takes half a second to import, and most processes never read a frame
    import pandas as pd

_DTYPES = {
    Kind.TEXT: "string",
    Kind.INTEGER: "Int64",
    Kind.BOOLEAN: "boolean",
    Kind.DATE: "datetime64[s]",
}


def read_frame(database: Database, dataset: Dataset, account: str, window: Window | None = None) -> "pd.DataFrame":
    """Return an account's rows, ordered as the API lists them, with one column per column of the contract.

    Text is `string`, integers `Int64`, booleans `boolean`, dates `datetime64[s]` without a zone, timestamps
    `datetime64[us, <the account's zone>]`; money and numbers are `object` columns of `Decimal`, exact as sent;
    nulls are `<NA>`, `NaT` and None.

    Args:
        window: The local days wanted. Without one: every day of a dated dataset, the newest snapshot of another.

    Raises:
        RequestError: The dataset has no rows by account.
        UnknownAccountError: No account has that key.
    """
    import pandas as pd

    if dataset.slicing is Slicing.CONNECTION:
        raise RequestError(f"{dataset.name} has no rows by account; read the table {dataset.table}")
    zone = account_of(database, account).account.timezone
    columns = [*dataset.columns, *dataset.tags]
    table = table_for(dataset)
    day = table.c[LOCAL_DAY]
    statement = select(*(table.c[column.name] for column in columns)).where(table.c.account == account)
    if window is not None:
        statement = statement.where(day >= window.start, day < window.end)
    elif not dataset.is_dated:
        newest = table.alias()
        latest = select(newest.c[LOCAL_DAY]).where(newest.c.account == account).order_by(newest.c[LOCAL_DAY].desc())
        statement = statement.where(day == latest.limit(1).scalar_subquery())
    with database.begin() as connection:
        rows = connection.execute(statement.order_by(*(table.c[name] for name in dataset.order))).tuples().all()
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    frame = {}
    for column, found in zip(columns, values, strict=True):
        if column.kind is Kind.TIMESTAMP:
            stamps = pd.Series(pd.to_datetime(list(found), utc=True), dtype="datetime64[us, UTC]")
            frame[column.name] = stamps.dt.tz_convert(ZoneInfo(zone))
        else:
            frame[column.name] = pd.Series(list(found), dtype=_DTYPES.get(column.kind, "object"))
    return pd.DataFrame(frame)
