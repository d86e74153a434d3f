"""Every tool that an agent may call, and the function that calls one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import cleandoc, signature
from typing import Any

import psycopg
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import OperationalError

from seller_platform.agents.asker import Asker
from seller_platform.agents.cost_plan import plan_costs
from seller_platform.agents.figures import compare_periods, explain_figure, list_metrics, query_metric
from seller_platform.agents.proof import ToolAnswer
from seller_platform.agents.reference import run_sql, search_docs
from seller_platform.agents.state import list_accounts, list_coverage, list_problems, list_running_out
from seller_platform.errors import RequestError, UnanswerableError, WarehouseUnavailableError, did_you_mean


@dataclass(frozen=True)
class Tool:
    """A tool that an agent may call.

    Attributes:
        function: Answers, or raises RequestError. Its docstring says to a model what it answers and how to ask; its
            annotations are the schemas.
        is_local: Whether it is offered over standard input and output only.
    """

    name: str
    title: str
    function: Callable[[Asker, Any], ToolAnswer[Any]]
    is_local: bool = False

    @property
    def doc(self) -> str:
        """What it answers, and how to ask."""
        return " ".join(cleandoc(self.function.__doc__ or "").partition("Raises:")[0].split())

    @property
    def arguments(self) -> type[BaseModel]:
        """The model of its arguments."""
        _, arguments = signature(self.function).parameters.values()
        model: type[BaseModel] = arguments.annotation
        return model

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.arguments.model_json_schema()

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of the answer."""
        answer: type[BaseModel] = signature(self.function).return_annotation
        return answer.model_json_schema(mode="serialization")


TOOLS = (
    Tool("accounts", "Accounts", list_accounts),
    Tool("metrics", "Governed metrics", list_metrics),
    Tool("query", "Query a metric", query_metric),
    Tool("compare", "Compare two periods", compare_periods),
    Tool("explain", "Explain a figure", explain_figure),
    Tool("stock", "Stock that runs out", list_running_out),
    Tool("coverage", "What is stored", list_coverage),
    Tool("problems", "What is wrong", list_problems),
    Tool("cost_plan", "Plan product costs", plan_costs),
    Tool("docs", "Documentation", search_docs),
    Tool("sql", "Run a SELECT", run_sql, is_local=True),
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
