"""Every tool that an agent may call, and the function that calls one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import OperationalError

from seller_platform.answers.accounts import AccountRow, NoArguments, list_accounts
from seller_platform.answers.asker import Asker
from seller_platform.answers.cost_plan import CostArguments, CostChangeRow, plan_costs
from seller_platform.answers.figures import (
    CompareArguments,
    ComparedRow,
    FigureArguments,
    FigureRow,
    MetricRow,
    compare_periods,
    list_metrics,
    query_metric,
)
from seller_platform.answers.proof import ToolAnswer
from seller_platform.answers.reference import (
    DocsArguments,
    ResultRow,
    SectionRow,
    SqlArguments,
    run_sql,
    search_docs,
)
from seller_platform.answers.state import (
    ChosenAccounts,
    ProblemRow,
    SliceRow,
    SourceRow,
    explain_figure,
    list_coverage,
    list_problems,
)
from seller_platform.answers.stock import StockArguments, StockRow, list_running_out
from seller_platform.errors import RequestError, UnanswerableError, WarehouseUnavailableError, did_you_mean


@dataclass(frozen=True)
class Tool:
    """A tool that an agent may call.

    Attributes:
        doc: What it answers, and how to ask, for a model that chooses among tools.
        arguments: Its arguments.
        answer: Its answer.
        function: Answers, or raises UnanswerableError.
        is_local: Whether it is offered over standard input and output only.
    """

    name: str
    title: str
    doc: str
    arguments: type[BaseModel]
    answer: type[ToolAnswer[Any]]
    function: Callable[[Asker, Any], ToolAnswer[Any]]
    is_local: bool = False

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.arguments.model_json_schema()

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of the answer."""
        return self.answer.model_json_schema(mode="serialization")


TOOLS = (
    Tool(
        "accounts",
        "Accounts",
        "List the marketplace accounts that you may see, with key, title, country, currency, time zone and the months "
        "that are stored. Ask this first: the other tools name an account by its key or its exact title.",
        NoArguments,
        ToolAnswer[AccountRow],
        list_accounts,
    ),
    Tool(
        "metrics",
        "Governed metrics",
        "List the metrics that `query` and `compare` take: name, meaning, formula, unit, grain and dimensions. Other "
        "numbers do not exist: do not compute one from these without saying so.",
        NoArguments,
        ToolAnswer[MetricRow],
        list_metrics,
    ),
    Tool(
        "query",
        "Query a metric",
        "Answer one governed metric over local days of accounts, in total or by account, month, day or product. "
        "A period of which days are not stored is refused with the days that are; amounts of several currencies are "
        "never added: divide by account. A question by product needs whole months. Say the notes and the proof's "
        "problems and unsettled days with the number.",
        FigureArguments,
        ToolAnswer[FigureRow],
        query_metric,
    ),
    Tool(
        "compare",
        "Compare two periods",
        "Answer how a governed metric changed from another period to this one, in total or divided by account or "
        "product, with the change and its percentage.",
        CompareArguments,
        ToolAnswer[ComparedRow],
        compare_periods,
    ),
    Tool(
        "explain",
        "Explain a figure",
        "Answer where a figure of `query` comes from: its formula and its statement, the loads and builds behind it, "
        "and rows that it was computed from, each with the request to the upstream that brought it. Ask for a single "
        "day or product to see all of its rows.",
        FigureArguments,
        ToolAnswer[SourceRow],
        explain_figure,
    ),
    Tool(
        "stock",
        "Stock that runs out",
        "List the products that are out of stock or will be within so many days, the first ones first, with units "
        "to order and by when.",
        StockArguments,
        ToolAnswer[StockRow],
        list_running_out,
    ),
    Tool(
        "coverage",
        "What is stored",
        "List what is stored of each dataset and account by month: rows, days that were read, and when.",
        ChosenAccounts,
        ToolAnswer[SliceRow],
        list_coverage,
    ),
    Tool(
        "problems",
        "What is wrong",
        "List what is wrong with the stored rows now, with the next step of each.",
        ChosenAccounts,
        ToolAnswer[ProblemRow],
        list_problems,
    ),
    Tool(
        "cost_plan",
        "Plan product costs",
        "Answer which periods of product costs would be added, changed and removed by target costs. It is a plan only: "
        "a person applies one by `seller-platform costs`.",
        CostArguments,
        ToolAnswer[CostChangeRow],
        plan_costs,
    ),
    Tool(
        "docs",
        "Documentation",
        "Find the sections of Seller Platform's documentation that have most of some words.",
        DocsArguments,
        ToolAnswer[SectionRow],
        search_docs,
    ),
    Tool(
        "sql",
        "Run a SELECT",
        "Execute a SELECT on the schemas seller, history and marts, which only reads. Use it where no metric answers, "
        "and say that the number is not governed.",
        SqlArguments,
        ToolAnswer[ResultRow],
        run_sql,
        is_local=True,
    ),
)
"""Every tool, in the order in which they are listed."""


def call_tool(asker: Asker, name: str, arguments: Mapping[str, object], *, is_local: bool = False) -> ToolAnswer[Any]:
    """Return the answer of a tool.

    Args:
        arguments: By name, as an agent sent them; they may be anything.
        is_local: Whether the asker is on this machine, and may use the tools that are offered there only.

    Raises:
        UnanswerableError: There is no such tool, the arguments are none of it, or the stored rows have no answer. The
            message shows neither SQL nor what the asker may not see. Any other error is one of the program.
    """
    tools = {tool.name: tool for tool in TOOLS if is_local or not tool.is_local}
    if name not in tools:
        raise UnanswerableError(
            f"there is no tool {name!r}{did_you_mean(name, tools)}", "Call one of the candidates.", [*tools]
        )
    tool = tools[name]
    try:
        return tool.function(asker, tool.arguments.model_validate(arguments))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)
        )
        raise UnanswerableError(
            f"the arguments of {name} cannot be used: {problems}", "Follow the schema of the tool."
        ) from None
    except UnanswerableError:
        raise
    except RequestError as error:
        raise UnanswerableError(error.problem_alone, error.next_step) from error
    except (WarehouseUnavailableError, OperationalError, psycopg.OperationalError) as error:
        raise UnanswerableError("the warehouse did not answer in time", "Ask for less, or again later.") from error
