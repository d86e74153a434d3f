"""What every question and answer has: arguments, rows, their proof, and the refusal of days that are not stored."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import quote

from psycopg.types.multirange import Multirange
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import text

from seller_platform.agents.asker import Asker
from seller_platform.commands import runnable_command
from seller_platform.contract import Dataset, Window
from seller_platform.counts import count_of
from seller_platform.errors import NotLoadedError, UnanswerableError
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.due import Derived, partition_states
from seller_platform.warehouse.loads.history_start import EARLIEST, stored_history_start
from seller_platform.warehouse.monitoring.problems import slice_problems
from seller_platform.warehouse.readers.loaded import require_loaded
from seller_platform.warehouse.readers.relations import Selection, relation_of

MOST_PROBLEMS = 10
"""How many problems an answer names."""

_DAY, _LONGEST = timedelta(days=1), timedelta(days=3_660)
_LAST = date(2999, 12, 31)
_PAIRS_NAMED = 20

# A day counts as stored if it was read after it was over; until then its rows are a part of it. The first row is of all
# datasets and accounts.
_DAYS = text("""
    WITH asked AS (
        SELECT dataset, lookback, account, zone, CAST(day AS date) AS day
        FROM unnest(CAST(:datasets AS text[]), CAST(:lookbacks AS integer[])) AS of_dataset (dataset, lookback)
        CROSS JOIN unnest(CAST(:accounts AS text[]), CAST(:zones AS text[]), CAST(:firsts AS timestamp[]),
                          CAST(:lasts AS timestamp[])) AS of_account (account, zone, first, last)
        CROSS JOIN generate_series(first, last, interval '1 day') AS day
    ),
    read AS (
        SELECT asked.*, daterange(day, day + 1) AS span, moment,
               CAST(moment AT TIME ZONE coalesce(time_zone, zone) AS date) - day AS after_days
        FROM asked
        LEFT JOIN platform.slices AS slice ON slice.dataset = asked.dataset AND slice.account = asked.account
                                          AND slice.month = date_trunc('month', asked.day)
        CROSS JOIN LATERAL (SELECT slice.days_read[extract(day FROM day)::integer]) AS of_day (moment)
    )
    SELECT dataset || ' of ' || account AS named, min(moment) AS read_at,
           range_agg(span) FILTER (WHERE coalesce(after_days, 0) < 1) AS missing,
           range_agg(span) - range_agg(span) FILTER (WHERE coalesce(after_days, 0) < 1) AS stored,
           range_agg(span) FILTER (WHERE after_days BETWEEN 1 AND lookback - 1) AS changing
    FROM read GROUP BY GROUPING SETS ((), (dataset, account)) ORDER BY dataset NULLS FIRST, account
""")

Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]*$")]
Names = Annotated[tuple[Name, ...], Field(max_length=100)]


class Fact(BaseModel):
    """A part of a question or an answer: it cannot be changed, and an amount is a text, so that no digit is lost."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)


class NoArguments(Fact):
    """A tool without arguments."""


class ChosenAccounts(Fact):
    """Accounts."""

    accounts: Names = Field(default=(), description="Keys or exact titles of accounts; empty for all that you may see.")


class Period(Fact):
    """Local days, both inclusive."""

    first_day: date
    last_day: date


class Seen(Fact):
    """Where a person sees the same numbers."""

    command: Annotated[str, AfterValidator(runnable_command)] = Field(description="A command that prints them.")
    url: str | None = Field(default=None, description="The page of the Dagster UI with the rows behind them.")


class Proof(Fact):
    """How far the rows of an answer can be trusted."""

    as_of: datetime | None = Field(default=None, description="The rows are those of the upstream then, or later.")
    period: Period | None = Field(default=None, description="The days that the rows are of; null where they have none.")
    coverage: str | None = Field(default=None, description="Which part of what was asked for is stored.")
    problems: tuple[str, ...] = Field(default=(), description="Failing checks, and what else is wrong with the rows.")
    settledness: str | None = Field(
        default=None, description="Which days may still change upstream; null without days."
    )
    bound: str | None = Field(default=None, description="How many slices of your accounts differ upstream at most.")
    currencies: tuple[str, ...] = Field(default=(), description="The currencies of the amounts, as ISO 4217 codes.")
    time_zones: tuple[str, ...] = Field(default=(), description="The time zones that days are days of.")
    seen: Seen = Field(description="Where a person sees the same numbers.")


Row = TypeVar("Row")


class ToolAnswer(Fact, Generic[Row]):
    """Rows, and their proof."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = Field(default=(), description="What has to be said with the numbers.")
    proof: Proof
    today: dict[str, date] = Field(default={}, description="Which day it is now, in UTC and the accounts' zones.")

    def as_json(self) -> dict[str, Any]:
        """Return the answer as JSON has it. Rows have only what is said of them, and amounts are plain digits."""
        rows = self.model_dump(include={"rows"}, exclude_unset=True)
        content: dict[str, Any] = json.loads(json.dumps({**self.model_dump(), **rows}, default=_plain))
        return content


def _plain(value: object) -> str:
    """Return a value that JSON does not have; of an amount never the form 1E+3."""
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, date) else str(value)


@dataclass(frozen=True)
class Asked:
    """What a question is about: accounts, days and what the answer is computed from.

    Attributes:
        windows: The days of each account.
        marts: The marts that the answer is read from; without any, it is read from the tables of the datasets.
        checked: Marts whose problems count, too: those with the same numbers at any grain, or of other rows that are
            read.
    """

    asker: Asker
    accounts: Sequence[KnownAccount]
    windows: Sequence[Window]
    datasets: Sequence[Dataset]
    marts: Sequence[Mart] = ()
    checked: Sequence[Mart] = ()

    @property
    def keys(self) -> list[str]:
        return [each.key for each in self.accounts]

    @property
    def inputs(self) -> list[str]:
        """The names of all datasets that the answer is computed from, also of those without days."""
        of_marts = (each for mart in self.marts for each in mart.datasets)
        return list(dict.fromkeys(each.name for each in (of_marts if self.marts else self.datasets)))

    @property
    def tables(self) -> list[str]:
        """The tables with the answer."""
        return [each.table for each in self.marts or self.datasets]

    @property
    def window(self) -> Window:
        """All days, from the first to the last of any account."""
        return Window(min(each.start for each in self.windows), max(each.end for each in self.windows))

    @property
    def months(self) -> list[Window]:
        """The whole months that the days lie in."""
        return [Window.month_of(each.start) for each in self.window.months()]

    def prove(self, command: str, currencies: Collection[str] = ()) -> Proof:
        """Return the proof of an answer, of which every day is stored as a whole.

        Args:
            command: It prints the same numbers.

        Raises:
            UnanswerableError: The period is not in history, a day is not stored, or a mart was not built.
        """
        self._require_history()
        database, months = self.asker.database, [each.start for each in self.months]
        read_at, changing = self.require_days()
        of_checked = {name for mart in self.checked for name in (mart.table, *(each.name for each in mart.datasets))}
        subjects = {*self.tables, *self.inputs, *of_checked}
        found = slice_problems(database, subjects, accounts=self.keys, months=months)
        problems = [f"{each.subject}: {hidden(each.kind, each.message)}" for each in found]
        for mart in self.marts:
            try:
                require_loaded(database, relation_of(mart), [Selection(key, self.window) for key in self.keys])
            except NotLoadedError as error:  # one command builds all that the answer needs
                every = " ".join(each.name for each in self.marts)
                step = error.next_step.replace(f"marts build {mart.name}", f"marts build {every}")
                raise UnanswerableError(error.problem_alone, step) from None
            with database.begin() as connection:
                states = partition_states(connection, Derived.of(mart), self.keys, self.months)
            problems += [
                f"{mart.table} of {each.account}, {each.month:%Y-%m}: it is older than what it is made of; "
                "`seller-platform marts build` builds it."
                for each in states
                if not each.is_current
            ]
        page, partition = self.tables[0].replace(".", "/"), f"{self.keys[0]}|{self.window.start.replace(day=1)}"
        days = [each.days for each in self.windows]
        fewest, most = min(days), max(days)
        url = self.asker.dagster_url and f"{self.asker.dagster_url}/assets/{page}?partition={quote(partition)}"
        return Proof(
            as_of=read_at,
            period=Period(first_day=self.window.start, last_day=self.window.last_day),
            coverage=f"Every day is stored: {f'{fewest:,} to ' if fewest < most else ''}{count_of(most, 'day')} of "
            f"{count_of(len(self.accounts), 'account')}, of {', '.join(each.name for each in self.datasets)}.",
            problems=tuple(problems[:MOST_PROBLEMS]),
            bound=self.asker.bound(),
            settledness=f"The upstream may still change {changing}." if changing else "All days have settled.",
            currencies=tuple(sorted(currencies)),
            time_zones=zones_of(self.accounts),
            seen=Seen(command=command, url=url),
        )

    def require_days(self) -> tuple[datetime, str]:
        """Return when the first of the days was read, and those that may still change upstream; maybe none.

        Raises:
            UnanswerableError: Some were not read after they were over; the message names them, and others to ask for.
        """
        bound = {
            "datasets": [each.name for each in self.datasets],
            "lookbacks": [each.lookback_days for each in self.datasets],
            "accounts": self.keys,
            "zones": [each.account.timezone for each in self.accounts],
            "firsts": [each.start for each in self.windows],
            "lasts": [each.last_day for each in self.windows],
        }
        total, *pairs = self.asker.database.execute(_DAYS, bound).all()
        if total.missing:
            named = [f"{each.named}, {_spelled(each.missing)}" for each in pairs if each.missing]
            longest = max(_windows(total.stored), key=lambda each: each.days, default=None)
            raise UnanswerableError(
                f"days are not stored as a whole: {'; '.join(named[:_PAIRS_NAMED])}",
                f"{f'Ask for {longest}, which are stored, or first' if longest else 'First'} let "
                "`seller-platform sync` load them; a day is whole when it was read after its end.",
            )
        return total.read_at, _spelled(total.changing)

    def _require_history(self) -> None:
        begin = stored_history_start(self.asker.database) or EARLIEST
        if self.window.start < begin:
            raise UnanswerableError(
                f"history begins on {begin}, and the period on {self.window.start}",
                f"Ask for days from {begin} on, or load earlier months with `seller-platform sync --from MONTH`.",
            )
        today = min(map(self.asker.today_of, self.accounts))
        if self.window.start >= today:
            raise UnanswerableError(
                f"the period begins on {self.window.start}, and the last day that is over is {today - _DAY}",
                "Ask for days that are over: nothing here predicts sales.",
            )


def zones_of(accounts: Iterable[KnownAccount]) -> tuple[str, ...]:
    """Return the time zones of accounts."""
    return tuple(sorted({each.account.timezone for each in accounts}))


def hidden(kind: str, message: str) -> str:
    """Return the message of a problem without the account of another seller that it may name."""
    return "Rows are also in the ledger of another account." if kind == "repeated" else message


def beyond(limit: int, rows: Sequence[object]) -> list[str]:
    """Return the note that there are more rows than the limit, if there are."""
    return [f"There are more rows than the limit of {limit}."] if len(rows) > limit else []


def period_of(first_day: date, last_day: date) -> Window:
    """Return the days of a period.

    Raises:
        UnanswerableError: It ends before it begins, is longer than ten years, or lies beyond the calendar.
    """
    if not EARLIEST <= first_day <= last_day <= min(_LAST, first_day + _LONGEST):
        raise UnanswerableError(
            f"{first_day} to {last_day} is no period of at most {_LONGEST.days:,} days from {EARLIEST} to {_LAST}",
            "Give the first day and the last day, both inclusive, as 2026-03-01 and 2026-03-31.",
        )
    return Window(first_day, last_day + _DAY)


def _windows(days: Multirange[date] | None) -> list[Window]:
    return [Window(each.lower, each.upper) for each in days or () if each.lower and each.upper]


def _spelled(days: Multirange[date] | None) -> str:
    return ", ".join(str(each) if each.days > 1 else str(each.start) for each in _windows(days))
