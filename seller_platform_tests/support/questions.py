"""The sixty questions about the demo's company, and whether an answer of a tool is the one that is known."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(__file__).parents[1] / "answers" / "questions.yaml"
_DAYS = {"days": ("first_day", "last_day"), "other": ("other_first_day", "other_last_day")}


@dataclass(frozen=True)
class Question:
    """A question, the call that asks it, and what is known of its answer.

    Attributes:
        kind: plain, tempting or unanswerable.
        known: What is right: value, rows, count, says; or refused and candidates.
    """

    kind: str
    ask: str
    tool: str
    arguments: Mapping[str, Any]
    known: Mapping[str, Any]

    def problems(
        self, answer: Mapping[str, Any] | None, refusal: str = "", candidates: Sequence[str] = ()
    ) -> list[str]:
        """Return what is wrong with an answer, as JSON has it, or with a refusal; None stands for no answer."""
        if ("refused" in self.known) != (answer is None):
            return [f"answered with {answer}, refused with {refusal!r}"]
        if answer is None:
            problems = [] if self.known["refused"] in refusal else [f"refused with {refusal!r}"]
            offered = self.known.get("candidates", ())
            return problems + [f"no {each}" for each in offered if not any(each in one for one in candidates)]
        rows, text = answer["rows"], json.dumps(answer, ensure_ascii=False)
        problems = [f"does not say {words!r}" for words in self.known.get("says", ()) if words not in text]
        expected = self.known.get("rows", [{"value": self.known["value"]}] if "value" in self.known else [])
        if ("value" in self.known and len(rows) != 1) or ("count" in self.known and len(rows) != self.known["count"]):
            problems.append(f"has {len(rows)} rows")
        for row, part in zip(rows, expected, strict=False):
            problems += [f"{name} is {row.get(name)}" for name, value in part.items() if row.get(name) != value]
        return problems + ([f"has {len(rows)} rows"] if len(rows) < len(expected) else [])


def questions() -> list[Question]:
    """Return the questions of the file, in its order."""
    return [
        Question(kind, each.pop("ask"), call.pop("tool"), _arguments(call), each)
        for kind, of_kind in yaml.safe_load(_FILE.read_text()).items()
        for each in of_kind
        if (call := each.pop("call"))
    ]


def _arguments(call: dict[str, Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for name, value in call.items():
        if name in _DAYS:
            arguments |= dict(zip(_DAYS[name], value.split(".."), strict=True))
        else:
            arguments[name] = value
    return arguments


def problems_of(question: Question, result: Any) -> list[str]:
    """Return what is wrong with the result of a call over the Model Context Protocol."""
    content = result.structured_content
    if not result.is_error:
        return question.problems(content)
    refused = content["refused"]
    return question.problems(None, f"{refused['reason']}. {refused['remedy']}", refused["candidates"])
