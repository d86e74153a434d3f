"""Engines of other authors that read Delta tables."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import polars
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

Rows = list[tuple[Any, ...]]


(_DELTA,) = Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension")


def connect_duckdb() -> duckdb.DuckDBPyConnection:
    """Return a connection with the extension `delta`, which is loaded from its package and not downloaded."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    connection.load_extension(str(_DELTA))
    return connection


def install_duckdb_extension(home: Path) -> None:
    """Put the extension where `INSTALL delta` of a user stores it, so that nothing is downloaded."""
    with duckdb.connect() as connection:
        platform, version = connection.sql("SELECT platform, version() FROM pragma_platform()").fetchall()[0]
    folder = home / ".duckdb" / "extensions" / version / platform
    folder.mkdir(parents=True)
    shutil.copy(_DELTA, folder)


def read_by_engines(table: Path, columns: Sequence[str]) -> dict[str, Rows]:
    """Return the rows of the newest version as each engine reads them, in any order."""
    names, delta = ", ".join(columns), DeltaTable(table)
    query = QueryBuilder().register("exported", delta).execute(f"SELECT {names} FROM exported")
    with connect_duckdb() as connection:
        of_duckdb = connection.sql(f"SELECT {names} FROM delta_scan('{table}')").fetchall()
    return {
        "DuckDB": of_duckdb,
        "Polars": polars.scan_delta(str(table)).select(columns).collect().rows(),
        "pyarrow": _rows(delta.to_pyarrow_dataset().to_table(columns=list(columns))),
        "deltalake": _rows(pa.table(query.read_all())),
    }


def _rows(table: pa.Table) -> Rows:
    return [tuple(row.values()) for row in table.to_pylist()]
