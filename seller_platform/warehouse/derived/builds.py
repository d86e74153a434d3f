"""Builds: a partition of a mart is replaced whole, in one transaction, with a receipt."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from sqlalchemy import insert, text

from seller_platform.clocks import utc_now
from seller_platform.contract import Window
from seller_platform.errors import InputProblemError, WarehouseError
from seller_platform.warehouse.derived.declaration import Mart, MartCheck, Query
from seller_platform.warehouse.derived.due import KEPT_CHECKS, Derived, keep_try, partition_states, state_of
from seller_platform.warehouse.derived.tables import BUILD_ID, BUILDS
from seller_platform.warehouse.postgres.advisory_locks import holding
from seller_platform.warehouse.postgres.database import Database, driver_of, identifiers

# A month of a large account is sorted in memory. The planner expects one row where there are thousands, and would join
# them in loops or by merging. Compiling a statement takes longer than the tenth of a second that it runs.
_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_SETTINGS = """
SET LOCAL work_mem = '128MB'; SET LOCAL jit = off;
SET LOCAL enable_nestloop = off; SET LOCAL enable_mergejoin = off
"""
_SHOWN = 5
_EXAMPLES = 3
_NEXT_BUILD = "SELECT nextval(pg_get_serial_sequence('platform.mart_builds', 'id'))"

_Driver = psycopg.Connection[Any]


@dataclass(frozen=True)
class CheckResult:
    """The result of a check of a partition: how many rows contradict it, and the first of them."""

    check: MartCheck
    contradictions: int
    examples: tuple[Mapping[str, object], ...]

    @property
    def passed(self) -> bool:
        return self.contradictions == 0

    def described(self, mart: Mart) -> Mapping[str, Any]:
        """Return what contradicts the check, as `platform.derived_partitions` keeps it.

        The sentence has no number: partitions with the same one are a problem, which counts their rows.
        """
        values = ([f"{name} {value}" for name, value in row.items() if value is not None] for row in self.examples)
        return {
            "rule": self.check.doc,
            "sentence": f"Rows of {mart.table} contradict it.",
            "next_step": f"{self.check.repair[:1].upper()}{self.check.repair[1:]}, and materialize the partition. "
            f"Examples: {'; '.join(map(', '.join, islice(values, _EXAMPLES)))}",
            "is_warning": self.check.is_warning,
            "rows": self.contradictions,
            "since": utc_now().isoformat(),
        }


@dataclass(frozen=True)
class Build:
    """One build of a partition, as `platform.mart_builds` keeps it, with checks and chart.

    Attributes:
        window: The month; None where the whole account was built.
        loads: The newest load of each dataset that was read, by the dataset's name.
    """

    id: int
    mart: Mart
    account: str
    window: Window | None
    rows: int
    digest: bytes
    parameters: Mapping[str, int]
    loads: Mapping[str, int]
    check_results: tuple[CheckResult, ...]
    chart_rows: tuple[Mapping[str, Any], ...]
    started_at: datetime
    finished_at: datetime

    @property
    def seconds(self) -> float:
        return (self.finished_at - self.started_at).total_seconds()


def build_partition(
    database: Database,
    mart: Mart,
    account: str,
    window: Window | None,
    *,
    parameters: Mapping[str, int] | None = None,
    run_id: str | None = None,
    key_prefix: str = "",
) -> Build:
    """Compute a partition from the datasets as they are now.

    Rows, checks and chart are of one moment, and a reader sees the old partition or the new one. Another build changes
    nothing but the receipt, unless the datasets changed. A failure is stored in `platform.derived_partitions`.

    Args:
        window: The month of a monthly mart; None for the others.
        parameters: Values of the mart's parameters; those left out have their defaults.
        key_prefix: What stands before the names of assets.

    Raises:
        InputProblemError: The slice of an input has a problem. The partition is as it was.
        WarehouseError: PostgreSQL refused a value. The partition is as it was.
        RequestError: A parameter is unknown, too small or too large, or the window is not a month of the mart.
        WarehouseUnavailableError: The server went away. The partition is as it was, or as it should be.
    """
    chosen = mart.chosen_parameters(parameters or {})
    bindings = mart.bindings(account, window, chosen)
    derived, state = Derived.of(mart, chosen), None
    with holding(database, lock_name(mart, account, window)) as connection:
        keep = partial(keep_try, connection, derived, run_id=run_id)
        try:
            with _mart_errors(mart, account, window), connection.begin():
                started_at = datetime.now(UTC)
                driver = driver_of(connection)
                driver.execute(_ONE_MOMENT)
                state = state_of(connection, derived, account, window)
                if problem := state.input_problem(key_prefix):
                    raise problem
                driver.execute(_SETTINGS)
                bindings[BUILD_ID] = connection.execute(text(_NEXT_BUILD)).scalar_one()
                rows, digest = _replace(driver, mart, bindings)
                inputs = {
                    "account": account,
                    "month": window and window.start,
                    "datasets": [each.dataset.name for each in mart.inputs],
                    "before": [each.months_before for each in mart.inputs],
                    "after": [each.months_after for each in mart.inputs],
                }
                build = Build(
                    id=bindings[BUILD_ID],
                    mart=mart,
                    account=account,
                    window=window,
                    rows=rows,
                    digest=digest,
                    parameters=chosen,
                    loads=dict(driver.execute(_NEWEST_LOADS, inputs).fetchall()),
                    check_results=tuple(evaluate(driver, check, bindings) for check in mart.all_checks),
                    chart_rows=_of_one_currency(rows_of(driver, mart.chart.query, bindings)),
                    started_at=started_at,
                    finished_at=datetime.now(UTC),
                )
                days = {"window_start": window and window.start, "window_end": window and window.end}
                values = vars(build) | days | {"mart": mart.name, "version": mart.version, "run_id": run_id}
                connection.execute(insert(BUILDS), {column.name: values[column.name] for column in BUILDS.columns})
                failed = failed_checks(mart, build.check_results)
                keep(state, digest=digest, build_id=build.id, failed_checks=failed)
        except (WarehouseError, InputProblemError) as error:
            if state is not None:
                with connection.begin():
                    keep(state, error=error)
            raise
    return build


@contextmanager
def reporting(database: Database, build: Build) -> Iterator[bool]:
    """Lend whether a build without a run is to be reported to Dagster, and store that it was when the block ends.

    It is not if its partition was built or reported since, or an input has changed. The partition is built by no other
    process before the block ends.
    """
    with holding(database, lock_name(build.mart, build.account, build.window)) as connection, connection.begin():
        state = state_of(connection, Derived.of(build.mart), build.account, build.window)
        bound = (build.mart.name, build.account, state.month, state.fingerprint, build.id)
        yield state.is_current and driver_of(connection).execute(_KEEP_REPORTED, bound).rowcount == 1


def lock_name(mart: Mart, account: str, window: Window | None) -> str:
    """Return the name of the lock of a partition. While it is held, nothing else builds the partition."""
    return f"{mart.table}|{account}|{window}"


@contextmanager
def _mart_errors(mart: Mart, account: str, window: Window | None) -> Iterator[None]:
    """Turn PostgreSQL's errors into ours, without the rows in their details."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.errors.InsufficientPrivilege):
        raise
    except psycopg.Error as error:
        of = account if window is None else f"{account}, {window}"
        problem = f"{error.diag.message_primary or 'refused'} ({error.sqlstate})"
        raise WarehouseError(
            f"{mart.name} of {of} was not built: {problem}",
            code="MartBuildError",
            step="The partition is unchanged; look for such a value in the rows that the mart is computed from.",
        ) from None


_FIRST_OF = "SELECT count(*) OVER () AS found_in_all, found.* FROM ({query}) AS found LIMIT {limit}"
_KEEP_REPORTED = """
UPDATE platform.derived_partitions AS derived SET run_id = ''
WHERE folder = '' AND name = %s AND account = %s AND month IS NOT DISTINCT FROM %s::date
  AND fingerprint = %s AND run_id IS NULL
  AND NOT EXISTS (SELECT FROM platform.mart_builds AS newer
                  WHERE (mart, newer.account, window_start) IS NOT DISTINCT FROM (name, derived.account, month)
                    AND id > %s)
"""
_DELETE = "DELETE FROM {table} WHERE {inside}"
_INSERT = """
INSERT INTO {table} ({columns}, account, build_id)
SELECT computed.*, %(account)s::text, %(build_id)s::bigint FROM ({query}) AS computed ORDER BY {key}
"""
_DIGEST = """
SELECT count(*), sha256(convert_to(coalesce(string_agg(line, chr(10) ORDER BY line), ''), 'UTF8'))
FROM (SELECT row({columns})::text COLLATE "C" AS line FROM {table} WHERE {inside}) AS lines
"""
_NEWEST_LOADS = """
SELECT dataset, max(load_id)
FROM unnest(%(datasets)s::text[], %(before)s::int[], %(after)s::int[]) AS input (dataset, before, after)
JOIN platform.slices USING (dataset)
WHERE account = %(account)s AND load_id IS NOT NULL
  AND coalesce(month BETWEEN %(month)s::date - make_interval(months => before)
                         AND %(month)s::date + make_interval(months => after), true)
GROUP BY dataset
"""


def _replace(connection: _Driver, mart: Mart, bindings: Mapping[str, object]) -> tuple[int, bytes]:
    """Delete the rows of the partition, write them anew, and return their number and digest."""
    # The columns of a query have no reliable names: ORDER BY takes their positions.
    positions = (sql.SQL(str(position)) for position, column in enumerate(mart.columns, start=1) if column.key)
    parts = {
        "table": mart.identifier,
        "inside": mart.inside,
        "columns": identifiers(column.name for column in mart.columns),
        "query": mart.query,
        "key": sql.SQL(", ").join(positions),
    }
    connection.execute(sql.SQL(_DELETE).format(**parts), bindings)
    connection.execute(sql.SQL(_INSERT).format(**parts), bindings)
    rows, digest = connection.execute(sql.SQL(_DIGEST).format(**parts), bindings).fetchone() or (0, b"")
    return rows, digest


def failed_checks(mart: Mart, results: Iterable[CheckResult]) -> dict[str, object]:
    """Return the checks that fail as `platform.derived_partitions` keeps them."""
    return {result.check.name: result.described(mart) for result in results if not result.passed}


def evaluate(connection: _Driver, check: MartCheck, bindings: Mapping[str, object]) -> CheckResult:
    """Return the rows that contradict a check of a partition."""
    statement = sql.SQL(_FIRST_OF).format(query=check.contradictions, limit=sql.Literal(_SHOWN))
    rows = rows_of(connection, statement, bindings)
    return CheckResult(check, max((row.pop("found_in_all") for row in rows), default=0), tuple(rows))


def rows_of(connection: _Driver, query: Query, bindings: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the rows of a query by the names of their columns."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, bindings).fetchall()


def _of_one_currency(rows: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Return the rows of a chart in the currency with the largest amounts: a chart has one unit."""
    sizes = defaultdict[str, Decimal](Decimal)
    for row in rows:
        amounts = (value for name, value in row.items() if name not in ("label", "currency"))
        sizes[row.get("currency", "")] += sum(abs(amount or 0) for amount in amounts)
    return tuple(row for row in rows if row.get("currency", "") == max(sizes, key=sizes.__getitem__))


_CHECK_SETTINGS = "SET LOCAL work_mem = '128MB'; SET LOCAL jit = off"
_BUILT = """
WITH stored AS (
    SELECT account, month, sha256(convert_to(string_agg(line, chr(10) ORDER BY line), 'UTF8')) AS digest
    FROM (SELECT account, {month} AS month, row({columns})::text COLLATE "C" AS line FROM {table}) AS lines
    GROUP BY account, month
)
SELECT DISTINCT ON (account, month)
       made.account, made.month, build.id, build.parameters, build.rows,
       failed_checks IS NOT NULL OR made.digest <> coalesce(stored.digest, sha256(''))
       OR error IS NOT NULL AND error <> 'InputProblemError' AS is_in_doubt
FROM platform.derived_partitions AS made
JOIN platform.mart_builds AS build ON build.mart = made.name AND build.account = made.account
                                  AND build.window_start IS NOT DISTINCT FROM made.month
LEFT JOIN stored ON stored.account = made.account AND stored.month IS NOT DISTINCT FROM made.month
WHERE folder = '' AND name = %(mart)s AND made.digest IS NOT NULL
ORDER BY account, month, build.id DESC
"""
_KEEP_CHECKS = f"""
UPDATE platform.derived_partitions AS former SET failed_checks = {KEPT_CHECKS.format("%(failed)s::jsonb")}
WHERE folder = '' AND name = %(mart)s AND account = %(account)s AND month IS NOT DISTINCT FROM %(month)s::date
"""  # noqa: S608  # constants


def recheck(database: Database, mart: Mart) -> list[tuple[str, Window | None]]:
    """Evaluate the checks of partitions as they are stored now, without building them, and store the results.

    Partitions are left out that passed, whose rows are those of their newest build, and whose inputs did not change
    since. The others are returned.
    """
    month: sql.Composable = sql.SQL("NULL::date")
    if mart.day:
        month = sql.SQL("date_trunc('month', {})::date").format(sql.Identifier(mart.day))
    columns = identifiers(column.name for column in mart.columns)
    statement = sql.SQL(_BUILT).format(table=mart.identifier, month=month, columns=columns)
    evaluated = []
    with database.begin() as connection:
        driver = driver_of(connection)
        driver.execute(_CHECK_SETTINGS)
        built = rows_of(driver, statement, {"mart": mart.name})
        months = [Window.month_of(first) for first in {row["month"] for row in built} if first]
        states = partition_states(connection, Derived.of(mart), list({row["account"] for row in built}), months)
        unchanged = {(state.account, state.month) for state in states if state.is_tried}
        for row in built:
            if row["is_in_doubt"] or (row["account"], row["month"]) not in unchanged:
                window = row["month"] and Window.month_of(row["month"])
                bindings = mart.bindings(row["account"], window, row["parameters"]) | {BUILD_ID: row["id"]}
                results = [evaluate(driver, check, bindings) for check in mart.all_checks]
                failed = failed_checks(mart, results)
                driver.execute(_KEEP_CHECKS, {**row, "mart": mart.name, "failed": Jsonb(failed)})
                evaluated.append((row["account"], window))
    return evaluated
