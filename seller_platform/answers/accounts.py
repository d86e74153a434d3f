"""The tool `accounts`: the accounts that may be seen, with currency, time zone and what is stored."""

from datetime import date, datetime

from pydantic import Field
from sqlalchemy import text

from seller_platform.answers.asker import Asker
from seller_platform.answers.proof import Fact, Proof, Seen, ToolAnswer

_STORED = text("""
    SELECT account, min(month) AS first_month, max(month) AS last_month, max(read_at) AS read_at
    FROM platform.slices WHERE account = ANY (:accounts) AND month IS NOT NULL AND load_id IS NOT NULL GROUP BY account
""")


class NoArguments(Fact):
    """A tool without arguments."""


class AccountRow(Fact):
    """An account of a marketplace."""

    key: str = Field(description="What names the account in the other tools.")
    title: str
    country: str | None
    currency: str | None = Field(description="The currency of its sales.")
    time_zone: str = Field(description="Its days are days of this zone.")
    first_month: date | None = Field(description="The first month of which anything is stored.")
    last_month: date | None
    read_at: datetime | None = Field(description="When any of it was last read.")


def list_accounts(asker: Asker, _: NoArguments) -> ToolAnswer[AccountRow]:
    """Answer which accounts may be seen."""
    seen = asker.seen_accounts()
    with asker.database.begin() as connection:
        rows = connection.execute(_STORED, {"accounts": [each.key for each in seen]})
        stored = {account: (first, last, read_at) for account, first, last, read_at in rows}
    listed = []
    for each in seen:
        first_month, last_month, read_at = stored.get(each.key, (None, None, None))
        account = AccountRow(
            key=each.key,
            title=each.account.title,
            country=each.account.country_code,
            currency=each.account.currency_code,
            time_zone=each.account.timezone,
            first_month=first_month,
            last_month=last_month,
            read_at=read_at,
        )
        listed.append(account)
    return ToolAnswer(
        rows=tuple(listed),
        proof=Proof(
            as_of=min((row.read_at for row in listed if row.read_at), default=None),
            coverage="Every account that may be seen.",
            settledness="Accounts change at any time.",
            bound=asker.bound(),
            currencies=tuple(sorted({row.currency for row in listed if row.currency})),
            time_zones=tuple(sorted({row.time_zone for row in listed})),
            seen=Seen(command='seller-platform query "TABLE seller.accounts"'),
        ),
    )
