"""The tool `cost_plan`: how target costs differ from the stored ones. It plans, and neither stores nor writes."""

import json
from collections import defaultdict
from datetime import date, datetime
from decimal import Decimal

import msgspec
from pydantic import Field
from sqlalchemy import text

from seller_platform.answers.asker import Asker
from seller_platform.answers.figures import Name
from seller_platform.answers.proof import Fact, Proof, Seen, ToolAnswer
from seller_platform.contract.cost_periods import CostPeriod, Periods
from seller_platform.csv_files import Line, Problems
from seller_platform.errors import CostSheetError
from seller_platform.warehouse.jobs.cost_plans import ChangeKind, CostWrite, changes_of
from seller_platform.warehouse.jobs.cost_sheets import costs_of_lines

_STORED = text("""
    SELECT period.account, sku, from_date, to_date, CAST(cost_elements AS text), slice.read_at
    FROM platform.slices AS slice
    LEFT JOIN seller.cost_periods AS period ON period.account = slice.account AND local_day = newest_day
    WHERE slice.dataset = 'cost_periods' AND slice.account = ANY (:accounts) AND slice.load_id IS NOT NULL
""")


class CostLine(Fact):
    """One cost element of one period of one product, as a line of a cost sheet."""

    account: Name
    sku: Name
    from_date: Name
    to_date: Name
    cost_element: Name
    amount: Name = Field(description="What one unit costs, as 1234.50.")
    currency: Name


class CostArguments(Fact):
    """Target costs: the lines of a SKU are all its target periods."""

    lines: tuple[CostLine, ...] = Field(min_length=1, max_length=500)


class CostChangeRow(Fact):
    """How the plan changes a period of a product; amounts are of one unit, by currency."""

    account: str
    product: str
    change: ChangeKind
    from_date: date
    to_date: date | None
    before: dict[str, Decimal] | None
    after: dict[str, Decimal] | None


def plan_costs(asker: Asker, arguments: CostArguments) -> ToolAnswer[CostChangeRow]:
    """Answer which periods of costs would be added, changed and removed.

    Raises:
        UnanswerableError: There is no such account.
        RequestError: A line has values that cannot be written.
    """
    accounts = {each.account: asker.chosen_accounts([each.account])[0] for each in arguments.lines}
    currencies = {each.key: each.account.currency_code for each in accounts.values()}
    lines = [
        Line(f"line {number}", each.model_dump() | {"account": accounts[each.account].key})
        for number, each in enumerate(arguments.lines, 1)
    ]
    target = costs_of_lines(lines, currencies, Problems("the plan", CostSheetError))
    stored, as_of = _stored_costs(asker, list(currencies))
    writes = [CostWrite(*product, stored.get(product, ()), wanted) for product, wanted in target.items()]
    rows = [
        CostChangeRow(
            account=write.account,
            product=write.sku,
            change=change.kind,
            from_date=change.period.from_date,
            to_date=change.period.to_date,
            before=change.before.amounts if change.before else None,
            after=change.after.amounts if change.after else None,
        )
        for write in writes
        for change in changes_of(write)
    ]
    return ToolAnswer(
        rows=tuple(rows),
        notes=(
            "Nothing was stored or written. Put the lines into a CSV file: `seller-platform costs plan` compares "
            "it with the upstream, and a person applies it.",
            *([] if rows else ["These costs are stored already."]),
        ),
        proof=Proof(
            as_of=as_of,
            coverage="The newest stored costs of the accounts."
            if as_of
            else "Costs of the accounts were never loaded.",
            settledness="Costs change when somebody writes them.",
            bound=asker.bound(),
            currencies=tuple(sorted({each for each in currencies.values() if each})),
            seen=Seen(command="seller-platform costs plan FILE.csv"),
        ),
    )


def _stored_costs(asker: Asker, accounts: list[str]) -> tuple[dict[tuple[str, str], Periods], datetime | None]:
    """Return the stored periods by account and SKU, and when they were read; None if never."""
    periods: dict[tuple[str, str], list[CostPeriod]] = defaultdict(list)
    moments = []
    with asker.database.begin() as connection:
        for account, sku, first, last, elements, read_at in connection.execute(_STORED, {"accounts": accounts}):
            moments.append(read_at)
            if sku is not None:
                sent = json.loads(elements or "[]", parse_float=str, parse_int=str)
                period = {"from_date": first, "to_date": last, "cost_elements": sent}
                periods[account, sku].append(msgspec.convert(period, CostPeriod))
    return {product: tuple(of_product) for product, of_product in periods.items()}, min(moments, default=None)
