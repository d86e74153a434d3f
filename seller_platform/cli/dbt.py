"""`seller-platform docs --dbt`: writes sources and staging views for a dbt project.

The sources are the tables of the schemas `seller` and `marts`, with their descriptions and constraints, and with the
keys and the freshness of their assets. A staging view has the columns of a list, and a column for each field that was
seen in `extra`.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from psycopg import sql
from sqlalchemy import Connection, Table

from seller_platform.contract import DATASETS, Dataset
from seller_platform.counts import count_of
from seller_platform.errors import RequestError
from seller_platform.files import make_folders, write_atomically
from seller_platform.orchestration.assets.events import late_after, table_schema
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.tables import ACCOUNT
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.readers.relations import SOURCES
from seller_platform.warehouse.schema.creation import schemas
from seller_platform.warehouse.schema.tables import ROW_HASH, SELLER, declared, table_for

_WRITTEN = "Written by `seller-platform docs --dbt FOLDER`, which replaces it; change nothing here."
_INTERNAL = ("extra", "page", ROW_HASH)
_KINDS = {"number": "numeric", "boolean": "boolean", "string": "text"}
# dbt renders what stands in braces. PostgreSQL's names have at most 63 bytes.
_FIELD = re.compile(r"[\w .:/-]+")
_LONGEST = 50
_SEEN = sql.SQL("""
SELECT field.key, array_agg(DISTINCT jsonb_typeof(field.value))
FROM {}, jsonb_each(extra) AS field
WHERE jsonb_typeof(extra) = 'object' AND jsonb_typeof(field.value) <> 'null'
GROUP BY 1 ORDER BY 1
""")


def write_dbt_files(connection: Connection, folder: Path) -> list[Path]:
    """Write `sources.yml` and a view for each list into a folder of models of a dbt project (dbt 1.10 or newer).

    Raises:
        RequestError: A file of such a name exists that was not written so. Nothing was written.
    """
    files = {folder / name: f"{mark} {_WRITTEN}\n{text}" for name, mark, text in _files(connection)}
    for file in files:
        if file.exists() and _WRITTEN not in file.read_text(encoding="utf-8", errors="replace").partition("\n")[0]:
            step = "choose another folder, or remove it"
            raise RequestError(f"{file} is not of `docs --dbt`, and stays as it is; {step}")
    make_folders(folder, 0o777)
    for file, text in files.items():
        write_atomically(file, text.encode(), 0o666)
    return [*files]


def _files(connection: Connection) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each file, how its comments begin, and its text."""
    sources: defaultdict[str, list[Any]] = defaultdict(list)
    for source in SOURCES:
        schema, name = source.table.split(".")
        key = (ACCOUNT, *source.key) if isinstance(source, Mart) else ()
        described = _source(declared().tables[source.table], [schema, name], key)
        if isinstance(source, Dataset) and (ages := late_after(source)):
            described["config"] |= _freshness(name, ages)
        sources[schema].append(described)
    written = [
        {"name": schema, "schema": schema, "description": schemas()[schema], "tables": tables}
        for schema, tables in sources.items()
    ]
    text = yaml.safe_dump({"version": 2, "sources": written}, sort_keys=False, allow_unicode=True, width=120)
    yield "sources.yml", "#", text
    for dataset in DATASETS:
        yield f"stg_seller__{dataset.name}.sql", "--", _view(connection, dataset)


def _source(table: Table, asset_key: list[str], key: Sequence[str]) -> dict[str, Any]:
    """Return a table as a source, with tests of its key, if it has one, and of the columns that are never null."""
    unique = {"name": f"{table.name}_key", "arguments": {"column_name": f"row({', '.join(key)})::text"}}
    return {
        "name": str(table.name),
        "description": table.comment,
        "config": {"meta": {"dagster": {"asset_key": asset_key}}},
        **({"data_tests": [{"unique": unique}]} if key else {}),
        "columns": [
            {
                "name": str(column.name),
                "description": column.description,
                "data_type": column.type,
                **({} if column.constraints.nullable else {"data_tests": ["not_null"]}),
            }
            for column in table_schema(table).columns
        ],
    }


def _freshness(dataset: str, ages: tuple[timedelta, timedelta]) -> dict[str, Any]:
    """Return when the rows of a list are late: as the asset's freshness policy says."""
    periods = ({"count": age // timedelta(hours=1), "period": "hour"} for age in ages)
    newest = sql.SQL("SELECT max(finished_at) FROM platform.published_loads WHERE dataset = {}")
    return {
        "loaded_at_query": newest.format(sql.Literal(dataset)).as_string(),
        "freshness": dict(zip(("warn_after", "error_after"), periods, strict=True)),
    }


def _view(connection: Connection, dataset: Dataset) -> str:
    """Return the view of a list; a field is null in it where a row has another type than the rows before."""
    own = [column.name for column in table_for(dataset).columns]
    columns = [sql.Identifier(name).as_string() for name in own if name not in _INTERNAL]
    left = 0
    for field, kinds in driver_of(connection).execute(_SEEN.format(sql.Identifier(SELLER, dataset.name))):
        if not _FIELD.fullmatch(field) or len(field.encode()) > _LONGEST:
            left += 1
            continue
        key = sql.Literal(field).as_string()
        value = f"extra -> {key}"
        if len(kinds) == 1 and (kind := _KINDS.get(kinds[0])):
            value = f"CASE jsonb_typeof({value}) WHEN '{kinds[0]}' THEN (extra ->> {key})::{kind} END"
        name = f"extra_{field}" if field in own else field
        columns.append(f"{value} AS {sql.Identifier(name).as_string()}")
    note = f"-- {count_of(left, 'field', 'has')} an unusual or long name: in the column extra of the table alone.\n"
    listed = ",\n    ".join(columns)
    return f"{note if left else ''}SELECT\n    {listed}\nFROM {{{{ source('{SELLER}', '{dataset.name}') }}}}\n"
