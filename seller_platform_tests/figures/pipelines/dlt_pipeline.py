"""Loads the lists with dlt: as Arrow tables, by Parquet files and ADBC."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlt  # type: ignore[import-not-found]  # it is no dependency of the project
import orjson  # type: ignore[import-not-found]  # it comes with dlt
import pyarrow as pa
import requests

_ON_THE_WIRE = {"text": pa.string(), "timestamp": pa.string(), "integer": pa.int64(), "money": pa.float64()}
_STORED = {**_ON_THE_WIRE, "timestamp": pa.timestamp("us", "UTC"), "money": pa.decimal128(18, 2)}


def main() -> None:
    """Load every list, with the disposition that the second argument names: replace, or merge by slice."""
    job, disposition = json.loads(Path(sys.argv[1]).read_bytes()), sys.argv[2]
    # The socket of the URL is used, but dlt asks for a password and a host.
    os.environ["DESTINATION__POSTGRES__CREDENTIALS"] = job["database"].replace("@/", ":none@localhost/")
    session = requests.Session()

    def tables(name: str) -> Iterator[pa.Table]:
        for number, account in job["accounts"].items():
            for days in job["months"]:
                for table in _pages(session, job, name, number, days):
                    keyed = table.append_column("account", pa.repeat(account, table.num_rows))
                    yield keyed.append_column("month", pa.repeat(days[0], table.num_rows))

    pipeline = dlt.pipeline("lists", destination="postgres", dataset_name="lists", pipelines_dir=job["folder"])
    slices = {"merge_key": ["account", "month"]} if disposition == "merge" else {}
    resources = [
        dlt.resource(tables(name), name=name, write_disposition=disposition, **slices) for name in job["lists"]
    ]
    pipeline.run(resources, loader_file_format="parquet")


def _pages(
    session: requests.Session, job: dict[str, Any], name: str, number: str, days: list[str]
) -> Iterator[pa.Table]:
    """Yield the pages of a slice as tables."""
    columns, page, last = job["lists"][name]["columns"], 1, 1
    received = pa.schema({column: _ON_THE_WIRE[kind] for column, kind in columns.items()})
    stored = pa.schema({column: _STORED[kind] for column, kind in columns.items()})
    params = {"id": number, "start_date": days[0], "end_date": days[1], "per_page": job["per_page"]}
    while page <= last:
        answer = session.get(job["url"] + job["lists"][name]["path"], params={**params, "page": page}, timeout=60)
        answer.raise_for_status()
        content = orjson.loads(answer.content)
        yield pa.Table.from_pylist(content["data"], received).cast(stored)
        page, last = page + 1, content["last_page"]


if __name__ == "__main__":
    main()
