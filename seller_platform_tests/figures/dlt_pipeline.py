"""A pipeline of dlt, which `loading` runs in an environment of its own: the same lists, as Arrow tables and by ADBC.

It has neither slices, nor history, nor checks. Its arguments are the URL of the upstream, that of the database, the
name of a folder, and the first and last day of each month, separated by a colon; accounts have numbers from 1.
"""

import json
import os
import sys
from collections.abc import Iterator
from decimal import Decimal

import dlt  # type: ignore[import-not-found]  # it is no dependency of the project
import pyarrow as pa
import requests

_AMOUNT, _MOMENT = pa.decimal128(18, 2), pa.timestamp("us", "UTC")
SCHEMAS = {
    "orders": {
        "platform_order_id": pa.string(),
        "purchase_date": _MOMENT,
        "order_status": pa.string(),
        "order_total": _AMOUNT,
        "currency_code": pa.string(),
        "quantity_ordered": pa.int64(),
        "sku": pa.string(),
        "asin": pa.string(),
        "product_name": pa.string(),
    },
    "transactions": {
        "posted_date": _MOMENT,
        "transaction_type": pa.string(),
        "order_id": pa.string(),
        "sku": pa.string(),
        "description": pa.string(),
        "quantity": pa.int64(),
        "amount": _AMOUNT,
        "currency": pa.string(),
        "marketplace_name": pa.string(),
    },
}


def pages(session: requests.Session, url: str, name: str, account: int, days: tuple[str, str]) -> Iterator[pa.Table]:
    """Yield the pages of a list as tables."""
    number, last = 1, 1
    schema = {column: pa.string() if kind is _MOMENT else kind for column, kind in SCHEMAS[name].items()}
    while number <= last:
        params: dict[str, str | int] = {"id": account, "start_date": days[0], "end_date": days[1], "per_page": 2_000}
        answer = session.get(f"{url}/sales/{name}", params={**params, "page": number}, timeout=60)
        answer.raise_for_status()
        page = json.loads(answer.content, parse_float=Decimal)
        table = pa.Table.from_pylist(page["data"], pa.schema(schema)).cast(pa.schema(SCHEMAS[name]))
        yield table.append_column("account", pa.repeat(f"S{account}.BENCH", table.num_rows))
        number, last = number + 1, page["last_page"]


def main() -> None:
    """Load every list."""
    url, database, folder, accounts, *months = sys.argv[1:]
    # The socket of the URL is used, but dlt asks for a password and a host.
    os.environ["DESTINATION__POSTGRES__CREDENTIALS"] = database.replace("@/", ":none@localhost/")
    session = requests.Session()

    def rows(name: str) -> Iterator[pa.Table]:
        for account in range(1, int(accounts) + 1):
            for month in months:
                first, _, last = month.partition(":")
                yield from pages(session, url, name, account, (first, last))

    pipeline = dlt.pipeline("lists", destination="postgres", dataset_name="lists", pipelines_dir=folder)
    resources = [dlt.resource(rows(name), name=name, write_disposition="replace") for name in SCHEMAS]
    pipeline.run(resources, loader_file_format="parquet")


if __name__ == "__main__":
    main()
