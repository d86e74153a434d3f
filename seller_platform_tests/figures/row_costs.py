"""Measures the CPU of one row on its way through the loader: first, unchanged, corrected, and beside COPY.

Each month of orders and of transactions is loaded from an upstream in memory, then loaded again unchanged, then with
one of a hundred stored rows differing, and its rows are copied by COPY alone. The CPU is that of this process and of
its PostgreSQL backends, in microseconds a row.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg

from seller_platform.client.decoding.pages import PageDecoder
from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.ingest.loads import slices
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.slices import Load
from seller_platform.warehouse.loads.spool import Spool
from seller_platform.warehouse.postgres.database import conninfo
from seller_platform_tests.figures.free_service import (
    ZONE,
    connected,
    free_service,
    months,
    order_rows,
    transaction_rows,
)
from seller_platform_tests.figures.results import Samples
from seller_platform_tests.support.installation import temporary_server

MADE: Mapping[str, Callable[[Window, int], list[str]]] = {"orders": order_rows, "transactions": transaction_rows}
_PAGE = 1_600


def _bodies(rows: list[str]) -> Iterator[bytes]:
    for first in range(0, len(rows), _PAGE):
        page = rows[first : first + _PAGE]
        yield f'{{"current_page":1,"data":[{",".join(page)}],"total":{len(page)},"per_page":2000}}'.encode()


def decode_and_write(dataset: Dataset, month: Window, rows: list[str]) -> tuple[float, float]:
    """Return the seconds of decoding pages, and of writing their rows to a spool."""
    spool, decoder = Spool("a slice", dataset, "S1.BENCH", 1), PageDecoder(dataset, ZONE, month.start)
    tags, decoding, writing = ("platform",) * len(dataset.tags), 0.0, 0.0
    for body in _bodies(rows):
        started = time.process_time()
        page = decoder.decode(body, month)
        decoded = time.process_time()
        spool.write(page.rows, tags=tags, extras=page.extras, page=1)
        decoding, writing = decoding + decoded - started, writing + time.process_time() - decoded
    spool.close()
    return decoding, writing


def _backends_seconds(watch: psycopg.Connection) -> float:
    """Return the CPU time of the other backends of the database, which Linux counts in nanoseconds."""
    pids = watch.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    ).fetchall()
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for (pid,) in pids) / 1e9


def copy_alone(watch: psycopg.Connection, dataset: Dataset, month: Window) -> float:
    """Return the CPU seconds of this backend for a COPY of the rows of a month into an empty table."""
    own = Path(f"/proc/{watch.info.backend_pid}/schedstat")
    with watch.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS copied; CREATE TABLE copied (LIKE {dataset.table} INCLUDING ALL)")
        inside = f"SELECT * FROM {dataset.table} WHERE local_day >= '{month.start}' AND local_day < '{month.end}'"
        with cursor.copy(f"COPY ({inside}) TO STDOUT") as copy:
            block = b"".join(bytes(chunk) for chunk in copy)
        before = int(own.read_text().split()[0])
        with cursor.copy("COPY copied FROM STDIN") as copy:
            copy.write(block)
        return (int(own.read_text().split()[0]) - before) / 1e9


def correct(watch: psycopg.Connection, dataset: Dataset, month: Window) -> None:
    """Let one of a hundred stored rows of a month differ from what is read next."""
    amount, inside = dataset.money[0].name, f"local_day >= '{month.start}' AND local_day < '{month.end}'"
    watch.execute(
        f"UPDATE {dataset.table} SET {amount} = {amount} + 1, row_hash = gen_random_uuid() "
        f"WHERE {inside} AND hashtext(row_hash::text) % 100 = 0"
    )
    watch.execute("UPDATE platform.loads SET digest = '' WHERE dataset = %s", [dataset.name])


@contextmanager
def judgement(watch: psycopg.Connection) -> Iterator[list[float]]:
    """Yield a list, and add to it the seconds of each part of the judgement of readings."""
    seconds: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **options: Any) -> Any:
            before = _backends_seconds(watch) + time.process_time()
            result = function(*values, **options)
            seconds.append(time.process_time() + _backends_seconds(watch) - before)
            return result

        return call

    parts = ((slices, "_settled_days"), (Load, "_judged"))
    with patch.object(*parts[0], timed(slices._settled_days)), patch.object(*parts[1], timed(Load._judged)):
        yield seconds


def measure(*, rows: int = 20_000, months_of_each: int = 5) -> Samples:
    """Options: rows of a month, and months, of which the medians are printed."""
    samples = Samples("Microseconds of CPU a row")
    with free_service(1, months_of_each, rows) as url, temporary_server() as (server, home):
        site = connected(server, home, "costs", url)
        with site.open() as (api, database), psycopg.connect(conninfo(database.url), autocommit=True) as watch:
            (account,) = accounts(database)
            for month in months(months_of_each):
                for name, made in MADE.items():
                    dataset = dataset_named(name)
                    decoding, writing = decode_and_write(dataset, month, made(month, rows))
                    spent = {"decode": decoding, "write to the spool": writing}
                    for turn in ("first", "unchanged", "corrected"):
                        if turn == "corrected":
                            correct(watch, dataset, month)
                        own, backends = time.process_time(), _backends_seconds(watch)
                        with judgement(watch) as judged:
                            slices.load_slice(api, database, account, dataset, month, run_id=None)
                        spent[f"{turn} load, own"] = time.process_time() - own
                        spent[f"{turn} load, PostgreSQL"] = _backends_seconds(watch) - backends
                        spent[f"{turn} load, judgement in both"] = sum(judged)
                    spent["COPY alone, PostgreSQL"] = copy_alone(watch, dataset, month)
                    for step, seconds in spent.items():
                        samples.add(step, **{name: seconds / rows * 1e6})
    return samples
