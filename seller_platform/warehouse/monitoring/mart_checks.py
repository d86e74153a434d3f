"""The results of the checks of marts, and their evaluation over the rows as they are stored now."""

from psycopg import sql
from psycopg.types.json import Jsonb

from seller_platform.contract import Window
from seller_platform.warehouse.derived.builds import evaluate, failed_checks, rows_of
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.due import KEPT_CHECKS, Derived, partition_states
from seller_platform.warehouse.derived.tables import BUILD_ID
from seller_platform.warehouse.postgres.database import Database, driver_of, identifiers

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
                failed = failed_checks(mart, results, row["rows"])
                driver.execute(_KEEP_CHECKS, {**row, "mart": mart.name, "failed": Jsonb(failed)})
                evaluated.append((row["account"], window))
    return evaluated
