"""Accounts with rows that were read under a former time zone or currency, until all of them are read again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import text

from seller_platform.contract import REFRESHED, Account
from seller_platform.warehouse.postgres.database import Database


@dataclass(frozen=True)
class ZoneChange:
    """An account whose rows were read under another time zone or currency than its present ones.

    Attributes:
        former: The former time zone and currency, as far as they differ.
        present: The present ones.
        read_at: When it was last read under the former ones.
        since: The first day that is to be read again.
    """

    account: str
    former: str
    present: str
    read_at: datetime
    since: date

    def __str__(self) -> str:
        return (
            f"it is in {self.present} now, and was last read under {self.former} on {self.read_at:%Y-%m-%d %H:%M} UTC"
        )

    @property
    def command(self) -> str:
        """What reads the rest at once."""
        return f"seller-platform sync --account {self.account} --from {self.since:%Y-%m}"


_ZONE_CHANGES = text("""
    WITH former AS MATERIALIZED (
        SELECT dataset, account, present.time_zone, present.currency, max(id) AS id, max(started_at) AS read_at,
               max(readings.time_zone) FILTER (WHERE readings.time_zone <> present.time_zone) AS former_zone,
               max(readings.currency) FILTER (WHERE readings.currency <> present.currency) AS former_currency,
               range_agg(daterange(window_start, window_end)) AS days
        FROM unnest(CAST(:accounts AS text[]), CAST(:zones AS text[]), CAST(:currencies AS text[]))
             AS present (account, time_zone, currency)
        JOIN platform.readings USING (account)
        WHERE dataset = ANY (:datasets)
          AND (readings.time_zone <> present.time_zone OR readings.currency <> present.currency)
        GROUP BY dataset, account, present.time_zone, present.currency
    )
    SELECT account, max(concat_ws(' and ', former_zone, former_currency)),
           max(concat_ws(' and ', CASE WHEN former_zone IS NOT NULL THEN time_zone END,
                         CASE WHEN former_currency IS NOT NULL THEN currency END)),
           max(read_at), min(lower(former.days - again.days))
    FROM former
    CROSS JOIN LATERAL (
        SELECT coalesce(range_agg(daterange(window_start, window_end)), '{}') AS days
        FROM platform.readings AS later
        WHERE later.dataset = former.dataset AND later.account = former.account AND later.id > former.id
    ) AS again
    WHERE NOT former.days <@ again.days
    GROUP BY account
    ORDER BY account
""")


def zone_changes(database: Database, accounts: Sequence[tuple[str, Account]]) -> tuple[ZoneChange, ...]:
    """Return the accounts with days of dated datasets that were read under a former time zone or currency.

    Args:
        accounts: The accounts as they are now, each with its key. Those that cannot be read are left out, and what one
            of them lacks is not compared.
    """
    usable = [(key, account) for key, account in accounts if account.problem is None]
    bound = {
        "datasets": [dataset.name for dataset in REFRESHED if dataset.is_dated],
        "accounts": [key for key, _ in usable],
        "zones": [account.timezone for _, account in usable],
        "currencies": [account.currency_code for _, account in usable],
    }
    return tuple(ZoneChange(*row) for row in database.execute(_ZONE_CHANGES, bound))
