"""The table of every dataset and account: days, rows, verdict and age."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime

from seller_platform.cli.output import Document, Moment, MonthText, Output, with_title
from seller_platform.contract import REFRESHED
from seller_platform.contract.loads import CountVerdict
from seller_platform.counts import count_of
from seller_platform.warehouse.history.settledness import settledness
from seller_platform.warehouse.loads.refusals import Refusal
from seller_platform.warehouse.monitoring.coverage import Coverage, CoverageState
from seller_platform.warehouse.postgres.database import Database

_COLUMNS = ("dataset", "state", "last_day", "missing_days", "rows", "age_hours")


class RefusedSlice(Document, frozen=True):
    """Why a slice was not loaded when it was last tried.

    Attributes:
        month: Null where the list has no months.
        error: The class of the error.
        refused_since: When it failed first, after it was loaded last.
        refused_at: When it failed last.
    """

    month: MonthText | None
    error: str
    message: str
    refused_since: Moment
    refused_at: Moment
    run_id: str | None


class CoveredDataset(Document, frozen=True):
    """What is stored of a dataset and an account. Without a load, the facts about it are null.

    Attributes:
        first_day: The first local day that was ever read.
        missing_days: Days that no load has covered, from the start of history to the last day.
        rows: Rows stored; of a snapshot those of the newest day.
        verdict: The worst of the latest verdicts.
        reason: Why slices are refused, in one text.
        refusals: The slices that were not loaded, oldest first.
        settles_after_days: How long days may still change.
    """

    dataset: str
    account: str
    state: CoverageState
    first_day: date | None
    last_day: date | None
    missing_days: int | None
    rows: int | None
    verdict: CountVerdict | None
    read_at: Moment | None
    age_hours: float | None
    settles_after_days: int | None
    reason: str | None
    refusals: list[RefusedSlice]


def coverage_rows(database: Database, covered: Sequence[Coverage], now: datetime) -> list[CoveredDataset]:
    """Return what is stored of each dataset and account, with its age and the days after which it settles."""
    keys = sorted({each.account for each in covered})
    days = settledness(database, REFRESHED, keys)
    lookbacks = {dataset.name: dataset.lookback_days for dataset in REFRESHED}
    return [
        CoveredDataset(
            **vars(each) | {"refusals": [_refused(refusal) for refusal in each.refusals]},
            reason=each.reason,
            age_hours=round((now - each.read_at).total_seconds() / 3600, 1) if each.read_at else None,
            settles_after_days=days[each.dataset, each.account].settles_after(lookbacks[each.dataset])
            if (each.dataset, each.account) in days
            else None,
        )
        for each in covered
    ]


def _refused(refusal: Refusal) -> RefusedSlice:
    return RefusedSlice(
        month=refusal.month or None,
        error=refusal.error,
        message=refusal.message,
        refused_since=refusal.since,
        refused_at=refusal.refused_at,
        run_id=refusal.run_id,
    )


def show_coverage(
    output: Output, covered: Sequence[Coverage], rows: Sequence[CoveredDataset], titles: Mapping[str, str]
) -> None:
    """Print the table, the reason of each refusal once, and what to run for what was never loaded."""
    output.table("Coverage", rows, _COLUMNS, lambda each: with_title(each.account, titles))
    concerned: dict[tuple[str, str], list[str]] = {}
    for each in covered:
        if each.reason is not None:
            concerned.setdefault((each.dataset, each.reason), []).append(each.account)
    for (dataset, reason), keys in concerned.items():
        whose = with_title(keys[0], titles) if len(keys) == 1 else count_of(len(keys), "account")
        output.line(f"not loaded anew: {dataset} of {whose}: {reason}")
    never = sum(each.state is CoverageState.NEVER_LOADED for each in covered)
    if never:
        output.say(f"{never} of {len(covered)} were never loaded; `seller-platform sync` loads what is missing.")
