"""Discovers the accounts that a connection can read."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import select

from seller_platform.client.endpoints.accounts import Discovered, fetch_accounts, fetch_user
from seller_platform.client.http.api import SellerApi
from seller_platform.clocks import utc_now
from seller_platform.contract import LISTS, Account, Window, account_key
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.contract.loads import WAITING
from seller_platform.errors import (
    ACCOUNTS_NAMED,
    ImplausibleReadingError,
    SellerPlatformError,
    WarehouseUnavailableError,
    first_few,
)
from seller_platform.ingest.loads.slices import published, read_slice
from seller_platform.ingest.loads.telemetry import observed_load
from seller_platform.warehouse.connections.accounts import (
    KnownAccount,
    KnownConnection,
    accounts,
    accounts_by_key,
    save_accounts,
    save_user,
)
from seller_platform.warehouse.loads.holds import Accepted, Judge
from seller_platform.warehouse.loads.receipts import Receipt, Slice, newest_day_in_another_currency
from seller_platform.warehouse.loads.refusals import forget_refusal, keep_refusal
from seller_platform.warehouse.loads.slices import Load, open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import table_for

_LOG = logging.getLogger(__name__)


def discover(
    api: Callable[[str], SellerApi],
    database: Database,
    connection: KnownConnection,
    *,
    run_id: str | None,
    second_reading_seconds: float = 0,
    accepted: Accepted | None = None,
    repairs: str | None = None,
) -> tuple[Sequence[KnownAccount], Receipt]:
    """Store the accounts that a connection can read, and return them with the receipt.

    Accounts that it can no longer read are retired in the registry; their rows stay. A list that contradicts the stored
    one is read once more, and then held; its accounts keep their facts. Why a list could not be stored is kept until
    one is, also where its API could not be opened.

    Args:
        second_reading_seconds: The pause before the second reading.
        accepted: The doubt of a held list; a list that says the same is published.
        repairs: Who asked to store what is listed: rows are compared by value.

    Raises:
        ReadingHeldError: The list is held. Only its receipt was stored.
        ContractViolationError: An account lacks a field that is needed to read it. Nothing was stored.
        UpstreamUnavailableError: The API did not answer. Nothing was stored.
    """

    def read(opened: SellerApi, *, is_second: bool) -> tuple[Sequence[KnownAccount], Receipt]:
        started_at = utc_now()
        slice_ = Slice(ACCOUNTS, connection.name, Window.day(started_at.date()))
        with observed_load(slice_, run_id=run_id) as stored:
            user = fetch_user(opened)
            with open_load(database, slice_, by_value=accepted.by if accepted else repairs) as load:
                discovered, identities = read_accounts(opened, database, load)
                listed, facts = discovered.accounts, discovered.facts
                save_user(database, connection.name, *user)
                notes = dict(facts.notes)
                if unusable := {each.key: each.problem for each in listed if each.problem is not None}:
                    notes["unusable_accounts"] = unusable
                known = [KnownAccount(each.key, connection.name, each) for each in listed]
                waiting = {} if identities else _doubtful_changes(opened, database, known)
                if waiting:
                    notes[WAITING] = list(waiting)
                facts = replace(facts, requests=facts.requests + 1, notes=notes)
                account = identities or first_few([*waiting.values()], ACCOUNTS_NAMED)
                judge = Judge((), is_second, accepted, account, needs_person=bool(identities))
                receipt = stored(load.store(facts, started_at=started_at, run_id=run_id, judge=judge))
                published(receipt)
                save_accounts(database, connection.name, [(each.key, each.account) for each in known])
        return known, receipt

    try:
        opened = api(connection.name)
        try:
            accounts_read = read(opened, is_second=accepted is not None)
        except ImplausibleReadingError as error:
            _LOG.warning("%s, in %g s", error, second_reading_seconds)
            time.sleep(second_reading_seconds)
            accounts_read = read(opened, is_second=True)
    except WarehouseUnavailableError:
        raise
    except SellerPlatformError as error:
        keep_refusal(database, ACCOUNTS, connection.name, None, error, run_id=run_id)
        raise
    forget_refusal(database, ACCOUNTS, connection.name, None)
    return accounts_read


def read_accounts(api: SellerApi, database: Database, load: Load) -> tuple[Discovered, str]:
    """Read the list of a connection's accounts into the spool of a load; return it as `with_keys` does.

    No other connection gives keys to accounts until the load ends: it may list the same ones. The errors are those of
    `discover`.
    """
    discovered = fetch_accounts(api, load.slice.account)
    load.hold("account keys")
    listed, others = with_keys(database, load.slice.account, discovered.accounts)
    # One by one, because each row is stored under the key of its own account.
    for position, (account, row) in enumerate(zip(listed, discovered.rows, strict=True)):
        extras = {0: discovered.extras[position]} if position in discovered.extras else {}
        load.spool.write([row], extras=extras, page=1, account=account.key)
    return replace(discovered, accounts=listed), others


def _doubtful_changes(api: SellerApi, database: Database, listed: Sequence[KnownAccount]) -> dict[str, str]:
    """Return the accounts whose other time zone or currency is in doubt, by key, and how each changed.

    It is if most accounts change at once. A currency is also in doubt if amounts of a settled day stay.
    """
    stored = accounts_by_key(database, [each.key for each in listed])
    changed = {}
    for each in listed:
        facts = [(of.account.timezone, of.account.currency_code) for of in (stored.get(each.key, each), each)]
        if any(before and after and before != after for before, after in zip(*facts, strict=True)):
            was, now = (" with ".join(filter(None, of)) for of in facts)
            changed[each.key] = f"{each.key} was in {was} and is in {now}"
    if len(changed) > 1 and 2 * len(changed) > len(stored):
        return changed
    known = [each for each in listed if each.key in changed and _amounts_stay(api, database, each)]
    return {each.key: f"{changed[each.key]}, with the same amounts" for each in known}


def _amounts_stay(api: SellerApi, database: Database, account: KnownAccount) -> bool:
    """Whether a settled day that was read under another currency than the present one has the same amounts.

    A day that cannot be read may have them.
    """
    today = utc_now().date()
    for dataset in [each for each in LISTS if each.is_divisible and each.money and not each.is_computed]:
        before = today - timedelta(days=dataset.lookback_days)
        day = newest_day_in_another_currency(database, dataset, account, before)
        if day is None:
            continue
        try:
            with open_load(database, Slice.of(account, dataset, Window.day(day)), by_value="a comparison") as load:
                read_slice(api, database, account, load)
                apart = load.compare()
        except WarehouseUnavailableError:
            raise
        except SellerPlatformError:
            return True
        of_both = (apart.first_listed, apart.first_stored)
        listed, stored = (Counter(tuple(row[each.name] for each in dataset.money) for row in rows) for rows in of_both)
        return apart.listed == apart.stored and listed == stored
    return False


_SURE = 2


def with_keys(database: Database, connection: str, listed: Sequence[Account]) -> tuple[tuple[Account, ...], str]:
    """Return the accounts that a connection lists with their keys, and which have another number or seller than before.

    An account is recognised by its number, unless another seller has it now. Then its seller and marketplace decide.
    Another connection's account is the same one where all are equal.
    """
    stored = accounts(database, with_retired=True)
    own = [each for each in stored if each.connection == connection]
    by_all = {(each.account.id, each.account.seller): each for each in stored if each.account.seller}
    by_number = {each.account.id: each for each in own}
    by_seller = {each.account.seller: each for each in own if each.account.seller}

    def recognised(account: Account) -> tuple[KnownAccount | None, ...]:
        """Return the stored accounts that this one may be: two that are sure, and two that are not."""
        seller, same = account.seller or "", by_number.get(account.id)
        has_one_seller = same is None or not (seller and same.account.seller)
        return by_all.get((account.id, seller)), same if has_one_seller else None, by_seller.get(seller), same

    keys: dict[int, str] = {}
    changed = []
    for rank, candidates in enumerate(zip(*map(recognised, listed), strict=True)):
        for account, former in zip(listed, candidates, strict=True):
            if former is None or account.id in keys or former.key in keys.values():
                continue
            keys[account.id] = former.key
            if rank >= _SURE:
                was, now = (f"account {each.id} of seller {each.seller}" for each in (former.account, account))
                changed.append(f"{former.key} was {was} and is {now}")
    with database.begin() as transaction:
        # Generated accounts are stored without a connection.
        taken = {*transaction.execute(select(table_for(ACCOUNTS).c.account)).scalars(), *(each.key for each in stored)}
    for account in listed:
        key = keys.get(account.id) or account_key(account, connection)
        while account.id not in keys and key in taken:
            key += "-2"
        keys[account.id] = key
    return tuple(replace(account, key=keys[account.id]) for account in listed), first_few(changed, ACCOUNTS_NAMED)
