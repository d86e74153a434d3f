"""Finds sentences and variable names that break the rules for plain words.

The result is a list of suggestions: a word may be the library's own, and a sentence may need its length.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from seller_platform_tests.structure.source import PRODUCT, ROOT, TESTS, Module, docstrings, modules

LONGEST_FIRST_SENTENCE = 15
# These names say where a value comes from, not what it is. `each` is allowed in comprehensions and generators.
VARIABLES = frozenset({"told", "found", "wanted", "known", "place", "each", "somebody", "nobody", "whoever"})
WORDS = re.compile(
    r"\b(somebody|nobody|whoever|whomever|heal(?:s|ed|ing)?|mend(?:s|ed|ing)?|lives|lived|tells?|telling|told"
    r"|struck|strangers?|hears?|heard|by and by|in vain|of ours)\b",
    re.IGNORECASE,
)
RULES = ("first sentence", "word", "variable", "inverted", "relative clauses")
_INVERTED = re.compile(r"\b[Ww]hat (?:is|was|are|were|has|had|a|the)\b[^.;:]*\bis what\b|\bso (?:is|are|does|do) \w+\b")
_RELATIVE = re.compile(r"\b(?:which|who|whom|whose)\b")
_RELATIVE_OR_THAT = re.compile(rf"{_RELATIVE.pattern}|\bthat\b")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z`'\"(])|\n\s*\n|\n\s*[-|] ")
_SECTION = re.compile(r"^\s*(?:Args|Returns|Raises|Yields|Attributes):\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Offence:
    """A line that breaks a rule.

    Attributes:
        rule: "first sentence", "word", "variable", "inverted" or "relative clauses".
    """

    path: str
    line: int
    rule: str
    text: str


def offences() -> Iterator[Offence]:
    """Yield the offences of both packages and of the templates of pages, file by file."""
    for package in (PRODUCT, TESTS):
        for module in modules(package):
            inside = {*_documents(module), *_comments(module), *_messages(module), *_variables(module)}
            yield from sorted(inside, key=lambda offence: (offence.line, offence.rule, offence.text))
    for path in sorted(PRODUCT.rglob("*.html")):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            yield from _words(str(path.relative_to(ROOT)), number, line)


def counts(listed: list[Offence]) -> dict[str, dict[str, int]]:
    """Return how often each rule is broken, by folder."""
    folders: dict[str, dict[str, int]] = {}
    for offence in listed:
        rules = folders.setdefault(offence.path.rpartition("/")[0], {})
        rules[offence.rule] = rules.get(offence.rule, 0) + 1
    return dict(sorted(folders.items()))


def _documents(module: Module) -> Iterator[Offence]:
    for node, constant in docstrings(module.tree):
        text = str(constant.value)
        length = len(_first_sentence(text).split())
        is_test = isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if length > LONGEST_FIRST_SENTENCE and not is_test:
            yield Offence(
                module.path_in_project, constant.lineno, "first sentence", f"{length} words: {_first_sentence(text)}"
            )
        yield from _text(module.path_in_project, constant.lineno, text)


def _comments(module: Module) -> Iterator[Offence]:
    """Yield the offences in comments; lines of comment that follow one another are one text."""
    block: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type != tokenize.COMMENT:
            continue
        comment = token.string.lstrip("#").strip()
        if comment.startswith(("noqa", "type: ignore")):
            comment = comment.rpartition("#")[2].strip()
        if block and token.start[0] != last + 1:
            yield from _text(module.path_in_project, start, "\n".join(block))
            block = []
        if not block:
            start = token.start[0]
        last = token.start[0]
        block.append(comment)
    yield from _text(module.path_in_project, start, "\n".join(block))


def _messages(module: Module) -> Iterator[Offence]:
    """Yield the offences in texts of several words; docstrings, SQL and patterns are left out."""
    documents = {id(node) for _, node in docstrings(module.tree)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            is_code = re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|SET|FROM|WHERE)\b", node.value)
            if node.value.count(" ") > 1 and not is_code and "\\b" not in node.value:
                yield from _text(module.path_in_project, node.lineno, node.value)


def _variables(module: Module) -> Iterator[Offence]:
    comprehensions = {
        id(name)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.comprehension)
        for name in ast.walk(node.target)
    }
    lambdas = {
        id(argument) for node in ast.walk(module.tree) if isinstance(node, ast.Lambda) for argument in node.args.args
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        else:
            continue
        is_short = id(node) in comprehensions or id(node) in lambdas
        if name.strip("_") in VARIABLES and not (name == "each" and is_short):
            yield Offence(module.path_in_project, node.lineno, "variable", name)


def _text(path: str, line: int, text: str) -> Iterator[Offence]:
    yield from _words(path, line, text)
    for sentence in _SENTENCE_END.split(_SECTION.split(text)[0]):
        if _INVERTED.search(sentence):
            yield Offence(path, line, "inverted", " ".join(sentence.split()))
        if len(_RELATIVE.findall(sentence)) > 1 or len(_RELATIVE_OR_THAT.findall(sentence)) > 2:
            yield Offence(path, line, "relative clauses", " ".join(sentence.split()))


def _words(path: str, line: int, text: str) -> Iterator[Offence]:
    for match in WORDS.finditer(text):
        around = " ".join(text[max(0, match.start() - 40) : match.end() + 40].split())
        yield Offence(path, line + text.count("\n", 0, match.start()), "word", f"{match[0]}: …{around}…")


def _first_sentence(text: str) -> str:
    return " ".join(_SENTENCE_END.split(text.strip())[0].split())
