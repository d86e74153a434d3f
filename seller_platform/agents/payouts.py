"""The tool `payouts`: the last payout of each account, what is owed, and when to expect the next one."""

from datetime import date, timedelta
from decimal import Decimal
from shlex import quote

from psycopg import sql
from psycopg.rows import dict_row
from pydantic import Field

from seller_platform.agents.asker import Asker
from seller_platform.agents.metrics import LINE_OF_ENTRY
from seller_platform.agents.proof import Asked, ChosenAccounts, Fact, ToolAnswer
from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.errors import UnanswerableError
from seller_platform.marts.rules.formulas import PAYOUTS
from seller_platform.marts.rules.payouts import payouts_query
from seller_platform.warehouse.loads.history_start import EARLIEST, stored_history_start
from seller_platform.warehouse.postgres.database import driver_of

_DAY = timedelta(days=1)

_PAYOUTS = """
WITH {payouts},
newest AS (
    SELECT account, currency, last_day, max(posted_date) AS last_moment, sum(amount) AS last_amount, usual_days
    FROM expected_payouts JOIN payouts USING (account, currency) WHERE local_day = last_day AND amount > 0
    GROUP BY account, currency, last_day, usual_days
)
SELECT account, currency, last_day, last_amount,
       coalesce(sum(amount) FILTER (WHERE NOT is_payout AND posted_date > last_moment), 0) AS earned_since,
       usual_days, last_day + usual_days AS expected_day, sum(amount) AS owed
FROM newest JOIN ledger USING (account, currency)
GROUP BY account, currency, last_day, last_amount, usual_days
ORDER BY account, currency
"""


class PayoutRow(Fact):
    """The payouts of an account in a currency."""

    account: str
    currency: str
    last_day: date
    last_amount: Decimal
    earned_since: Decimal = Field(description="The sum of what was posted after it, without payouts.")
    usual_days: int | None = Field(description="Between two payouts: the median of the newest six.")
    expected_day: date | None = Field(description="The next payout. One that is over is late, or not loaded.")
    owed: Decimal | None = Field(description="The sum of the stored ledger; null where a day of it is not stored.")


def list_payouts(asker: Asker, arguments: ChosenAccounts) -> ToolAnswer[PayoutRow]:
    """List the last payout of each account, what was earned since, what is owed, and when to expect the next payout.

    Raises:
        UnanswerableError: There is no such account, no payout is stored, or the ledger since the last one is not.
    """
    accounts = asker.chosen_accounts(arguments.accounts)
    keys = [each.key for each in accounts]
    is_payout = sql.SQL("{} = {}").format(LINE_OF_ENTRY, sql.Literal(PAYOUTS))
    is_asked = sql.SQL("account = ANY ({})").format(sql.Literal(keys))
    statement = sql.SQL(_PAYOUTS.strip()).format(payouts=payouts_query(is_payout, is_asked))
    with asker.database.begin() as connection:
        rows = driver_of(connection).cursor(row_factory=dict_row).execute(statement).fetchall()
    if not rows:
        step = "Ask `coverage` whether transactions are stored, and let `seller-platform sync` load them."
        raise UnanswerableError(f"no payout of {', '.join(keys[:10])} is stored", step)
    begin = stored_history_start(asker.database) or EARLIEST
    windows, unknown = list[Window](), dict[str, str]()
    of_rows = [each for each in accounts if each.key in {row["account"] for row in rows}]
    for each in of_rows:
        today = asker.today_of(each)
        since = min(today - _DAY, *(row["last_day"] for row in rows if row["account"] == each.key))
        whole = Window(min(begin, since), today)
        try:
            Asked(asker, [each], [whole], (TRANSACTIONS,)).require_days()
        except UnanswerableError as error:
            unknown[each.key] = error.reason
        windows.append(Window(since, today) if each.key in unknown else whole)
    asked = Asked(asker, of_rows, windows, (TRANSACTIONS,))
    absent = [key for key in keys if key not in asked.keys]
    return ToolAnswer(
        rows=tuple(PayoutRow(**row | ({"owed": None} if row["account"] in unknown else {})) for row in rows),
        notes=(
            "The upstream announces no payout: the expected day is computed, and it pays what was posted until its "
            "period closed.",
            f"What is owed is the sum of the ledger since {begin}, with what was read of today. What was owed before "
            "is not in it.",
            *(f"What is owed is not known: {reason}." for reason in unknown.values()),
            *([f"No payout is stored of {', '.join(absent)}."] if absent else []),
        ),
        proof=asked.prove(
            f"seller-platform query {quote(statement.as_string(None))}", {row["currency"] for row in rows}
        ),
    )
