"""The state of every slice that should be stored: by dataset and account, and of dated datasets by month.

Slices of which nothing is wrong are loaded: PostgreSQL returns only the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import cached_property

from sqlalchemy import text

from seller_platform.contract import REFRESHED, Dataset, Window
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts
from seller_platform.warehouse.monitoring.problems import slice_problems
from seller_platform.warehouse.postgres.database import Database


class SliceState(StrEnum):
    """Whether a slice is stored, from good to bad."""

    LOADED = "loaded"
    LATE = "late"
    INCOMPLETE = "incomplete"
    MISSING = "missing"
    MISMATCHED = "mismatched"
    ALTERED = "altered"
    HELD = "held"
    FAILED = "failed"


_SEVERITY = list(SliceState)
_OF_KIND = {each.value: each for each in SliceState}


@dataclass(frozen=True)
class SliceStates:
    """The states of all slices that should be stored.

    Attributes:
        datasets: The datasets that are refreshed, dated ones first. Those that no upstream offers are left out.
        months: The months of history, oldest first.
        troubled: The states of a dataset's name and an account's key: one for each month, or one for a snapshot. Pairs
            whose slices are all loaded are left out.
        read_at: When any slice of such a pair was last read.
    """

    accounts: Sequence[KnownAccount]
    datasets: Sequence[Dataset]
    months: Sequence[Window]
    troubled: Mapping[tuple[str, str], Sequence[SliceState]]
    read_at: Mapping[tuple[str, str], datetime]

    def of_pair(self, dataset: Dataset, account: str) -> Sequence[SliceState]:
        """Return the states of a dataset of an account: one for each month, or one for a snapshot."""
        loaded = [SliceState.LOADED] * (len(self.months) if dataset.is_dated else 1)
        return self.troubled.get((dataset.name, account), loaded)

    def problems_of(self, account: str) -> int:
        """Return how many slices of an account are not loaded as they should be."""
        states = (self.troubled.get((dataset.name, account), ()) for dataset in self.datasets)
        return sum(state is not SliceState.LOADED for of_pair in states for state in of_pair)

    def months_of(self, account: str) -> Sequence[SliceState]:
        """Return the worst state of any dated dataset in each month of an account."""
        return self._troubled_months.get(account) or [SliceState.LOADED] * len(self.months)

    @cached_property
    def _troubled_months(self) -> Mapping[str, Sequence[SliceState]]:
        dated = [dataset.name for dataset in self.datasets if dataset.is_dated]
        worst: dict[str, list[SliceState]] = {}
        for account in self.accounts:
            of_datasets = [of_pair for name in dated if (of_pair := self.troubled.get((name, account.key)))]
            for states in zip(*of_datasets, strict=True):
                of_month = max(states, key=_SEVERITY.index)
                # A month of which some datasets are loaded is not missing.
                if of_month is SliceState.MISSING and not (len(states) == len(dated) and {*states} == {of_month}):
                    of_month = SliceState.INCOMPLETE
                worst.setdefault(account.key, []).append(of_month)
        return worst


_READ_AT = text("SELECT dataset, account, max(read_at) FROM platform.slices WHERE read_at IS NOT NULL GROUP BY 1, 2")


def slice_states(
    database: Database,
    *,
    since: date,
    now: datetime,
    refreshed: Sequence[Dataset] = REFRESHED,
    listed: Sequence[KnownAccount] | None = None,
) -> SliceStates:
    """Return the state of every slice that should be stored of the listed accounts, by default of all.

    Days count as missing when a daily refresh should have brought them.
    """
    newest_day = max(now.astimezone(UTC).date(), since)
    months = [Window.month_of(each.start) for each in Window(since, newest_day + timedelta(days=1)).months()]
    read_at = {(name, account): moment for name, account, moment in database.execute(_READ_AT)}
    offered = {name for name, _ in read_at}
    datasets = [each for each in refreshed if not each.is_computed or each.name in offered]
    datasets.sort(key=lambda dataset: not dataset.is_dated)
    listed = accounts(database) if listed is None else listed
    keys, by_name = {account.key for account in listed}, {dataset.name: dataset for dataset in datasets}
    position: dict[date | None, int] = {month.start: number for number, month in enumerate(months)}
    troubled: dict[tuple[str, str], list[SliceState]] = {}
    for each in slice_problems(database, by_name, accounts=keys):
        dataset = by_name[each.dataset]
        number = position.get(each.month, -1) if dataset.is_dated else 0
        state = _OF_KIND.get(each.kind)
        if number >= 0 and state is not None:
            loaded = [SliceState.LOADED] * (len(months) if dataset.is_dated else 1)
            states = troubled.setdefault((each.dataset, each.account), loaded)
            states[number] = max(states[number], state, key=_SEVERITY.index)
    return SliceStates(listed, datasets, months, troubled, read_at)
