"""The functions `history.<dataset>_as_of` and `_without`, and the views `platform.settledness` and `seller.*_latest`.

They are created anew after each upgrade, because they follow from the tables and from the contract.
"""

from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from secrets import token_hex

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import DATASETS
from seller_platform.warehouse.postgres.database import driver_of, identifiers
from seller_platform.warehouse.schema.creation import create_view
from seller_platform.warehouse.schema.tables import GONE_LOAD_ID, HISTORY, SELLER, table_for

_COLUMNS = """
SELECT class.relname, attribute.attname, format_type(attribute.atttypid, attribute.atttypmod)
FROM pg_attribute AS attribute
JOIN pg_class AS class ON class.oid = attribute.attrelid AND class.relkind IN ('r', 'p')
WHERE class.relnamespace = %s::regnamespace AND attribute.attnum > 0 AND NOT attribute.attisdropped
  AND to_regclass(format('%%I.%%I', %s::text, class.relname)) IS NOT NULL
ORDER BY class.relname, attribute.attnum
"""

# PostgreSQL puts the query of such a function into the query that calls it, so that its conditions use the indexes.
_FUNCTION = sql.SQL("""
CREATE OR REPLACE FUNCTION {function} ({parameter}) RETURNS TABLE ({columns}) LANGUAGE sql STABLE AS $$
    SELECT {names} FROM {stored} WHERE NOT {is_later_load}
    UNION ALL
    SELECT {names} FROM {former} WHERE NOT {is_later_load} AND {is_later_gone}
$$
""")

_LATER_THAN_MOMENT = sql.SQL("{load} IN (SELECT id FROM platform.loads WHERE finished_at > moment)")
_OF_LOADS = sql.SQL("{load} = ANY (loads)")
# Its name, its parameter, the condition for a load whose changes are left out, and the comment.
_FORMS = (
    ("{}_as_of", "moment timestamptz", _LATER_THAN_MOMENT, "Rows of {} as they were stored at a moment."),
    ("{}_without", "loads bigint[]", _OF_LOADS, "Rows of {} as if these loads had not been made yet."),
)

# How often rows and amounts of a day change at each age of the day, in days. A reading shows what changed since the
# reading of the same days before it. Where that is several days ago, the change is spread over them evenly. Readings
# of today alone, or with yesterday, are left out: a refresh would be compared with them and not with the refresh before
# it. Those of the first days of a month stay, because a refresh reads no more days then.
# Readings under another time zone or currency are not compared with one another: rows only moved to other days.
# A change counts as a share of its day: in a season, the days that still change are larger or smaller than the average
# day of a reading. Receipts have the size of a day, as the sum of what loads changed of it. Only a load into an empty
# window says no more than the average of its days; so does the first load of an account, as rows may have no receipt.
# The receipts of 160 days have every load of the days that readings of 90 days show at an age of 61 days.
# Each dataset and account is computed by itself, so that a query for one of them reads its receipts alone.
_SETTLEDNESS = sql.SQL("""
SELECT dataset, account, after_days, rows_percent, amounts_percent, observed_days
FROM (SELECT DISTINCT dataset, account FROM platform.slices) AS pair
JOIN (VALUES {amounts}) AS amounts (dataset, name) USING (dataset)
CROSS JOIN LATERAL (
    WITH receipts AS MATERIALIZED (
        SELECT id, window_start, window_end, started_at, notes, read_on, changed_days, time_zone, currency,
               rows::numeric / (window_end - window_start) AS rows,
               (SELECT sum(abs(value::numeric)) FROM jsonb_each_text(sums)
                WHERE key = amounts.name OR key LIKE amounts.name || ' %') / (window_end - window_start) AS amount,
               changed AND changed_days IS NULL OR id = min(id) OVER () AS is_first
        FROM platform.published_loads AS load,
             LATERAL (SELECT CAST(started_at AT TIME ZONE 'UTC' AS date) AS read_on) AS day
        WHERE load.dataset = pair.dataset AND load.account = pair.account
          AND started_at > now() - interval '160 days'
    ),
    sizes AS (
        SELECT day, sum(rows) AS rows, abs(sum(amount)) AS amount
        FROM (
            SELECT window_start + number AS day, rows, amount
            FROM receipts, generate_series(0, window_end - window_start - 1) AS number
            WHERE is_first
            UNION ALL
            SELECT day.key::date, (day.value ->> 0)::numeric - (day.value ->> 1)::numeric, (day.value ->> 2)::numeric
            FROM receipts, jsonb_each(changed_days) AS day
            WHERE NOT is_first
        ) AS change
        GROUP BY day
    ),
    readings AS (
        SELECT rows, amount, changed_days, read_on, read_on - lag(read_on) OVER month AS gap,
               greatest(window_start, lag(window_start) OVER month) AS first_day,
               least(window_end, lag(window_end) OVER month) - 1 AS last_day
        FROM receipts
        WHERE notes -> 'reverts_load' IS NULL AND started_at > now() - interval '90 days'
          AND (window_start < read_on - 1 OR window_start = date_trunc('month', window_start))
        WINDOW month AS (PARTITION BY date_trunc('month', window_start), time_zone, currency ORDER BY id)
    ),
    exposed AS (
        SELECT age, sum(gap * coalesce(sizes.rows, readings.rows)) AS rows,
               sum(gap * coalesce(sizes.amount, readings.amount)) AS amount
        FROM readings
        CROSS JOIN generate_series(greatest(1, read_on - last_day), least(61, read_on - first_day)) AS age
        LEFT JOIN sizes ON day = read_on - age
        WHERE gap > 0
        GROUP BY age
    ),
    changed AS (
        SELECT read_on - day.key::date AS age,
               sum(greatest((day.value ->> 0)::numeric, (day.value ->> 1)::numeric)) AS rows,
               sum(abs((day.value ->> 2)::numeric)) AS amount
        FROM readings, jsonb_each(changed_days) AS day
        WHERE gap > 0 AND day.key::date BETWEEN first_day AND last_day
        GROUP BY age
    ),
    rates AS (
        SELECT age, coalesce(changed.rows, 0) / nullif(exposed.rows, 0) AS rows,
               coalesce(changed.amount, 0) / nullif(exposed.amount, 0) AS amount
        FROM exposed LEFT JOIN changed USING (age)
    )
    SELECT after_days, round(100 * coalesce(sum(rows) FILTER (WHERE age > after_days), 0), 3) AS rows_percent,
           round(100 * coalesce(sum(amount) FILTER (WHERE age > after_days), 0), 3) AS amounts_percent,
           max(age) AS observed_days
    FROM rates, unnest(ARRAY[1, 2, 3, 5, 7, 10, 14, 21, 30, 60]) AS after_days
    GROUP BY after_days
) AS settledness
""")

_SETTLEDNESS_COLUMNS = {
    "dataset": "The table in schema seller.",
    "account": "Key of the account.",
    "after_days": "The age of a day, in days.",
    "rows_percent": "Rows that still change after that age, in percent of all rows.",
    "amounts_percent": "Amounts that still change after that age, in percent of all amounts.",
    "observed_days": "The greatest age at which a day of the account was read again.",
}

_COMMENT = sql.SQL("COMMENT ON FUNCTION {} IS {}")
_RENAME = sql.SQL("ALTER FUNCTION {} RENAME TO {}")
_FORMER = "former_"

# The newest snapshot may have no rows: its slice has its day.
_LATEST = sql.SQL("""
SELECT stored.*
FROM platform.accounts AS known
CROSS JOIN LATERAL (
    SELECT greatest((SELECT max({day}) FROM {table} WHERE account = known.key),
                    (SELECT newest_day FROM platform.slices
                     WHERE dataset = {name} AND account = known.key)) AS day
) AS newest
JOIN {table} AS stored ON stored.account = known.key AND stored.{day} = newest.day
""")
_FORMER_FUNCTIONS = "SELECT proname FROM pg_proc WHERE pronamespace = %s::regnamespace AND starts_with(proname, %s)"


def create_functions(connection: Connection) -> None:
    """Create each table's functions and the view of settledness anew.

    A function that returns other columns takes the place of the former one, which `drop_former_functions` drops: a
    statement that is being planned finds it until then.
    """
    driver = driver_of(connection)
    amounts = [(each.name, each.money[0].name if each.money else "") for each in DATASETS if each.is_dated]
    dated = [sql.SQL("({}, {})").format(*pair) for pair in amounts]
    query = _SETTLEDNESS.format(amounts=sql.SQL(", ").join(dated))
    comment = "How much of a day still changes after how many days."
    create_view(driver, "platform.settledness", query, comment, _SETTLEDNESS_COLUMNS)
    found = driver.execute(_COLUMNS, [SELLER, HISTORY]).fetchall()
    for table, columns in groupby(found, key=itemgetter(0)):
        types = {name: kind for _, name, kind in columns}
        names = {
            "columns": sql.SQL(", ").join(
                sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in types.items()
            ),
            "names": identifiers(types),
            "stored": sql.Identifier(SELLER, table),
            "former": sql.Identifier(HISTORY, table),
        }
        for name, parameter, is_later, comment in _FORMS:
            function = sql.Identifier(HISTORY, name.format(table))
            statement = _FUNCTION.format(
                function=function,
                parameter=sql.SQL(parameter),
                is_later_load=is_later.format(load=sql.Identifier("load_id")),
                is_later_gone=is_later.format(load=sql.Identifier(GONE_LOAD_ID)),
                **names,
            )
            try:
                with driver.transaction():
                    driver.execute(statement)
            except psycopg.errors.InvalidFunctionDefinition:  # it returns other columns
                former = sql.Identifier(f"{_FORMER}{token_hex(4)}_{name.format(table)}")
                driver.execute(_RENAME.format(function, former))
                driver.execute(statement)
            driver.execute(_COMMENT.format(function, sql.Literal(comment.format(f"{SELLER}.{table}"))))


def drop_former_functions(connection: Connection) -> None:
    """Drop functions that `create_functions` has replaced, except those that views of others use."""
    driver = driver_of(connection)
    for (name,) in driver.execute(_FORMER_FUNCTIONS, [HISTORY, _FORMER]).fetchall():
        with suppress(psycopg.errors.DependentObjectsStillExist), driver.transaction():
            driver.execute(sql.SQL("DROP FUNCTION {}").format(sql.Identifier(HISTORY, name)))


def create_latest_views(connection: Connection) -> None:
    """Create the view of each dataset that keeps snapshots, with the comments of its table's columns."""
    driver = driver_of(connection)
    for dataset in [each for each in DATASETS if each.keeps_snapshots]:
        table, day = sql.Identifier(SELLER, dataset.name), sql.Identifier(dataset.slice_column)
        query = _LATEST.format(day=day, table=table, name=sql.Literal(dataset.name))
        columns = {column.name: column.comment or "" for column in table_for(dataset).columns}
        comment = f"The newest snapshot of each account. {dataset.doc}"
        create_view(driver, f"{dataset.table}_latest", query, comment, columns)
