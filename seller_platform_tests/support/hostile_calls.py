"""Calls of tools as an attacker sends them who may see one account of the demo's company, and what they get."""

import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import httpx

from seller_platform.agents.metrics import METRICS, Dimension
from seller_platform.agents.protocol import FAILED
from seller_platform.agents.tools import TOOLS
from seller_platform_tests.support.demo_company import AU, DE, US

_OF_OTHERS = (DE, AU, "Köhler", "Tiny Shop", "AYL0M81ID1XI9G", "AL7CFJGQR1PWG7")
_OF_THE_PROGRAM = ("SELECT ", "FROM platform", "FROM seller", "psycopg", "sqlalchemy", "Traceback", "LINE 1", FAILED)
_HASH = "$argon2"
_HOSTILE: tuple[Any, ...] = (
    *("' OR 1=1 --", '"; DROP TABLE seller.orders; --', "{A},{B}", "%s %(account)s :accounts", "$1", "pg_sleep(9)"),
    *(DE, AU, 'Köhler "Haus & Hof" DE', "Tiny Shop, Sydney AU", f"{US}','{DE}", "*", "all", "", " ", "\0", "\ud800"),
    *("\u202e", "🦁" * 100, "A" * 100_000, "../../etc/passwd", "2026-03-01' --", "-infinity", "0001-01-01"),
    *("9999-12-31", "2026-13-45", "infinity", "NaN", "metric", "select * from platform.grants"),
    *("DELETE FROM seller.orders", "TABLE service.users", "SELECT set_config('role', '', true)", "COMMIT; VACUUM"),
    *(10**400, -1, 0, 1e308, float("nan"), True, None, [], {}, [[]], [None], {"$gt": ""}, [DE] * 50, [US, AU]),
)
_USUAL: dict[str, tuple[Any, ...]] = {
    "metric": tuple(metric.name for metric in METRICS),
    "first_day": ("2026-03-01", "2026-01-01"),
    "last_day": ("2026-03-31", "2026-04-14"),
    "other_first_day": ("2026-01-01",),
    "other_last_day": ("2026-01-31",),
    "accounts": ([], [US], ["North Pine US"]),
    "by": ([], *([each.value] for each in Dimension)),
    "products": ([], ["JUT-DOO-MAT-0018-MED"]),
    "words": ("days that change",),
    "statement": ("SELECT 1", "TABLE seller.orders"),
}
_NO_TOOLS = (
    "delete",
    "costs_apply",
    "accounts; DROP TABLE service.users",
    "__class__",
    "../mcp",
    "",
    "🦁",
    "x" * 10_000,
)
_NO_ARGUMENTS = ("", "account", "sql", "cursor")
_METHODS = {
    "tools/list": ("cursor",),
    "resources/list": ("cursor",),
    "resources/read": ("uri",),
    "prompts/get": ("name", "arguments"),
    "completion/complete": ("ref", "argument"),
    "logging/setLevel": ("level",),
    "initialize": ("protocolVersion", "capabilities"),
    "tools/call": ("name", "arguments", "_meta"),
    "tools/delete": ("name",),
}


def hostile_calls(random: Random, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield calls: each argument is missing, as usual or hostile, and now and then it or the tool is unknown."""
    for _ in range(count):
        tool = random.choice(TOOLS)
        arguments = {}
        unknown = random.choices(_NO_ARGUMENTS, k=random.randrange(8) == 0)
        for name in (*tool.arguments.model_fields, *unknown):
            choice = random.choices((None, _USUAL.get(name, (10,)), _HOSTILE), (1, 6, 2))[0]
            if choice is not None:
                arguments[name] = random.choice(choice)
        yield random.choice(_NO_TOOLS) if random.randrange(20) == 0 else tool.name, arguments


def hostile_messages(random: Random, count: int) -> Iterator[Any]:
    """Yield messages of the protocol: such calls, other requests with forged cursors and names, and no messages."""
    for number, (name, arguments) in enumerate(hostile_calls(random, count)):
        message: Any = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
        message["params"] = {"name": name, "arguments": arguments}
        if random.randrange(8) == 0:
            message["method"] = method = random.choice([*_METHODS])
            message["params"] = {field: random.choice(_HOSTILE) for field in _METHODS[method]}
        if random.randrange(50) == 0:
            message = random.choice([[], [message] * 3, "x", None, {"jsonrpc": "2.0"}, {**message, "params": []}])
        yield message


def leaks(sent: object, answer: object) -> list[str]:
    """Return what an answer shows and must not: hashes, other accounts and, where it refuses, texts of the program.

    Args:
        sent: What was asked. A refusal may repeat it.
        answer: What came back, as JSON has it.
    """
    text = "\n".join(_texts(answer))
    is_answered = isinstance(answer, Mapping) and "rows" in answer
    words = (_HASH, *_OF_OTHERS, *(() if is_answered else _OF_THE_PROGRAM))
    if not is_answered:
        for each in _texts(sent):
            if any(word in each for word in words):
                text = text.replace(each, "")
    return [word for word in words if word in text]


def result_of(answer: httpx.Response) -> Any:
    """Return the answer of a tool from an answer of HTTP; what is none as it is, as JSON or text."""
    try:
        body = answer.json()
    except ValueError:
        return answer.text
    result = body.get("result", body) if isinstance(body, Mapping) else body
    return content_of(result) if isinstance(result, Mapping) else result


def content_of(result: Mapping[str, Any]) -> Any:
    """Return the answer in a result, or the result where it is none."""
    return json.loads(result["content"][0]["text"]) if result.get("content") else result


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.items():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
