"""Reads and changes the stored cost periods of accounts, in their newest snapshots.

A change waits for other changes of the same account, so that its checks still hold when it is written. It changes the
newest snapshot and deletes older ones, which would otherwise count again once the newest is empty.

The costs of a replica cannot be changed: its next load would undo the change. An account is a replica if a connection
of this database lists it, or ever listed it; receipts do not decide that.
"""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from typing import LiteralString

import msgspec
from psycopg import sql

from seller_platform.contract.cost_periods import Periods, with_cents
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.wire import REPLICA
from seller_platform.service.access import SelectedAccounts, ServedAccount
from seller_platform.service.errors import ApiError, InvalidParametersError
from seller_platform.service.http.bodies import parse_json
from seller_platform.service.http.parameters import shown
from seller_platform.service.limits import Limits
from seller_platform.service.lists.daily_totals import apply_costs
from seller_platform.service.lists.page_queries import newest_day
from seller_platform.service.lists.products import Skus
from seller_platform.service.pool import Connection
from seller_platform.service.sums.costs import ROW_HASH
from seller_platform.warehouse.postgres.advisory_locks import LOCK

ELEMENT_FIELDS = ("cost_element", "amount", "currency", "provider", "notes")

_MOST_PROBLEMS = 20

_ENCODER = msgspec.json.Encoder(decimal_format="number")

_READ = """
SELECT requested.account, requested.sku, period.from_date, period.to_date, period.cost_elements::text
FROM unnest(%(accounts)s::text[], %(skus)s::text[]) AS requested (account, sku)
JOIN seller.cost_periods AS period ON period.account = requested.account AND period.sku = requested.sku
WHERE period.local_day = {newest_day} AND period.account = ANY(%(accounts)s::text[])
ORDER BY period.account COLLATE "C", period.sku COLLATE "C", period.from_date, period.to_date
"""

_SNAPSHOT = "SELECT max(local_day) FROM seller.cost_periods WHERE account = %s"
_DELETE_OLDER = "DELETE FROM seller.cost_periods WHERE account = %s AND local_day < %s"

# Stored periods of a product do not overlap, so that of those before a day only the last may reach it.
_OVERLAP = """
SELECT requested.position - 1, stored.from_date, stored.to_date
FROM unnest(%(first_days)s::date[], %(last_days)s::date[]) WITH ORDINALITY AS requested (first_day, last_day, position)
CROSS JOIN LATERAL (
    (
        SELECT from_date, to_date FROM seller.cost_periods
        WHERE account = %(account)s AND local_day = %(snapshot)s AND sku = %(sku)s AND from_date < requested.first_day
        ORDER BY from_date DESC
        LIMIT 1
    )
    UNION ALL
    SELECT from_date, to_date FROM seller.cost_periods
    WHERE account = %(account)s AND local_day = %(snapshot)s AND sku = %(sku)s
      AND from_date BETWEEN requested.first_day AND requested.last_day
) AS stored
WHERE coalesce(stored.to_date, 'infinity') >= requested.first_day
  AND (stored.from_date, stored.to_date) IS DISTINCT FROM (requested.first_day, requested.last_day)
ORDER BY requested.position, stored.from_date
LIMIT 20
"""

_STORED = """
SELECT count(*), count(sent.first_day), (SELECT periods FROM service.cost_versions WHERE account = %(account)s)
FROM seller.cost_periods
LEFT JOIN unnest(%(first_days)s::date[], %(last_days)s::date[]) AS sent (first_day, last_day)
  ON (from_date, to_date) = (sent.first_day, sent.last_day)
WHERE account = %(account)s AND local_day = %(snapshot)s AND sku = %(sku)s
"""
_STORED_OF_ACCOUNT = "SELECT count(*) FROM seller.cost_periods WHERE account = %(account)s AND local_day = %(snapshot)s"

_REPLACE: LiteralString = """
WITH deleted AS (
    DELETE FROM seller.cost_periods AS period
    USING unnest(%(first_days)s::date[], %(last_days)s::date[]) AS sent (first_day, last_day)
    WHERE account = %(account)s AND local_day = %(snapshot)s AND sku = %(sku)s
      AND from_date = sent.first_day AND to_date = sent.last_day
    RETURNING {row_hash} AS hash
),
stored AS (
    INSERT INTO seller.cost_periods AS period
        (sku, from_date, to_date, cost_elements, local_day, account, load_id, page)
    SELECT %(sku)s, first_day, last_day, elements, %(snapshot)s, %(account)s, 0, 0
    FROM unnest(%(first_days)s::date[], %(last_days)s::date[], %(elements)s::jsonb[])
         AS sent (first_day, last_day, elements)
)
SELECT count(*), coalesce(sum(hash), 0) FROM deleted
""".replace("{row_hash}", ROW_HASH)
# PostgreSQL cannot return it of rows that it inserts into a partitioned table.
_HASH: LiteralString = """
SELECT coalesce(sum({row_hash}), 0)
FROM seller.cost_periods AS period
JOIN unnest(%(first_days)s::date[], %(last_days)s::date[]) AS sent (first_day, last_day)
  ON (from_date, to_date) = (sent.first_day, sent.last_day)
WHERE account = %(account)s AND local_day = %(snapshot)s AND sku = %(sku)s
""".replace("{row_hash}", ROW_HASH)

_DELETE: LiteralString = """
WITH deleted AS (
    DELETE FROM seller.cost_periods AS period
    WHERE account = %(account)s AND local_day = %(snapshot)s AND sku = ANY(%(skus)s)
      AND (%(first_day)s::date IS NULL OR (from_date, to_date) = (%(first_day)s, %(last_day)s))
    RETURNING {row_hash} AS hash
)
SELECT count(*), -coalesce(sum(hash), 0) FROM deleted
""".replace("{row_hash}", ROW_HASH)


async def read_stored(connection: Connection, selected: SelectedAccounts, skus: Skus, *, with_skus: bool) -> bytes:
    """Return the periods of products, as comma-separated JSON objects; of a group, each with its account and SKU."""
    is_group = selected.selector.group_title is not None
    pairs = [(account.key, sku) for account in selected.accounts for sku in skus.get(account.key, ())]
    values = {"accounts": [account for account, _ in pairs], "skus": [sku for _, sku in pairs]}
    cursor = await connection.execute(sql.SQL(_READ).format(newest_day=newest_day(COST_PERIODS)), values)
    owners = {
        account.key: {
            "account_title": account.account_title,
            "seller_id": account.seller_id,
            "marketplace_id": account.marketplace,
        }
        for account in selected.accounts
    }
    periods = [
        {"from_date": first, "to_date": last, "cost_elements": _elements(elements)}
        | (owners[account] if is_group else {})
        | ({"sku": sku} if is_group or with_skus else {})
        for account, sku, first, last, elements in await cursor.fetchall()
    ]
    return b",".join(map(_ENCODER.encode, periods))


async def write_periods(
    connection: Connection, selected: SelectedAccounts, sku: str, periods: Periods, *, now: datetime, limits: Limits
) -> int:
    """Store periods of a product in each account, and return how many were stored.

    They replace periods with the same dates.

    Raises:
        ApiError: An account is a replica. Nothing was stored.
        InvalidParametersError: A period overlaps a stored one with other dates, a conversion has no currency or
            several, or there would be more periods than the limits allow. Nothing was stored.
    """
    _refuse_conversions(selected, periods)
    values = {
        "sku": sku,
        "first_days": [period.from_date for period in periods],
        "last_days": [period.to_date for period in periods],
    }
    async with connection.transaction():
        await _reserve(connection, selected)
        for account in selected.accounts:
            snapshot = await _snapshot(connection, account) or account.today(now)
            elements = []
            for period in periods:
                of_period = [
                    {name: getattr(element, name) for name in ELEMENT_FIELDS}
                    | ({"currency": account.currency_code} if element.is_converted else {})
                    for element in period.cost_elements
                ]
                elements.append(_ENCODER.encode(of_period).decode())
            chosen = {**values, "account": account.key, "snapshot": snapshot}
            overlaps = await (await connection.execute(_OVERLAP, chosen)).fetchall()
            problems: dict[str, list[str]] = {}
            for position, first, last in overlaps:
                problem = (
                    f"{periods[position]} overlaps the stored period {first}..{last or ''}; "
                    "send its dates to replace it, or delete it first"
                )
                problems.setdefault(f"data[{position}].dates", []).append(problem)
            if problems:
                raise InvalidParametersError(problems)
            await _require_room(connection, account, chosen, len(periods), limits)
            replaced = await connection.execute(_REPLACE, {**chosen, "elements": elements})
            gone, hash_of_gone = await replaced.fetchone() or (0, Decimal(0))
            (rows_hash,) = await (await connection.execute(_HASH, chosen)).fetchone() or (Decimal(0),)
            changes = {"added": len(periods) - gone, "rows_hash": rows_hash - hash_of_gone}
            await apply_costs(connection, account.key, [sku], **changes)
    return len(periods) * len(selected.accounts)


async def _require_room(
    connection: Connection, account: ServedAccount, chosen: Mapping[str, object], sent: int, limits: Limits
) -> None:
    """Refuse more periods of an account or a product than the limits allow, unless they are no more than before."""
    of_product, replaced, of_account = await (await connection.execute(_STORED, chosen)).fetchone() or (0, 0, 0)
    added = sent - replaced
    if of_account is None or of_account + added > limits.periods_of_account:
        # The kept number may be another one where rows were written by another program.
        (of_account,) = await (await connection.execute(_STORED_OF_ACCOUNT, chosen)).fetchone() or (0,)
    for what, stored, most in (
        (f"the product {shown(str(chosen['sku']))}", of_product, limits.periods_of_product),
        (f"the account {account.account_title}", of_account, limits.periods_of_account),
    ):
        if added > 0 and stored + added > most:
            problem = (
                f"would add {added:,} cost periods to the {stored:,} that {what} has; at most {most:,} are kept. "
                "Delete periods that are no longer needed, store equal costs as one longer period, or ask the operator "
                "of the service for more"
            )
            raise InvalidParametersError({"data": [problem]})


async def delete_periods(
    connection: Connection, selected: SelectedAccounts, skus: Skus, dates: tuple[date, date] | None
) -> int:
    """Delete the periods of products, and return how many were deleted.

    Args:
        dates: First and last day of the one period to delete; None deletes all.

    Raises:
        ApiError: An account is a replica. Nothing was deleted.
    """
    first, last = dates or (None, None)
    deleted = 0
    async with connection.transaction():
        await _reserve(connection, selected)
        for account in selected.accounts:
            snapshot = await _snapshot(connection, account)
            of_account = skus.get(account.key, [])
            values = {"account": account.key, "snapshot": snapshot, "skus": of_account}
            deletion = await connection.execute(_DELETE, {**values, "first_day": first, "last_day": last})
            count, rows_hash = await deletion.fetchone() or (0, Decimal(0))
            if count:
                await apply_costs(connection, account.key, of_account, added=-count, rows_hash=rows_hash)
            deleted += count
    return deleted


async def _reserve(connection: Connection, selected: SelectedAccounts) -> None:
    """Lock the accounts until the transaction ends, and refuse replicas."""
    for account in selected.accounts:
        if account.is_replica:
            raise ApiError(
                f"the rows of account {account.key} are a copy, loaded from another service: "
                "change its costs there, and the next load brings them here",
                status=403,
                reason=REPLICA,
            )
    for key in sorted(selected.keys):
        await connection.execute(LOCK, {"name": f"seller.cost_periods {key}"})


async def _snapshot(connection: Connection, account: ServedAccount) -> date | None:
    """Return the day of the newest snapshot after deleting older ones; None without any."""
    newest = await (await connection.execute(_SNAPSHOT, (account.key,))).fetchone()
    day: date | None = newest[0] if newest else None
    if day is not None:
        await connection.execute(_DELETE_OLDER, (account.key, day))
    return day


def _refuse_conversions(selected: SelectedAccounts, periods: Periods) -> None:
    """Refuse conversions where the accounts keep several currencies, or one that is not known."""
    if len(selected.currencies) == 1 and selected.accounts[0].currency_code:
        return
    allowed = f"converts to the currency of the account, but the accounts keep {', '.join(selected.currencies)}"
    problems = {
        f"data[{number}].cost_elements[{position}].conversion_rate": [f"{allowed}; write to one account at a time"]
        for number, period in enumerate(periods)
        for position, element in enumerate(period.cost_elements)
        if element.is_converted
    }
    if problems:
        raise InvalidParametersError(dict(islice(problems.items(), _MOST_PROBLEMS)))


def _elements(stored: str | None) -> object:
    """Return stored elements with the fields of the API, and amounts with two decimals."""
    elements = parse_json((stored or "[]").encode())
    if not isinstance(elements, list):
        return elements
    for element in elements:
        if isinstance(element, dict) and isinstance(element.get("amount"), Decimal):
            element["amount"] = with_cents(element["amount"])
    return [
        {name: element.get(name) for name in ELEMENT_FIELDS} if isinstance(element, dict) else element
        for element in elements
    ]
