"""The tool `cost_plan`: how target costs differ from the stored ones. It plans, and neither stores nor writes."""

from datetime import date
from decimal import Decimal

import msgspec
from pydantic import Field

from seller_platform.agents.asker import Asker
from seller_platform.agents.proof import Fact, Name, Proof, Seen, ToolAnswer
from seller_platform.costs.plans import ChangeKind, changes_of, stored_costs
from seller_platform.costs.sheets import costs_of_lines
from seller_platform.csv_files import Line, Problems


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
    """Answer which periods of product costs would be added, changed and removed by target costs.

    It is a plan only: a person applies one by `seller-platform costs`.

    Raises:
        UnanswerableError: There is no such account.
        RequestError: A line has values that cannot be written.
    """
    accounts = {name: asker.chosen_accounts([name])[0] for name in {each.account for each in arguments.lines}}
    currencies = {each.key: each.account.currency_code for each in accounts.values()}
    lines = [
        Line(f"line {number}", each.model_dump() | {"account": accounts[each.account].key})
        for number, each in enumerate(arguments.lines, 1)
    ]
    target = costs_of_lines(lines, {each.key: each.account for each in accounts.values()}, Problems("the plan"))
    stored, as_of = stored_costs(asker.database, list(currencies))
    rows = [
        CostChangeRow(account=account, product=sku, **msgspec.structs.asdict(change))
        for (account, sku), wanted in target.items()
        for change in changes_of(stored.get((account, sku), ()), wanted)
    ]
    return ToolAnswer(
        rows=tuple(rows),
        notes=(
            "Nothing was stored or written. Put the lines into a CSV file: `seller-platform costs plan FILE.csv` "
            "compares it with the upstream, and a person applies it.",
            *([] if rows else ["These costs are stored already."]),
        ),
        proof=Proof(
            as_of=as_of,
            coverage="The newest stored costs of the accounts." if as_of else "Costs were never loaded.",
            bound=asker.bound(),
            currencies=tuple(sorted({each for each in currencies.values() if each})),
            seen=Seen(command="seller-platform costs plan FILE.csv"),
        ),
    )
