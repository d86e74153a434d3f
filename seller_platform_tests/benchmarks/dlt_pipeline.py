"""Loads the lists of `free_service` with dlt, as Arrow tables.

It is run as `PYTHON dlt_pipeline.py SERVICE DATABASE MONTHS ACCOUNTS`, in an environment with `dlt[postgres,parquet]`.
The pages of each list and account are requested in threads of their own, and copied into PostgreSQL as CSV.
"""

import importlib
import json
import sys
import tempfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

PATHS = {"orders": "/sales/orders", "transactions": "/sales/transactions"}
_PER_PAGE = 2000


def tables(base_url: str, path: str, account: dict[str, Any], months: list[tuple[str, str]]) -> Iterator[Any]:
    """Yield an Arrow table for each page of a list."""
    arrow = importlib.import_module("pyarrow")
    for start, end in months:
        page = last = 1
        while page <= last:
            asked = {"seller_id": account["seller_id"], "start_date": start, "end_date": end, "page": page}
            url = f"{base_url}{path}?{urlencode({**asked, 'per_page': _PER_PAGE})}"
            with urlopen(Request(url)) as response:  # the benchmark's own service
                envelope = json.load(response)
            last = envelope["last_page"]
            yield arrow.Table.from_pylist(envelope["data"])
            page += 1


def main() -> None:
    """Run the pipeline."""
    base_url, database_url, months, accounts = (
        sys.argv[1],
        sys.argv[2],
        json.loads(sys.argv[3]),
        json.loads(sys.argv[4]),
    )
    dlt = importlib.import_module("dlt")  # only that environment has it

    def resource(name: str, account: dict[str, Any]) -> Any:
        read = dlt.resource(tables, name=f"{name}_{account['id']}", table_name=name, parallelized=True)
        return read(base_url, PATHS[name], account, months)

    with tempfile.TemporaryDirectory() as folder:
        pipeline = dlt.pipeline(
            "benchmark",
            pipelines_dir=folder,
            destination=dlt.destinations.postgres(credentials=database_url),
            dataset_name="by_dlt",
        )
        pipeline.run([resource(name, account) for name in PATHS for account in accounts], loader_file_format="csv")


if __name__ == "__main__":
    main()
