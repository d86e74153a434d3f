"""`seller-platform sync --plan`: what a sync would take, by dataset and account; nothing is loaded."""

from collections import defaultdict
from collections.abc import Sequence

from seller_platform.cli.output import Document, Moment, Output, with_title
from seller_platform.contract import DATASETS, Window
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import BudgetTooSmallError
from seller_platform.ingest.connections.request_budget import renewal_after
from seller_platform.ingest.loads.planner import Division, DueSlice, Planner
from seller_platform.warehouse.connections.accounts import account_titles, connections
from seller_platform.warehouse.connections.sent_requests import requests_sent
from seller_platform.warehouse.loads.expectations import Basis

_COLUMNS = ("dataset", "slices", "requests", "rows", "seconds", "today", "later")


class PlannedSlices(Document, frozen=True):
    """What a sync would take for a dataset and an account.

    Attributes:
        rows: How many rows are expected; null if that is not known for each slice.
        today: The slices for which the requests of today suffice.
        later: The other slices.
        later_requests: Their requests.
        never: Those of them that take more requests than a day has.
        basis: The loads that the expectation was computed from.
    """

    dataset: str
    account: str
    slices: int
    requests: int
    rows: int | None
    seconds: float
    today: int
    later: int
    later_requests: int
    never: int
    basis: Basis


class ConnectionBudget(Document, frozen=True):
    """The requests that a connection may send on one day (UTC).

    Attributes:
        requests_left: How many of them loads may still use today.
    """

    connection: str
    requests_per_day: int
    requests_today: int
    requests_left: int
    renews_at: Moment


class PlanDocument(Document, frozen=True):
    """What a sync would take.

    Attributes:
        budgets: The requests of each connection to read; empty where they are not limited.
    """

    plan: list[PlannedSlices]
    budgets: list[ConnectionBudget]


def show_plan(planner: Planner, slices: Sequence[DueSlice], output: Output) -> None:
    """Print what the loads of slices would take, what the requests of today suffice for, and what would be left.

    The table has a row for each dataset and account; of more than 100 accounts together a row for each dataset.
    """
    database, now, per_day = planner.database, planner.now, planner.requests_per_day
    chosen = {each.connection for each in planner.accounts}
    with output.progress("Reading the receipts"):
        discovery = [DueSlice(ACCOUNTS, name, None, Window.day(now.date()), days_behind=-1) for name in sorted(chosen)]
        division = planner.divide([*discovery, *slices])
        sent = requests_sent(database, now.date())
    count = len(planner.accounts)
    of_all = None if output.as_json or count <= 100 else f"all of {count_of(count, 'account')}"
    groups: dict[tuple[str, str], list[DueSlice]] = defaultdict(list)
    for due in division.expected:
        groups[of_all or due.account, due.dataset.name].append(due)
    order = [dataset.name for dataset in DATASETS]
    pairs = sorted(groups, key=lambda pair: (pair[1] != ACCOUNTS.name, pair[0], order.index(pair[1])))
    rows = [_row(dataset, account, groups[account, dataset], division) for account, dataset in pairs]
    budgets = [
        ConnectionBudget(
            connection=each.name,
            requests_per_day=per_day,
            requests_today=sent.get(each.name, 0),
            requests_left=division.left.get(each.name, 0),
            renews_at=renewal_after(now),
        )
        for each in connections(database)
        if each.name in chosen and per_day is not None
    ]
    output.document(PlanDocument(plan=rows, budgets=budgets))
    if not slices:
        output.say("Nothing is due: every day that may have changed was read today.")
    titles = account_titles(database)
    output.table("What a sync would take", rows, _COLUMNS, lambda each: with_title(each.account, titles))
    requests, seconds = sum(row.requests for row in rows), sum(row.seconds for row in rows)
    sentences = [
        f"About {count_of(requests, 'request')} in {count_of(round(seconds), 'second')} of loading; slices are loaded "
        "side by side. Nothing was loaded.",
        *(f"{each}: {error}" for each, error in division.later.items() if isinstance(error, BudgetTooSmallError)),
    ]
    for each in budgets:
        of_today = f"{each.requests_today:,} of {count_of(each.requests_per_day, 'request')} of today"
        sentences.append(
            f"Connection {each.connection}: {of_today} are used, {each.requests_left:,} may be used for loads; the "
            f"budget renews at {each.renews_at:%Y-%m-%d %H:%M} UTC."
        )
    output.line("\n".join(sentences))


def _row(dataset: str, account: str, slices: Sequence[DueSlice], division: Division) -> PlannedSlices:
    loads = [division.expected[each] for each in slices]
    rows = [load.rows for load in loads if load.rows is not None]
    later = [each for each in slices if each in division.later]
    bases = {load.basis for load in loads}
    return PlannedSlices(
        dataset=dataset,
        account=account,
        slices=len(slices),
        requests=sum(load.requests for load in loads),
        rows=sum(rows) if len(rows) == len(loads) else None,
        seconds=round(sum(load.seconds for load in loads), 1),
        today=len(slices) - len(later),
        later=len(later),
        later_requests=sum(division.expected[each].requests for each in later),
        never=sum(1 for each in later if isinstance(division.later[each], BudgetTooSmallError)),
        basis=next(basis for basis in (Basis.NONE, Basis.ALIKE, Basis.SAME) if basis in bases),
    )
