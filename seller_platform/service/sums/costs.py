"""The costs of products on each day, kept when cost periods are written.

`service.cost_steps` has the costs of each product from each day on, and the hash of the cost periods that they follow
from. So a change of cost periods is noticed however they were written, and only its products are computed again.
`service.cost_versions` says quickly that no row of them was written since.
"""

from typing import LiteralString

from seller_platform.service.sums.statistics import CHANGE_DAYS, COSTED, STORE_PRODUCTS

_PERIODS: LiteralString = """
cost_days AS MATERIALIZED (
    SELECT requested.account, greatest(
        (SELECT max(local_day) FROM seller.cost_periods WHERE account = requested.account),
        (SELECT newest_day FROM platform.slices WHERE dataset = 'cost_periods' AND account = requested.account)
    ) AS local_day
    FROM unnest(%(accounts)s::text[]) AS requested (account)
),
periods AS (
    SELECT period.account, period.sku, period.from_date, coalesce(period.to_date, 'infinity') AS to_date,
           period.cost_elements
    FROM cost_days
    JOIN seller.cost_periods AS period ON period.account = cost_days.account AND period.local_day = cost_days.local_day
    WHERE period.account = ANY(%(accounts)s) AND period.sku IS NOT NULL
      AND period.from_date <= coalesce(period.to_date, 'infinity'){of_written}
)"""

_OF_WRITTEN: LiteralString = " AND sku = ANY(%(skus)s)"

PERIODS: LiteralString = _PERIODS.replace("{of_written}", "")
"""`periods`: the cost periods of the newest snapshots."""

STEPS: LiteralString = """
    SELECT account, sku, currency, array_agg(day ORDER BY day) AS days, array_agg(amount ORDER BY day) AS amounts
    FROM (
        SELECT account, sku, currency, day,
               sum(sum(amount)) OVER (PARTITION BY account, sku, currency ORDER BY day) AS amount
        FROM (
            SELECT account, sku, currency, edge.day, edge.sign * amount AS amount
            FROM (
                SELECT account, sku, from_date, to_date,
                       coalesce(element ->> 'currency', '') AS currency,
                       CASE WHEN replace(element ->> 'amount', ',', '') ~ '^-?[0-9]{1,30}([.][0-9]{1,30})?$'
                            THEN replace(element ->> 'amount', ',', '')::numeric END AS amount
                FROM periods
                CROSS JOIN LATERAL jsonb_array_elements(
                    CASE WHEN jsonb_typeof(cost_elements) = 'array' THEN cost_elements ELSE '[]' END
                ) AS element
            ) AS elements
            CROSS JOIN LATERAL (
                VALUES (from_date, 1), (CASE WHEN to_date < 'infinity' THEN to_date + 1 END, -1)
            ) AS edge (day, sign)
            WHERE amount IS NOT NULL AND edge.day IS NOT NULL
        ) AS changes
        GROUP BY account, sku, currency, day
    ) AS steps
    GROUP BY account, sku, currency"""
"""Select the costs from each day on, by product and currency; an empty currency is the account's.

An amount that is no number counts nothing.
"""

ROW_HASH: LiteralString = "hash_record_extended((period.ctid, period.xmin), 0)"
"""The part of a row `period` in the hash of the rows. The hash is a sum, so that a change adds what it changes."""

_COUNTED: LiteralString = """
versions AS MATERIALIZED (
    SELECT cost_days.account, count(period.account) AS periods,
           coalesce(sum({row_hash}) FILTER (WHERE period.account IS NOT NULL), 0) AS rows_hash
    FROM cost_days
    LEFT JOIN seller.cost_periods AS period
      ON period.account = cost_days.account AND period.local_day = cost_days.local_day
     AND period.account = ANY(%(accounts)s)
    GROUP BY cost_days.account
)""".replace("{row_hash}", ROW_HASH)

_COUNTED_ON: LiteralString = """
versions AS MATERIALIZED (
    SELECT account, periods + %(added)s AS periods, rows_hash + %(rows_hash)s AS rows_hash
    FROM service.cost_versions WHERE account = ANY(%(accounts)s)
)"""

_COMPARED: LiteralString = """
hashed AS MATERIALIZED (
    SELECT account, sku, sum(hash_record_extended((from_date, to_date, cost_elements), 0)) AS periods_hash
    FROM periods
    GROUP BY account, sku
),
applied AS MATERIALIZED (
    SELECT DISTINCT account, sku, periods_hash FROM service.cost_steps
    WHERE account = ANY(%(accounts)s){of_written}
),
changed AS MATERIALIZED (
    SELECT account, sku, hashed.periods_hash
    FROM hashed
    FULL JOIN applied USING (account, sku)
    WHERE hashed.periods_hash IS DISTINCT FROM applied.periods_hash
)"""

_CHANGED: LiteralString = f"{_PERIODS},{{versions}},{_COMPARED}"

CHANGED: LiteralString = _CHANGED.replace("{versions}", _COUNTED).replace("{of_written}", "")
"""Items of WITH; `changed` has the products whose cost periods changed since their costs were computed."""

IS_APPLIED: LiteralString = """(NOT EXISTS (
        SELECT FROM versions
        LEFT JOIN service.cost_versions AS applied USING (account)
        WHERE applied.rows_hash IS DISTINCT FROM versions.rows_hash
    ) OR NOT EXISTS (SELECT FROM changed))"""
"""Condition: the costs are those of the stored cost periods.

Rows that lie where they lay, written by the same transactions, are the same rows. Only others are compared by content,
because that is several times slower.
"""

_OF_CHANGED: LiteralString = "FROM (SELECT periods.* FROM periods JOIN changed USING (account, sku)) AS periods"
_APPLY: LiteralString = """
WITH {changed},
steps AS MATERIALIZED ({steps}),
forgotten AS (
    DELETE FROM service.cost_steps AS stored USING changed
    WHERE stored.account = changed.account AND stored.sku = changed.sku
),
stored AS (
    INSERT INTO service.cost_steps (account, sku, periods_hash, currency, days, amounts)
    SELECT account, sku, changed.periods_hash, coalesce(steps.currency, ''), coalesce(steps.days, '{}'),
           coalesce(steps.amounts, '{}')
    FROM changed
    LEFT JOIN steps USING (account, sku)
    WHERE changed.periods_hash IS NOT NULL
),
applied_versions AS (
    INSERT INTO service.cost_versions (account, periods, rows_hash) SELECT account, periods, rows_hash FROM versions
    ON CONFLICT (account) DO UPDATE SET periods = excluded.periods, rows_hash = excluded.rows_hash
),
sold AS (
    SELECT sums.* FROM service.product_days AS sums JOIN changed USING (account, sku)
    WHERE account = ANY(%(accounts)s) AND kind = 'sales'{of_written}
),{costed},
old AS (
    DELETE FROM service.product_days
    WHERE account = ANY(%(accounts)s) AND (account, sku) IN (SELECT account, sku FROM changed)
      AND kind = 'cost'{of_written}
    RETURNING *
),
months_changed AS (
    INSERT INTO service.changed_months (account, month, dataset)
    SELECT account, month, 'cost_periods' FROM costed UNION SELECT account, month, 'cost_periods' FROM old
    ON CONFLICT DO NOTHING
),{store_products},{change_days}
"""

_APPLY_CHANGED: LiteralString = (
    _APPLY.replace("{changed}", _CHANGED)
    .replace("{steps}", STEPS.replace("FROM periods", _OF_CHANGED))
    .replace("{costed}", COSTED)
    .replace("{store_products}", STORE_PRODUCTS.replace("{new}", "costed"))
    .replace("{change_days}", CHANGE_DAYS.replace("{new}", "costed"))
)

APPLY: LiteralString = _APPLY_CHANGED.replace("{versions}", _COUNTED).replace("{of_written}", "")
"""Computes the costs of products whose cost periods changed. Takes `accounts`, in a transaction with their locks."""

APPLY_WRITTEN: LiteralString = _APPLY_CHANGED.replace("{versions}", _COUNTED_ON).replace("{of_written}", _OF_WRITTEN)
"""Does so for products in `skus`, and reads no others.

Also takes what was changed of the rows of an account in `service.cost_versions`: the number of rows that were `added`,
and `rows_hash`, the hashes of new rows without those of deleted ones.
"""
