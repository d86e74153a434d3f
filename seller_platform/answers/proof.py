"""What every answer carries beside its rows, and the refusal of days that are not stored."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, text

from seller_platform.answers.asker import Asker
from seller_platform.contract import Dataset, Window
from seller_platform.counts import count_of
from seller_platform.errors import UnanswerableError
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.history_start import EARLIEST, stored_history_start
from seller_platform.warehouse.marts import Mart

MOST_PROBLEMS = 20
"""How many problems an answer names."""

_DAY, _LONGEST = timedelta(days=1), timedelta(days=3_660)
_LAST = date(2999, 12, 31)

# A day counts as stored if it was read after it was over; until then its rows are a part of it.
_DAYS = text("""
    WITH asked AS (
        SELECT dataset, lookback, account, zone, CAST(day AS date) AS day
        FROM unnest(CAST(:datasets AS text[]), CAST(:lookbacks AS integer[])) AS of_dataset (dataset, lookback)
        CROSS JOIN unnest(CAST(:accounts AS text[]), CAST(:zones AS text[])) AS of_account (account, zone)
        CROSS JOIN generate_series(CAST(:first AS timestamp), CAST(:last AS timestamp), interval '1 day') AS day
    ),
    read AS (
        SELECT asked.*, moment, CAST(moment AT TIME ZONE coalesce(time_zone, zone) AS date) - day AS after_days
        FROM asked
        LEFT JOIN platform.slices AS slice ON slice.dataset = asked.dataset AND slice.account = asked.account
                                          AND slice.month = date_trunc('month', asked.day)
        CROSS JOIN LATERAL (SELECT slice.days_read[extract(day FROM day)::integer]) AS of_day (moment)
    )
    SELECT dataset, account, min(moment) AS read_at,
           range_agg(daterange(day, day + 1)) FILTER (WHERE coalesce(after_days, 0) < 1) AS missing,
           range_agg(daterange(day, day + 1)) FILTER (WHERE after_days BETWEEN 1 AND lookback - 1) AS changing
    FROM read GROUP BY dataset, account ORDER BY dataset, account
""")

# What lacks days is not among them: questions about such days are refused.
_PROBLEMS = text("""
    SELECT DISTINCT dataset || ' of ' || account || coalesce(to_char(month, ', YYYY-MM'), '') || ': ' AS named, kind,
           message
    FROM platform.problems
    WHERE dataset = ANY (:names) AND account = ANY (:accounts) AND kind NOT IN ('missing', 'incomplete', 'late')
      AND (month IS NULL OR month BETWEEN date_trunc('month', CAST(:first AS timestamp)) AND :last)
    ORDER BY 1, 2, 3
""")

# A mart that was computed before the newest load of what it is computed from shows the former numbers.
_BUILDS = text("""
    SELECT part.account, part.month, build.finished_at, coalesce(bool_or(changed_load_id > read_load), false) AS is_old
    FROM (SELECT account, month FROM unnest(CAST(:accounts AS text[])) AS account
                                CROSS JOIN unnest(CAST(:months AS date[])) AS month) AS part
    LEFT JOIN LATERAL (
        SELECT loads, finished_at FROM platform.mart_builds AS built
        WHERE mart = :mart AND built.account = part.account AND window_start = part.month ORDER BY id DESC LIMIT 1
    ) AS build ON true
    LEFT JOIN LATERAL (
        SELECT changed_load_id, coalesce(CAST(build.loads ->> dataset AS bigint), 0) AS read_load
        FROM platform.slices AS slice
        WHERE slice.dataset = ANY (:datasets) AND slice.account = part.account AND slice.month = part.month
    ) AS input ON true
    GROUP BY 1, 2, 3 ORDER BY 1, 2
""")


class Fact(BaseModel):
    """A part of an answer: it cannot be changed, and an amount is a text, so that no digit is lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Period(Fact):
    """Local days, both inclusive."""

    first_day: date
    last_day: date


class Seen(Fact):
    """Where a person sees the same numbers."""

    command: str = Field(description="A command that prints them.")
    url: str | None = Field(
        default=None, description="The page of the Dagster UI with the rows that they are computed from."
    )


class Proof(Fact):
    """How far the rows of an answer can be trusted."""

    as_of: datetime | None = Field(
        description="The rows are those of the upstream at this moment or later; null where they come from no upstream."
    )
    period: Period | None = Field(default=None, description="The days that the rows are of; null where they have none.")
    coverage: str = Field(description="Which part of what was asked for is stored.")
    problems: tuple[str, ...] = Field(default=(), description="Failing checks, and what else is wrong with the rows.")
    settledness: str = Field(description="Which of the days may still change upstream.")
    bound: str | None = Field(
        default=None,
        description="How many of all stored slices differ from the upstream at most; null where no row is of one.",
    )
    currencies: tuple[str, ...] = Field(default=(), description="The currencies of the amounts, as ISO 4217 codes.")
    time_zones: tuple[str, ...] = Field(default=(), description="The time zones that days are days of.")
    seen: Seen = Field(description="Where a person sees the same numbers.")


Row = TypeVar("Row", bound=Fact)


class ToolAnswer(Fact, Generic[Row]):
    """Rows, and their proof."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = Field(default=(), description="What has to be said with the numbers.")
    proof: Proof


@dataclass(frozen=True)
class Asked:
    """What a question is about: accounts, days and what the answer is computed from.

    Attributes:
        datasets: The dated datasets.
        mart: The mart that the answer is read from; None for the tables of the datasets.
    """

    asker: Asker
    accounts: Sequence[KnownAccount]
    window: Window
    datasets: Sequence[Dataset]
    mart: Mart | None = None

    @property
    def keys(self) -> list[str]:
        return [each.key for each in self.accounts]

    def prove(self, command: str, currencies: Collection[str] = ()) -> Proof:
        """Return the proof of an answer, of which every day is stored as a whole.

        Args:
            command: It prints the same numbers.

        Raises:
            UnanswerableError: The period is not in history, a day is not stored, or a mart was not built.
        """
        self._require_history()
        with self.asker.database.begin() as connection:
            days = connection.execute(_DAYS, self.bound).mappings().all()
            _require_stored(self.window, [(f"{row['dataset']} of {row['account']}", row["missing"]) for row in days])
            found = [
                named + hidden(kind, message) for named, kind, message in connection.execute(_PROBLEMS, self.bound)
            ]
            problems = [*found, *self._old_builds(connection)]
        changing = _merged(row["changing"] for row in days)
        period = Period(first_day=self.window.start, last_day=self.window.last_day)
        table = self.mart.table if self.mart else self.datasets[0].table
        page, partition = table.replace(".", "/"), f"{self.keys[0]}|{self.window.start.replace(day=1)}"
        url = self.asker.dagster_url and f"{self.asker.dagster_url}/assets/{page}?partition={quote(partition)}"
        return Proof(
            as_of=min(row["read_at"] for row in days),
            period=period,
            coverage=f"Every day is stored: {count_of(self.window.days, 'day')} of "
            f"{count_of(len(self.accounts), 'account')}, of {', '.join(each.name for each in self.datasets)}.",
            problems=tuple(problems[:MOST_PROBLEMS]),
            bound=self.asker.bound(),
            settledness=f"The upstream may still change {_spelled(changing)}."
            if changing
            else "All days have settled.",
            currencies=tuple(sorted(currencies)),
            time_zones=tuple(sorted({each.account.timezone for each in self.accounts})),
            seen=Seen(command=command, url=url),
        )

    @property
    def bound(self) -> dict[str, Any]:
        """The values of the parameters of statements about what is asked."""
        return {
            "datasets": [each.name for each in self.datasets],
            "lookbacks": [each.lookback_days for each in self.datasets],
            "accounts": self.keys,
            "zones": [each.account.timezone for each in self.accounts],
            "names": [*(each.name for each in self.datasets), self.mart.table if self.mart else ""],
            "first": self.window.start,
            "last": self.window.last_day,
            "months": [each.start.replace(day=1) for each in self.window.months()],
            "mart": self.mart.name if self.mart else "",
        }

    def _require_history(self) -> None:
        begin = stored_history_start(self.asker.database) or EARLIEST
        if self.window.start < begin:
            raise UnanswerableError(
                f"history begins on {begin}, and the period on {self.window.start}",
                f"Ask for days from {begin} on, or load earlier months with `seller-platform sync --from MONTH`.",
            )
        today = min(self.asker.clock().astimezone(each.zone_or_utc).date() for each in self.accounts)
        if self.window.start >= today:
            raise UnanswerableError(
                f"the period begins on {self.window.start}, and the last day that is over is {today - _DAY}",
                "Ask for days that are over: nothing here predicts sales.",
            )

    def _old_builds(self, connection: Connection) -> Iterator[str]:
        """Yield a sentence for each partition of the mart that is older than what it is computed from."""
        for account, month, built_at, is_old in connection.execute(_BUILDS, self.bound) if self.mart else ():
            named = f"{self.mart.table if self.mart else ''} of {account}, {month:%Y-%m}"
            if built_at is None:
                raise UnanswerableError(f"{named} was not built yet", "Let `seller-platform marts build` build it.")
            if is_old:
                yield f"{named}: it is older than the newest load; `seller-platform marts build` builds it anew."


def hidden(kind: str, message: str) -> str:
    """Return the message of a problem without the account of another seller that it may name."""
    return "Rows are also in the ledger of another account." if kind == "repeated" else message


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


def _require_stored(window: Window, missing: Sequence[tuple[str, Any]]) -> None:
    """Check that no day of a window is missing; the error names the days, and those that can be asked for."""
    absent = _merged(days for _, days in missing)
    if not absent:
        return
    ends = [window.start, *(day for part in absent for day in (part.start, part.end)), window.end]
    longest = max((Window(*pair) for pair in zip(ends[::2], ends[1::2], strict=True)), key=lambda span: span.days)
    named = [f"{name}, {_spelled(_merged([days]))}" for name, days in missing if days]
    raise UnanswerableError(
        f"days are not stored as a whole: {'; '.join(named[:MOST_PROBLEMS])}",
        f"{f'Ask for {longest}, which are stored, or first' if longest.days else 'First'} let "
        "`seller-platform sync` load them; a day is whole when it was read after its end.",
    )


def _merged(days: Iterable[Any]) -> list[Window]:
    """Return the windows of all days of several multiranges, in their order."""
    windows: list[Window] = []
    for part in sorted(Window(each.lower, each.upper) for ranges in days if ranges for each in ranges):
        if windows and part.start <= windows[-1].end:
            windows[-1] = Window(windows[-1].start, max(part.end, windows[-1].end))
        else:
            windows.append(part)
    return windows


def _spelled(windows: Sequence[Window]) -> str:
    return ", ".join(str(each) if each.days > 1 else str(each.start) for each in windows)
