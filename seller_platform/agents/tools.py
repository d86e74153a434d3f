"""Every tool that an agent may call, and the function that calls one."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import cleandoc, signature
from types import MappingProxyType
from typing import Any, get_origin

import psycopg
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import OperationalError

from seller_platform.agents.asker import Asker
from seller_platform.agents.figures import compare_periods, explain_figure, list_metrics, query_metric
from seller_platform.agents.payouts import list_payouts
from seller_platform.agents.proof import ToolAnswer
from seller_platform.agents.reference import run_sql, search_docs
from seller_platform.agents.state import list_accounts, list_coverage, list_problems
from seller_platform.agents.stock import list_stock
from seller_platform.counts import count_of
from seller_platform.errors import RequestError, UnanswerableError, WarehouseUnavailableError, did_you_mean

MOST_CHARACTERS = 28_000
"""How long an answer may be as JSON: less than 8,000 tokens of 4 characters, also where its quotes are escaped."""

_LONGEST_COMMAND = 6_000
_ROOM_OF_A_NOTE = 400
_FEWER = "fewer accounts or months, or single days or products"


@dataclass(frozen=True)
class Tool:
    """A tool that an agent may call.

    Attributes:
        function: Answers, or raises RequestError. Its docstring says to a model what it answers and how to ask; the
            annotation of its arguments is the schema.
        fewer: What to ask for, where an answer would be too long.
        is_local: Whether it is offered over standard input and output only.
    """

    name: str
    title: str
    function: Callable[[Asker, Any], ToolAnswer[Any]]
    fewer: str = _FEWER
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
        schema: dict[str, Any] = _concise(self.arguments.model_json_schema())
        return schema


_LEFT_OUT = ("$defs", "$ref", "anyOf", "title", "pattern", "minLength", "maxLength")


def _concise(schema: Any, definitions: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Return a schema without references and what a model does not need; what is left out is checked all the same."""
    if isinstance(schema, list):
        return [_concise(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    definitions = schema.get("$defs", definitions)
    if reference := schema.get("$ref"):
        schema = {**definitions[reference.rpartition("/")[2]], **schema}
    if (choices := schema.get("anyOf", ()))[1:] == [{"type": "null"}]:
        schema = {**choices[0], **schema}
    left_out = {*_LEFT_OUT, *(["description"] if "properties" in schema else [])}
    return {
        name: {key: _concise(each, definitions) for key, each in value.items()}
        if name == "properties"
        else _concise(value, definitions)
        for name, value in schema.items()
        if name not in left_out and (name, value) not in (("default", []), ("default", None))
    }


TOOLS = (
    Tool("accounts", "Accounts", list_accounts),
    Tool("metrics", "Governed metrics", list_metrics),
    Tool("query", "Query a metric", query_metric),
    Tool("compare", "Compare two periods", compare_periods),
    Tool("explain", "Explain a figure", explain_figure),
    Tool("stock", "Stock, and what runs out", list_stock, "fewer accounts or days"),
    Tool("payouts", "Payouts", list_payouts, "fewer accounts"),
    Tool("coverage", "What is stored", list_coverage, "single `accounts`, `datasets` or a `month`"),
    Tool("problems", "What is wrong", list_problems, "fewer accounts"),
    Tool("docs", "Documentation", search_docs, "other words"),
    Tool("sql", "Run a SELECT", run_sql, "fewer columns or rows", is_local=True),
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
        answer = tool.function(asker, tool.arguments.model_validate(_meant(tool.arguments, arguments)))
        return _fitted(answer.model_copy(update={"today": asker.today()}), tool)
    except ValidationError as error:
        messages = {each["loc"]: each["msg"] for each in error.errors(include_url=False, include_input=False)}
        wholes = {loc[:length] for loc in messages for length in range(len(loc))}  # what is wrong with them are parts
        problems = "; ".join(
            f"{'.'.join(map(str, loc))}: {message}" for loc, message in messages.items() if loc not in wholes
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


def _meant(model: type[BaseModel], arguments: Mapping[str, object]) -> dict[str, object]:
    """Return arguments as they are meant: hosts send null for nothing, one value for a list, and JSON as a text."""
    meant: dict[str, object] = {}
    for name, sent in arguments.items():
        value, field = sent, model.model_fields.get(name)
        if field is None:
            meant[name] = value
            continue
        is_list = get_origin(field.annotation) is tuple
        if isinstance(value, str) and value.lstrip()[:1] in ("[", "n") and (is_list or value == "null"):
            with suppress(ValueError):
                value = json.loads(value)
        if (value is None or value == "") and not field.is_required():
            continue
        meant[name] = [value] if is_list and isinstance(value, str) else value
    return meant


def _fitted(answer: ToolAnswer[Any], tool: Tool) -> ToolAnswer[Any]:
    """Return as many rows of an answer as fit, with how many there are and how to ask for the others.

    Raises:
        UnanswerableError: Not even one does.
    """
    command = answer.proof.seen.command
    if len(command) > _LONGEST_COMMAND:
        seen = answer.proof.seen.model_copy(update={"command": f"{command[:_LONGEST_COMMAND]}... (cut)"})
        answer = answer.model_copy(update={"proof": answer.proof.model_copy(update={"seen": seen})})
    content = answer.as_json()
    lengths = [len(json.dumps(row, ensure_ascii=False)) + 2 for row in content["rows"]]
    room = MOST_CHARACTERS - len(json.dumps({**content, "rows": []}, ensure_ascii=False))
    if sum(lengths) <= room or not lengths:
        return answer
    count, room = 0, room - _ROOM_OF_A_NOTE
    while count < len(lengths) and lengths[count] <= room:
        room -= lengths[count]
        count += 1
    if not count:
        raise UnanswerableError("one row is longer than an answer may be", f"Ask for {tool.fewer}.")
    note = (
        f"Only {count_of(count, 'row')} of {len(lengths):,} are here, for an answer has at most 8,000 tokens: ask for "
        f"{tool.fewer} to see the others."
    )
    return answer.model_copy(update={"rows": answer.rows[:count], "notes": (*answer.notes, note)})
