"""The tools `accounts`, `coverage` and `problems`: what there is now, and what is wrong with it."""

from dataclasses import replace
from datetime import date, datetime
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema
from sqlalchemy import text

from seller_platform.agents.asker import Asker
from seller_platform.agents.proof import (
    MOST_PROBLEMS,
    ChosenAccounts,
    Fact,
    Names,
    NoArguments,
    Proof,
    Seen,
    ToolAnswer,
    hidden,
    zones_of,
)
from seller_platform.contract.datasets import DATASETS
from seller_platform.errors import UnanswerableError, did_you_mean
from seller_platform.warehouse.monitoring.problems import Problem, problems

_ACCOUNTS = text("""
    SELECT key, title, country_code AS country, currency_code AS currency, timezone AS time_zone,
           min(month) AS first_month, max(month) AS last_month, max(read_at) AS read_at
    FROM platform.accounts
    LEFT JOIN platform.slices ON account = key AND month IS NOT NULL AND load_id IS NOT NULL
    WHERE key = ANY (:accounts) GROUP BY key ORDER BY key
""")
_CHOSEN = """
    FROM platform.slices
    WHERE account = ANY (:accounts) AND load_id IS NOT NULL AND dataset = ANY (:datasets)
      AND (CAST(:month AS date) IS NULL OR month = date_trunc('month', CAST(:month AS date)))
"""
_SUMMARY = text(f"""
    SELECT dataset, count(DISTINCT account) AS accounts, count(*) AS slices, min(month) AS first_month,
           max(month) AS last_month, CAST(sum(rows) AS bigint) AS rows, string_agg(DISTINCT verdict, ', ') AS verdict,
           min(read_at) AS read_at
    {_CHOSEN} GROUP BY dataset ORDER BY dataset
""")
_SLICES = text(f"""
    SELECT dataset, account, month, load_id, rows, verdict, read_at,
           CASE WHEN month IS NOT NULL
                THEN (SELECT count(moment) FROM unnest(days_read) AS day (moment)) END AS days_read
    {_CHOSEN} ORDER BY dataset, account, month LIMIT 1000
""")  # noqa: S608  # constants


class AccountRow(Fact):
    """An account of a marketplace."""

    key: str = Field(description="What names the account in the other tools.")
    title: str
    country: str | None
    currency: str | None = Field(description="The currency of its sales.")
    time_zone: str = Field(description="Its days are days of this zone.")
    today: date = Field(description="Which day it is there now.")
    first_month: date | None = Field(description="The first month of which anything is stored.")
    last_month: date | None
    read_at: datetime | None = Field(description="When any of it was last read.")


class CoverageArguments(ChosenAccounts):
    """Accounts, and which of their slices to list."""

    datasets: Names = Field(default=(), description="Such as orders or transactions; empty for all.")
    month: (
        Annotated[
            date,
            BeforeValidator(lambda value: f"{value}-01" if isinstance(value, str) and len(value) == 7 else value),
            WithJsonSchema({"type": "string"}),
        ]
        | None
    ) = Field(default=None, description="As 2026-03; null for all, and lists without days.")


class SliceRow(Fact):
    """What is stored of a dataset: first in all, then by account and month."""

    dataset: str
    account: str | None = Field(default=None, description="Of a slice.")
    month: date | None = Field(default=None, description="The first day of the month, of a slice with days.")
    accounts: int | None = Field(default=None, description="How many have any; in the summary, as up to last_month.")
    slices: int | None = None
    first_month: date | None = None
    last_month: date | None = None
    load_id: int | None = Field(
        default=None, description="The newest; `seller-platform diff DATASET ACCOUNT` shows what it changed."
    )
    rows: int
    verdict: str
    read_at: datetime | None = Field(description="When it was last read; in the summary, the oldest of it.")
    days_read: int | None = Field(default=None, description="How many days of the month were ever read.")


def list_accounts(asker: Asker, _: NoArguments) -> ToolAnswer[AccountRow]:
    """List the marketplace accounts that you may see, with currency, time zone and the months that are stored.

    Ask this first: the other tools name an account by its key or its exact title.

    Raises:
        UnanswerableError: There are none.
    """
    accounts = asker.chosen_accounts()
    with asker.database.begin() as connection:
        found = connection.execute(_ACCOUNTS, {"accounts": [each.key for each in accounts]}).mappings()
        today = {each.key: asker.today_of(each) for each in accounts}
        rows = tuple(AccountRow(**row, today=today[row["key"]]) for row in found)
    return ToolAnswer(
        rows=rows,
        proof=Proof(
            as_of=min((row.read_at for row in rows if row.read_at), default=None),
            coverage="Every account that may be seen.",
            bound=asker.bound(),
            currencies=tuple(sorted({row.currency for row in rows if row.currency})),
            time_zones=zones_of(accounts),
            seen=Seen(command='seller-platform query "TABLE seller.accounts"'),
        ),
    )


def list_coverage(asker: Asker, arguments: CoverageArguments) -> ToolAnswer[SliceRow]:
    """List what is stored: first a row for each dataset, then its slices by account and month.

    Raises:
        UnanswerableError: There is no such account or dataset.
    """
    accounts, names = asker.chosen_accounts(arguments.accounts), [each.name for each in DATASETS]
    if unknown := [name for name in arguments.datasets if name not in names]:
        raise UnanswerableError(
            f"there is no dataset {unknown[0]!r}{did_you_mean(unknown[0], names)}", "The candidates are all.", names
        )
    chosen = {"datasets": list(arguments.datasets or names), "month": arguments.month}
    with asker.database.begin() as connection:
        rows = tuple(
            SliceRow(**row)
            for each in (_SUMMARY, _SLICES)
            for row in connection.execute(each, {"accounts": [each.key for each in accounts], **chosen}).mappings()
        )
    return ToolAnswer(
        rows=rows,
        notes=() if rows else ("Nothing of this is stored.",),
        proof=Proof(
            as_of=min((row.read_at for row in rows if row.read_at), default=None),
            coverage="What is stored of the accounts; a month with fewer days read than it has is not whole.",
            settledness="The proof of each figure says which of its days may still change.",
            bound=asker.bound(),
            time_zones=zones_of(accounts),
            seen=Seen(command="seller-platform status --datasets"),
        ),
    )


def list_problems(asker: Asker, arguments: ChosenAccounts) -> ToolAnswer[Problem]:
    """List what is wrong with the stored rows now, with the next step of each."""
    now, keys = asker.clock(), None
    if asker.accounts is not None or arguments.accounts:  # all others see those of connections, too
        keys = [each.key for each in asker.chosen_accounts(arguments.accounts)]
    found = problems(asker.database, accounts=keys)
    # In the rows, the first accounts and months are pairs; an agent gets each once.
    rows = tuple(
        replace(
            each,
            message=hidden(each.kind, each.message),
            accounts=tuple(dict.fromkeys(each.accounts)),
            months=tuple(dict.fromkeys(each.months)),
        )
        for each in found
    )
    return ToolAnswer(
        rows=rows,
        notes=() if rows else ("Nothing is known to be wrong.",),
        proof=Proof(
            as_of=now,
            coverage="Every dataset of the accounts that is read regularly.",
            problems=tuple(row.message for row in rows[:MOST_PROBLEMS]),
            bound=asker.bound(),
            seen=Seen(command='seller-platform query "TABLE platform.problems"', url=asker.dagster_url),
        ),
    )
