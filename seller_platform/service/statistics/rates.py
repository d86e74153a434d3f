"""The exchange rates that statistics convert with, and those that are missing."""

from collections.abc import Sequence
from datetime import date
from typing import LiteralString

from psycopg import sql

from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.service.access import SelectedAccounts
from seller_platform.service.lists.page_queries import EXACT_RATE, newest_day
from seller_platform.service.pool import Connection
from seller_platform.service.statistics.plan import ComparedDays, statistics_values

RATES: LiteralString = """,
converted_currencies AS MATERIALIZED (
    SELECT array_agg(currency) AS currencies
    FROM (
        SELECT currency FROM chosen
        UNION
        SELECT sums.currency
        FROM {day_sums} AS sums
        WHERE sums.account = ANY(%(accounts)s)
          AND sums.local_day BETWEEN %(months_from)s::date AND %(months_until)s::date
    ) AS used
    WHERE currency NOT IN ('', %(target)s::text)
),
per_euro AS MATERIALIZED (
    SELECT day, currency, per_euro
    FROM service.exchange_rates
    WHERE (SELECT currencies FROM converted_currencies) IS NOT NULL
      AND day BETWEEN %(months_from)s::date AND %(months_until)s::date AND currency <> 'EUR'
      AND (currency = ANY((SELECT currencies FROM converted_currencies)::text[]) OR currency = %(target)s::text)
    UNION ALL
    SELECT DISTINCT day, 'EUR', 1
    FROM service.exchange_rates
    WHERE ('EUR' = ANY((SELECT currencies FROM converted_currencies)::text[])
           OR %(target)s::text = 'EUR' AND (SELECT currencies FROM converted_currencies) IS NOT NULL)
      AND day BETWEEN %(months_from)s::date AND %(months_until)s::date
),
rates AS MATERIALIZED (
    SELECT own.day, own.currency, {rate} AS rate
    FROM per_euro AS own
    JOIN per_euro AS other ON other.day = own.day AND other.currency = %(target)s::text
    WHERE own.currency <> %(target)s::text
)""".replace("{rate}", EXACT_RATE)
"""`rates`: the factor `rate` from a currency that occurs to the target, on each day of the months asked for."""

_MISSING_RATES = """
WITH chosen AS MATERIALIZED (
    SELECT account, coalesce(currency, '') AS currency, first_day, last_day, {cost_day} AS cost_day
    FROM unnest(%(accounts)s::text[], %(currencies)s::text[], %(first_days)s::date[], %(last_days)s::date[])
         AS requested (account, currency, first_day, last_day)
),
sold AS MATERIALIZED (
    SELECT DISTINCT stored.account, stored.local_day AS day
    FROM chosen
    JOIN seller.daily_product_sales AS stored
      ON stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
     AND stored.account = ANY(%(accounts)s::text[])
),
needed AS (
    SELECT chosen.currency, sold.day FROM chosen JOIN sold USING (account)
    UNION
    SELECT coalesce(stored.currency, chosen.currency), stored.local_day
    FROM chosen
    JOIN seller.transactions AS stored
      ON stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
     AND stored.account = ANY(%(accounts)s::text[])
     AND stored.transaction_type = 'Fee' AND stored.amount IS NOT NULL
    UNION
    SELECT used.currency, sold.day
    FROM (
        SELECT period.account, element ->> 'currency' AS currency, min(period.from_date) AS first_day,
               max(coalesce(period.to_date, 'infinity')) AS last_day
        FROM chosen
        JOIN seller.cost_periods AS period ON period.account = chosen.account AND period.local_day = chosen.cost_day
         AND period.account = ANY(%(accounts)s::text[])
        CROSS JOIN LATERAL jsonb_array_elements(
            CASE WHEN jsonb_typeof(period.cost_elements) = 'array' THEN period.cost_elements ELSE '[]' END
        ) AS element
        WHERE element ->> 'currency' IS NOT NULL
        GROUP BY 1, 2
    ) AS used
    JOIN sold ON sold.account = used.account AND sold.day BETWEEN used.first_day AND used.last_day
)
SELECT nullif(rate_of.currency, ''), min(needed.day)
FROM needed
CROSS JOIN LATERAL (VALUES (needed.currency), (%(target)s::text)) AS rate_of (currency)
LEFT JOIN service.exchange_rates AS rate ON rate.day = needed.day AND rate.currency = rate_of.currency
WHERE needed.currency <> %(target)s::text AND rate_of.currency <> 'EUR' AND rate.per_euro IS NULL
GROUP BY 1
ORDER BY 2, 1
"""


async def rates_lacking(
    connection: Connection, selected: SelectedAccounts, spans: Sequence[ComparedDays], target: str
) -> dict[str | None, date]:
    """Return the currencies without a rate to convert amounts, each with the first such day."""
    statement = sql.SQL(_MISSING_RATES).format(cost_day=newest_day(COST_PERIODS))
    values = statistics_values(selected, spans, target)
    return dict(await (await connection.execute(statement, values, prepare=False)).fetchall())
