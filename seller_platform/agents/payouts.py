"""The tool `payouts`: the last payout of each account, what was earned since, and when to expect the next one."""

from datetime import date, timedelta
from decimal import Decimal
from shlex import quote

from psycopg import sql
from psycopg.rows import dict_row
from pydantic import Field

from seller_platform.agents.asker import Asker
from seller_platform.agents.proof import Asked, ChosenAccounts, Fact, ToolAnswer
from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.errors import UnanswerableError
from seller_platform.marts.common_queries import NO_CURRENCY
from seller_platform.marts.rules.formulas import PAYOUTS, STANDARD
from seller_platform.warehouse.postgres.database import driver_of

_LONGEST = timedelta(days=190)

_PAYOUTS = """
WITH entries AS (
    SELECT account, local_day, posted_date, coalesce(currency, currency_code, {no_currency}) AS currency, amount,
           {line} = {payouts} AS is_payout
    FROM seller.transactions JOIN platform.accounts ON key = account
    WHERE account = ANY ({accounts}) AND local_day >= DATE {first} AND local_day < DATE {end}
),
paid AS (
    SELECT account, currency, local_day, max(posted_date) AS moment, -sum(amount) AS amount,
           local_day - lag(local_day) OVER (PARTITION BY account, currency ORDER BY local_day) AS days_since
    FROM entries WHERE is_payout GROUP BY account, currency, local_day
),
last AS (
    SELECT account, currency, max(local_day) AS last_day, max(moment) AS moment,
           (array_agg(amount ORDER BY local_day DESC))[1] AS last_amount,
           CASE WHEN count(days_since) > 1
                THEN CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY days_since) AS integer) END AS usual_days
    FROM paid GROUP BY account, currency
)
SELECT account, currency, last_day, last_amount, usual_days, last_day + usual_days AS expected_day,
       (SELECT coalesce(sum(amount), 0) FROM entries
        WHERE (entries.account, entries.currency) = (last.account, last.currency) AND posted_date > moment
          AND NOT is_payout) AS earned_since
FROM last ORDER BY account, currency
"""


class PayoutRow(Fact):
    """The payouts of an account in a currency."""

    account: str
    currency: str
    last_day: date
    last_amount: Decimal
    earned_since: Decimal = Field(description="What the ledger has after it: sales and refunds less fees.")
    usual_days: int | None = Field(description="The median of days between payouts; null after fewer than three.")
    expected_day: date | None = Field(description="The last day and the usual days.")


def list_payouts(asker: Asker, arguments: ChosenAccounts) -> ToolAnswer[PayoutRow]:
    """List the last payout of each account, what was earned since, and when to expect the next one.

    Raises:
        UnanswerableError: There is no such account, no payout within half a year, or the ledger since is not stored.
    """
    accounts = asker.chosen_accounts(arguments.accounts)
    keys, end = [each.key for each in accounts], min(asker.today().values())
    statement = sql.SQL(_PAYOUTS.strip()).format(
        no_currency=sql.Literal(NO_CURRENCY),
        line=STANDARD.line_of_entry,
        payouts=sql.Literal(PAYOUTS),
        accounts=sql.Literal(keys),
        first=sql.Literal(str(end - _LONGEST)),
        end=sql.Literal(str(end)),
    )
    with asker.database.begin() as connection:
        rows = driver_of(connection).cursor(row_factory=dict_row).execute(statement).fetchall()
    if not rows:
        raise UnanswerableError(
            f"no payout of {', '.join(keys[:10])} is stored since {end - _LONGEST}",
            "Ask `coverage` whether transactions are stored, and let `seller-platform sync` load them.",
        )
    # The days from the last payout on decide what was earned since.
    first = min(row["last_day"] for row in rows)
    asked = Asked(asker, accounts, Window(first, end), (TRANSACTIONS,))
    absent = sorted(set(keys) - {row["account"] for row in rows})
    return ToolAnswer(
        rows=tuple(PayoutRow(**row) for row in rows),
        notes=(
            "The upstream announces no payout: the expected day is computed, and less may be paid than was earned, for "
            "a payout is of what was posted until its period closed.",
            *([f"No payout since {end - _LONGEST}: {', '.join(absent)}."] if absent else []),
        ),
        proof=asked.prove(
            f"seller-platform query {quote(statement.as_string(None))}", {row["currency"] for row in rows}
        ),
    )
