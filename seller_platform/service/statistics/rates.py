"""The exchange rates that statistics convert with."""

from typing import LiteralString

from seller_platform.service.lists.page_queries import EXACT_RATE

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
