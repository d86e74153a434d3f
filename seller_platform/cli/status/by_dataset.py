"""The table of every dataset and account: days, rows, verdict and age."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from seller_platform.cli.output import Output, with_title
from seller_platform.cli.terminal.layout import TableColumn
from seller_platform.contract import REFRESHED
from seller_platform.counts import count_of
from seller_platform.warehouse.history.settledness import settledness
from seller_platform.warehouse.monitoring.coverage import Coverage, CoverageState
from seller_platform.warehouse.postgres.database import Database

_COLUMNS = (
    TableColumn("state"),
    TableColumn("first_day", rank=2),
    TableColumn("last_day", rank=6),
    TableColumn("missing_days", rank=5),
    TableColumn("rows", rank=7),
    TableColumn("verdict", rank=3),
    TableColumn("age_hours", rank=4),
    TableColumn("settles_after_days", rank=1),
)


def coverage_rows(database: Database, covered: Sequence[Coverage], now: datetime) -> list[dict[str, Any]]:
    """Return what is stored of each dataset and account, with its age and the days after which it settles."""
    keys = sorted({each.account for each in covered})
    days = settledness(database, REFRESHED, keys)
    lookbacks = {dataset.name: dataset.lookback_days for dataset in REFRESHED}
    return [
        {
            **asdict(each),
            "settles_after_days": days[each.dataset, each.account].settles_after(lookbacks[each.dataset])
            if (each.dataset, each.account) in days
            else None,
            "reason": each.reason,
            "age_hours": each.read_at and round((now - each.read_at).total_seconds() / 3600, 1),
        }
        for each in covered
    ]


def show_coverage(
    output: Output, covered: Sequence[Coverage], rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]
) -> None:
    """Print the table, the reason of each refusal once, and what to run for what was never loaded."""
    output.table_by_account("Coverage", _COLUMNS, rows, titles)
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
