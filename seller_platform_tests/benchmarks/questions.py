"""Measures the documented questions in SQL, and what the indexes that answer them cost a load.

`python -m seller_platform_tests.benchmarks.questions` prints two tables.

- questions: milliseconds with the indexes for lookups and without them, the shortest of some repetitions
- loads: seconds that COPY of the rows takes with and without each index, slice by slice, in turns, and the ratio
"""

import argparse
import time
from typing import Any

import psycopg
from psycopg import sql
from rich.console import Console
from rich.table import Table

from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.installation import temporary_server
from seller_platform_tests.support.many_rows import DATED, fill, questions

_INDEXES = """
SELECT indexname, tablename, indexdef FROM pg_indexes
WHERE schemaname = 'seller' AND tablename = ANY (%s) AND indexdef ~ 'USING (brin|hash)' ORDER BY tablename, indexname
"""

_Connection = psycopg.Connection[Any]


def _milliseconds(connection: _Connection, statement: str, repeat: int) -> float:
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        connection.execute(statement.encode()).fetchall()
        seconds.append(time.perf_counter() - started)
    return min(seconds) * 1000


def _blocks(connection: _Connection, table: sql.Identifier) -> list[bytes]:
    """Return the rows of a table as COPY reads them, one block for each load."""
    loads = connection.execute(sql.SQL("SELECT DISTINCT load_id FROM {} ORDER BY 1").format(table)).fetchall()
    blocks = []
    for (load_id,) in loads:
        query = sql.SQL("COPY (SELECT * FROM {} WHERE load_id = {}) TO STDOUT").format(table, sql.Literal(load_id))
        with connection.cursor() as cursor, cursor.copy(query) as copy:
            blocks.append(b"".join(bytes(chunk) for chunk in copy))
    return blocks


def _copy(connection: _Connection, table: sql.Identifier, blocks: list[bytes]) -> float:
    connection.execute(sql.SQL("TRUNCATE {}").format(table))
    connection.execute("CHECKPOINT")
    started = time.perf_counter()
    for block in blocks:
        statement = sql.SQL("COPY {} FROM STDIN").format(table)
        with connection.transaction(), connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(block)
    return time.perf_counter() - started


def main() -> None:
    """Measure everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accounts", type=int, default=5)
    parser.add_argument("--rows", type=int, default=8_000, help="rows per account, month and list")
    parser.add_argument("--repeat", type=int, default=3)
    chosen = parser.parse_args()
    answers, loads = Table("question", "ms with", "ms without"), Table("index", "s with", "s without", "ratio")
    with temporary_server() as (server, _):
        url = server.database("questions")
        with Database(url) as database:
            database.migrate()
        with psycopg.connect(url, autocommit=True) as connection:
            fill(connection, chosen.accounts, chosen.rows)
            indexes = connection.execute(_INDEXES, [list(DATED)]).fetchall()
            before = [_milliseconds(connection, asked, chosen.repeat) for asked in questions().values()]
            for name, _, _ in indexes:
                connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier("seller", name)))
            after = [_milliseconds(connection, asked, chosen.repeat) for asked in questions().values()]
            for question, shorter, longer in zip(questions(), before, after, strict=True):
                answers.add_row(question, f"{shorter:.1f}", f"{longer:.1f}")
            for name, table_name, definition in indexes:
                table = sql.Identifier("seller", table_name)
                blocks = _blocks(connection, table)
                with_it = without = float("inf")
                for _ in range(chosen.repeat):
                    without = min(without, _copy(connection, table, blocks))
                    connection.execute(definition.encode())
                    with_it = min(with_it, _copy(connection, table, blocks))
                    connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier("seller", name)))
                loads.add_row(name, f"{with_it:.2f}", f"{without:.2f}", f"{with_it / without:.2f}")
    console = Console(width=140)
    console.print(answers)
    console.print(loads)


if __name__ == "__main__":
    main()
