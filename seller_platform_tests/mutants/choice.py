"""The mutants of a module, as cosmic-ray makes them."""

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import ndiff
from pathlib import Path

from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import use_db

import seller_platform

PACKAGE = Path(seller_platform.__file__).parent

# Nearly all of these are annotations such as `str | None`, and signatures with a bare `*`.
_EXCLUDED = re.compile("core/ReplaceBinaryOperator_(BitOr_.*|Mul_Div)")
# It refuses what no code does, and the type checker notices it earlier.
_UNFROZEN = "+ @dataclass(frozen=False"


@dataclass(frozen=True)
class Mutant:
    """A module with one mistake.

    Attributes:
        module: Its name, below the package.
        code: The text of the module.
        function: The line of the innermost function that was changed; None outside of functions.
        change: The changed lines, as in a diff, below the name of their function or class.
    """

    module: str
    code: str
    function: int | None
    change: str


def path_of(module: str) -> Path:
    """Return the file of a module that is named below the package."""
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py")


def mutants_of(module: str, *, seed: int) -> Iterator[Mutant]:
    """Yield all mutants of a module in a random order, which the seed decides.

    Code that Python cannot parse is no mutant.
    """
    path = path_of(module)
    text = path.read_text()
    with use_db(":memory:") as database:
        init([path], database, {})
        mutations = [item.mutations[0] for item in database.work_items]
    mutations = [each for each in mutations if not _EXCLUDED.fullmatch(each.operator_name)]
    mutations.sort(key=lambda each: (each.operator_name, each.occurrence))
    random.Random(f"{seed} {module}").shuffle(mutations)
    functions = functions_of(ast.parse(text))
    for each in mutations:
        try:
            code = mutate_code(text, get_operator(each.operator_name)(**each.operator_args), each.occurrence)
            ast.parse(code)
        except (AttributeError, SyntaxError):  # cosmic-ray fails for dotted names of exceptions
            continue
        line = each.start_pos[0]
        inside = (node.lineno for node in functions if node.body[0].lineno <= line <= (node.end_lineno or 0))
        function = max(inside, default=None)
        changed = [part.rstrip() for part in ndiff(text.splitlines(), code.splitlines()) if part[0] in "+-"]
        if any(part.startswith(_UNFROZEN) for part in changed):
            continue
        yield Mutant(module, code, function, "\n".join([f"{module} {each.definition_name or ''}".rstrip(), *changed]))


def functions_of(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return all functions and methods of a module."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
