"""Compares the rows that a tool has stored with those of the upstream."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import psycopg
from psycopg import sql

from seller_platform.contract import Kind, dataset_named
from seller_platform_tests.figures.free_service import PER_PAGE
from seller_platform_tests.figures.pipelines.environments import Job

_AS_TEXT = {
    Kind.TEXT: "{}",
    Kind.INTEGER: "{}::bigint::text",
    Kind.MONEY: "round({}::numeric, 2)::text",
    Kind.TIMESTAMP: "to_char({}::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US')",
}
_STORED = "COPY (SELECT md5(concat_ws('|', {values})), md5(concat_ws('|', {key})), {amount} FROM {table}) TO STDOUT"
_NULL = "<null>"


@dataclass(frozen=True)
class Rows:
    """The rows of one list.

    Attributes:
        digests: How often each row occurs, by the digest of all its values.
        amount: The sum of its money.
        keys: A digest of all keys, of which those of equal rows are there as often as the rows. A list without a key
            has the rows themselves.
    """

    digests: Counter[str]
    amount: Decimal
    keys: str

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.digests.total()

    def different(self, stored: "Rows") -> int:
        """Return how many rows are missing in the stored ones, or occur only there."""
        return (self.digests - stored.digests).total() + (stored.digests - self.digests).total()


def upstream_rows(job: Job, name: str) -> Rows:
    """Read a list from the upstream with the JSON reader of the standard library."""
    dataset = dataset_named(name)
    kinds = {column.name: column.kind for column in dataset.columns}
    (money,) = (column for column, kind in kinds.items() if kind is Kind.MONEY)
    key = [column.name for column in dataset.columns if column.key] or list(kinds)

    def lines() -> Iterator[tuple[str, str, str]]:
        with httpx.Client(base_url=job.url) as client:
            for number, account in job.accounts.items():
                for row in _listed(client, dataset.path, number, job.days):
                    values = {column: _as_text(row[column], kind) for column, kind in kinds.items()}
                    whole, parts = ([account, *map(values.__getitem__, names)] for names in (kinds, key))
                    yield _digest(whole), _digest(parts), values[money]

    return _rows(lines())


def _listed(client: httpx.Client, path: str, number: str, months: list[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    for first, last in months:
        params: dict[str, str | int] = {"id": number, "start_date": first, "end_date": last, "per_page": PER_PAGE}
        page, pages = 1, 1
        while page <= pages:
            content = json.loads(client.get(path, params={**params, "page": page}).content, parse_float=Decimal)
            yield from content["data"]
            page, pages = page + 1, content["last_page"]


def _as_text(value: Any, kind: Kind) -> str:
    if value is None:
        return _NULL
    if kind is Kind.MONEY:
        return str(round(Decimal(value), 2) + 0)  # PostgreSQL has no negative zero
    if kind is Kind.TIMESTAMP:
        return datetime.fromisoformat(value).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return str(value)


def _digest(values: list[str]) -> str:
    return hashlib.md5("|".join(values).encode(), usedforsecurity=False).hexdigest()


def stored_rows(database_url: str, schema: str, name: str) -> Rows:
    """Read what a tool has stored. Its columns have the names of the API, and `account` has the account's key."""
    dataset = dataset_named(name)
    texts = {column.name: _text_of(column.name, column.kind) for column in dataset.columns}
    (money,) = (column.name for column in dataset.columns if column.kind is Kind.MONEY)
    key = [column.name for column in dataset.columns if column.key] or list(texts)
    account = sql.Identifier("account")
    query = sql.SQL(_STORED).format(
        values=sql.SQL(", ").join([account, *texts.values()]),
        key=sql.SQL(", ").join([account, *(texts[column] for column in key)]),
        amount=texts[money],
        table=sql.Identifier(schema, name),
    )
    with psycopg.connect(database_url) as connection, connection.cursor() as cursor, cursor.copy(query) as copy:
        return _rows((str(row[0]), str(row[1]), str(row[2])) for row in copy.rows())


def _text_of(column: str, kind: Kind) -> sql.Composed:
    text = sql.SQL(_AS_TEXT[kind]).format(sql.Identifier(column))
    return sql.SQL("coalesce({}, {})").format(text, sql.Literal(_NULL))


def _rows(lines: Iterator[tuple[str, str, str]]) -> Rows:
    digests: Counter[str] = Counter()
    keys, amount = [], Decimal(0)
    for digest, key, money in lines:
        digests[digest] += 1
        keys.append(key)
        if money != _NULL:
            amount += Decimal(money)
    return Rows(digests, amount, hashlib.sha256("".join(sorted(keys)).encode()).hexdigest())
