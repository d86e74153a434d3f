"""Payouts: what was paid out of the ledgers of accounts, and when to expect the next, for `month list` and agents."""

from psycopg import sql

from seller_platform.marts.common_queries import NO_CURRENCY

# The next payout is expected as many days after the newest as usually lie between two days with payouts, by the median
# of the newest six.
_PAYOUTS = """
ledger AS NOT MATERIALIZED (
    SELECT account, CAST(date_trunc('month', CAST(local_day AS timestamp)) AS date) AS month, local_day, posted_date,
           coalesce(currency, currency_code, {no_currency}) AS currency, amount, {is_payout} AS is_payout
    FROM seller.transactions JOIN platform.accounts ON key = account WHERE {is_asked}
),
payouts AS MATERIALIZED (
    SELECT account, month, local_day, posted_date, currency, -amount AS amount
    FROM ledger WHERE is_payout AND amount IS NOT NULL
),
expected_payouts AS (
    SELECT account, currency, max(local_day) AS last_day,
           CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY days) AS integer) AS usual_days
    FROM (
        SELECT *, local_day - lag(local_day) OVER (PARTITION BY account, currency ORDER BY local_day) AS days,
               row_number() OVER (PARTITION BY account, currency ORDER BY local_day DESC) AS place
        FROM (SELECT DISTINCT account, currency, local_day FROM payouts WHERE amount > 0) AS of_day
    ) AS payout_days
    WHERE place <= 6 GROUP BY account, currency
)"""


def payouts_query(is_payout: sql.Composable, is_asked: sql.Composable) -> sql.Composed:
    """Return items of WITH: `ledger`, its `payouts`, and `expected_payouts`, one row for each account and currency.

    What is owed is the sum of the ledger. An amount of `payouts` is negative where a payout was taken back. The next
    one is expected `usual_days` after `last_day`; they are null where one payout is known.

    Args:
        is_payout: The condition for entries that are payouts, from their columns.
        is_asked: The condition for `account`.
    """
    no_currency = sql.Literal(NO_CURRENCY)
    return sql.SQL(_PAYOUTS).format(is_payout=is_payout, is_asked=is_asked, no_currency=no_currency)
