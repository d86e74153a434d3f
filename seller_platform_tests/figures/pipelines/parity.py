"""Compares the rows that a tool has stored with those of the upstream, in the tool's database."""

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import psycopg
from psycopg import sql

from seller_platform.contract import Kind, dataset_named
from seller_platform_tests.figures.free_service import PER_PAGE
from seller_platform_tests.figures.pipelines.environments import Job

_TYPES = {Kind.TEXT: "text", Kind.INTEGER: "bigint", Kind.MONEY: "numeric(18, 2)", Kind.TIMESTAMP: "timestamptz"}
_SEND = """
INSERT INTO sent ({names}, account)
SELECT {names}, %s FROM json_populate_recordset(NULL::sent, %s::json -> 'data') AS row
"""
_COMPARE = """
WITH stored AS (SELECT {values}, account::text FROM {table}),
     differing AS ((TABLE sent EXCEPT ALL TABLE stored) UNION ALL (TABLE stored EXCEPT ALL TABLE sent))
SELECT count(*), sum({money})::text, (SELECT count(*) FROM differing) FROM stored
"""


@dataclass(frozen=True)
class Stored:
    """What is stored of one list: its number of rows, and the sum of its money.

    Attributes:
        different: How many rows of the upstream are missing, or occur only here.
    """

    rows: int
    amount: str
    different: int


def compare(job: Job, schema: str, name: str) -> Stored:
    """Read a list from the upstream, and compare the stored rows with it by all values.

    The columns of the table have the names of the API, and `account` has the account's key.
    """
    dataset = dataset_named(name)
    typed = [(sql.Identifier(column.name), sql.SQL(_TYPES[column.kind])) for column in dataset.columns]
    names = sql.SQL(", ").join(column for column, _ in typed)
    (money,) = (column.name for column in dataset.columns if column.kind is Kind.MONEY)
    with psycopg.connect(job.database) as connection:
        connection.execute("SET TimeZone = 'UTC'")  # some tools store moments without their zone
        columns = sql.SQL(", ").join(sql.SQL("{} {}").format(*each) for each in typed)
        connection.execute(sql.SQL("CREATE TEMPORARY TABLE sent ({}, account text)").format(columns))
        for number, account in job.accounts.items():
            for page in _pages(job, dataset.path, number):
                connection.execute(sql.SQL(_SEND).format(names=names), (account, page))
        values = sql.SQL(", ").join(sql.SQL("{}::{}").format(*each) for each in typed)
        query = sql.SQL(_COMPARE).format(values=values, money=sql.Identifier(money), table=sql.Identifier(schema, name))
        return Stored(*connection.execute(query).fetchone() or ())


def _pages(job: Job, path: str, number: str) -> Iterator[str]:
    with httpx.Client(base_url=job.url) as client:
        for first, last in job.days:
            params: dict[str, str | int] = {"id": number, "start_date": first, "end_date": last, "per_page": PER_PAGE}
            page, pages = 1, 1
            while page <= pages:
                answer = client.get(path, params={**params, "page": page})
                yield answer.text
                page, pages = page + 1, answer.json()["last_page"]
