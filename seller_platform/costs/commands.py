"""`seller-platform costs`: product costs, planned, reviewed and written to the API."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import msgspec

from seller_platform.cli.connect import open_stored_apis
from seller_platform.cli.installation import open_served_installation, open_stored_installation, user_name
from seller_platform.cli.output import Document, Moment, Outcome, Output, json_option
from seller_platform.contract.cost_periods import CostPeriod
from seller_platform.costs.applying import WAIT_SECONDS, Patience, apply_plan
from seller_platform.costs.planning import Planned, make_plan, plan_undo
from seller_platform.costs.plans import (
    ChangedPeriod,
    ChangeKind,
    CostPlan,
    WriteOutcome,
    WriteState,
    periods_document,
    plan_document,
    read_plan,
)
from seller_platform.costs.sheets import read_costs
from seller_platform.counts import count_of
from seller_platform.files import write_atomically
from seller_platform.warehouse.connections.accounts import accounts

_PROOFS = ("sku", "state", "written_at", "read_back_at", "written_by")


class ProductOfAccount(Document, frozen=True):
    """A product of an account."""

    account: str
    sku: str


class PlannedWrite(WriteOutcome, frozen=True, kw_only=True):
    """How a plan changes the costs of a product, and the proof of it. Periods are as in the plan's file.

    Attributes:
        before: The product's periods before.
        wanted: Its periods afterwards.
        read_back: The periods that the upstream has listed since; null until then.
        problem: Why they could not be written.
        run_id: The run of Dagster that wrote them.
    """

    periods: tuple[ChangedPeriod, ...]
    before: list[dict[str, Any]]
    wanted: list[dict[str, Any]]
    read_back: list[dict[str, Any]] | None


class CostPlanDocument(Outcome, frozen=True):
    """A plan of product costs.

    Attributes:
        plan_id: Its number in this warehouse; null with all facts about the plan where nothing needs to change.
        uid: Its identifier in every warehouse.
        undo_of: The number of the plan that it undoes.
    """

    id: int | None = msgspec.field(name="plan_id")
    uid: UUID | None
    made_at: Moment | None
    made_by: str | None
    source: str | None
    undo_of: int | None
    writes: list[PlannedWrite] = msgspec.field(name="changes")


class PlanningDocument(CostPlanDocument, frozen=True):
    """The result of planning.

    Attributes:
        unchanged: Products that have these costs already.
        unknown: Products that the upstream does not know.
    """

    unchanged: list[ProductOfAccount]
    unknown: list[ProductOfAccount]


class ApplyDocument(CostPlanDocument, frozen=True):
    """A plan after it was applied.

    Attributes:
        was_applied: It was applied before, and nothing was written now.
    """

    was_applied: bool


class _PeriodChange(msgspec.Struct, frozen=True):
    """How a plan changes the cost elements of a period, as a record of a table."""

    product: str
    period: str
    change: ChangeKind
    before: str
    after: str


out_option = click.option(
    "--out",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="PLAN.json",
    help="Write the plan to this file too; `costs apply` takes it.",
)


@click.group()
def costs() -> None:
    """Write product costs to the API, as a plan that is reviewed before it is applied."""


@costs.command()
@click.argument("source", metavar="FILE.csv|SCHEMA.TABLE")
@out_option
@json_option(PlanningDocument)
def plan(*, source: str, out: Path | None, output: Output) -> None:
    """Compare target costs with the upstream's, and store the difference as a plan. Nothing is written.

    The file is CSV in UTF-8 with a header; a table or view of the warehouse has the same columns. A line is one cost
    element of one period of one SKU; the lines of a SKU together are all its target periods. SKUs without a line
    stay unchanged.

    \b
    account          key or title of the account, as `status` shows them
    sku              the product
    from_date        first day of the period, as 2026-01-31
    to_date          last day of the period
    cost_element     the part of the costs, such as Freight
    amount           what one unit costs, as 1234.50
    currency         ISO 4217 code of the amount or total_amount, as EUR
    \b
    Optional columns:
    total_amount     in place of amount: what `units` units cost
    units            how many units total_amount is for; 1 where empty
    conversion_rate  to the account's currency, which amount then has; else 1
    provider, notes  texts
    remove           yes: remove the costs of the SKU (all else empty)

    A line with only account and sku was not filled in yet, and changes nothing.
    """  # noqa: D301  # click reads the backspaces, which keep the lines of a paragraph apart
    with open_served_installation() as installation, open_stored_apis(installation) as apis:
        listed = {each.key: each.account for each in accounts(installation.database)}
        target = read_costs(installation.database, source, listed)
        with output.progress("Comparing the costs with those of the upstream"):
            planned = make_plan(apis, installation.database, target, source=source, made_by=user_name())
    _show(planned, out, output)


@costs.command()
@click.argument("plan", metavar="PLAN")
@click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(min=0),
    default=WAIT_SECONDS,
    show_default=True,
    help="Seconds to wait until the upstream lists the written costs.",
)
@json_option(ApplyDocument)
def apply(*, plan: str, seconds: float, output: Output) -> None:
    """Write a plan to the API, given by its id or file.

    The costs are read back until they agree, and the proof is stored. A plan is refused if the upstream's costs have
    changed since it was made. An interrupted plan continues; a plan that was applied before changes nothing.
    """
    with open_served_installation() as installation, open_stored_apis(installation) as apis:
        stored = read_plan(installation.database, plan)
        with output.progress(f"Writing {count_of(len(stored.writes), 'SKU')}", None):
            applied = apply_plan(apis, installation.database, stored.id, by=user_name(), patience=Patience(seconds))
    document = ApplyDocument(**_facts(applied.plan), was_applied=applied.was_applied)
    _show_proofs(applied.plan, output)
    output.outcome(document, applied.problem)
    output.say("The plan was applied before; nothing was written." if applied.was_applied else "All costs agree.")
    output.say(f"Undo it with `seller-platform costs undo {applied.plan.id}`.")


@costs.command()
@click.argument("plan", metavar="PLAN")
@out_option
@json_option(PlanningDocument)
def undo(*, plan: str, out: Path | None, output: Output) -> None:
    """Make the plan that restores the costs before an applied plan. Nothing is written."""
    with open_served_installation() as installation, open_stored_apis(installation) as apis:
        applied = read_plan(installation.database, plan)
        with output.progress("Reading the costs of the upstream"):
            planned = plan_undo(apis, installation.database, applied, made_by=user_name())
    _show(planned, out, output)


@costs.command()
@click.argument("plan", metavar="PLAN")
@json_option(CostPlanDocument)
def show(*, plan: str, output: Output) -> None:
    """Show a plan and the proof of its writes."""
    with open_stored_installation() as installation:
        stored = read_plan(installation.database, plan)
    output.document(CostPlanDocument(**_facts(stored)))
    _show_changes(stored, output)
    _show_proofs(stored, output)


def _show(planned: Planned, out: Path | None, output: Output) -> None:
    """Print the result of planning, and write the plan's file."""
    if planned.plan is not None and out is not None:
        document = json.dumps(plan_document(planned.plan), indent=2, ensure_ascii=False) + "\n"
        write_atomically(out.resolve(), document.encode(), 0o666)
    unchanged, unknown = (
        [ProductOfAccount(account=account, sku=sku) for account, sku in each]
        for each in (planned.unchanged, planned.unknown)
    )
    output.document(PlanningDocument(**_facts(planned.plan), unchanged=unchanged, unknown=unknown))
    if planned.plan is None:
        output.say(f"Nothing to change: the upstream has these costs already, for {_count(unchanged)}.")
        return
    _show_changes(planned.plan, output)
    if unchanged:
        output.say(f"Unchanged: {_count(unchanged)}.")
    for product in unknown:
        message = f"The upstream does not know SKU {product.sku!r} of {product.account}; it may refuse its costs."
        output.say(message)
    output.say(f"Nothing was written. Next: `seller-platform costs apply {planned.plan.id}`")


def _show_changes(stored: CostPlan, output: Output) -> None:
    counted, lines = Counter[ChangeKind](), list[_PeriodChange]()
    for write in stored.writes:
        before, after = ({each.dates: each for each in periods} for periods in (write.before, write.wanted))
        for change in write.changes:
            counted[change.change] += 1
            dates = (change.from_date, change.to_date)
            head = (f"{write.account} {write.sku}", str(after.get(dates) or before[dates]), change.change)
            lines.append(_PeriodChange(*head, _costs_of(before.get(dates)), _costs_of(after.get(dates))))
    counts = ", ".join(f"{counted[kind]} {kind.value}" for kind in ChangeKind)
    title = f"Plan {stored.id}: {_count(stored.writes)}; periods: {counts}"
    output.table(title, lines, ("period", "change", "before", "after"), lambda each: each.product)


def _show_proofs(stored: CostPlan, output: Output) -> None:
    holding = sum(write.state is WriteState.HOLDS for write in stored.writes)
    title = f"Plan {stored.id}: {holding} of {_count(stored.writes)} hold"
    output.table(title, stored.writes, _PROOFS, lambda each: each.account)


def _facts(stored: CostPlan | None) -> dict[str, Any]:
    """Return what every document of a plan has."""
    if stored is None:
        return {**dict.fromkeys(CostPlan.__struct_fields__), "writes": []}
    writes = [
        PlannedWrite(
            **msgspec.structs.asdict(write)
            | {
                "before": periods_document(write.before),
                "wanted": periods_document(write.wanted),
                "read_back": write.read_back and periods_document(write.read_back),
            },
            periods=write.changes,
        )
        for write in stored.writes
    ]
    return {**msgspec.structs.asdict(stored), "writes": writes}


def _costs_of(period: CostPeriod | None) -> str:
    """Return the elements of a period, as `Freight 12.50 EUR (Maersk), Duty 3.00 EUR`."""
    if period is None:
        return ""
    elements = []
    for each in period.cost_elements:
        texts = "; ".join(filter(None, (each.provider, each.notes)))
        elements.append(f"{each.cost_element} {each.amount:,f} {each.currency}" + (f" ({texts})" if texts else ""))
    return ", ".join(elements) or "nothing"


def _count(products: Sequence[object]) -> str:
    return count_of(len(products), "SKU")
