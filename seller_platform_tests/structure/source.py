"""The modules of the product and of its tests, parsed."""

import ast
import gc
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import seller_platform

PRODUCT = Path(seller_platform.__file__).parent
ROOT = PRODUCT.parent
TESTS = ROOT / "seller_platform_tests"


@dataclass(frozen=True)
class Module:
    """One file of Python.

    Attributes:
        name: The dotted name; that of the package for its `__init__`.
    """

    name: str
    path: Path

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        tree = ast.parse(self.text)
        gc.freeze()  # it stays; the garbage collector would look through all trees again and again
        return tree


@cache
def modules() -> tuple[Module, ...]:
    """Return the modules of the product by name, numbered migrations left out."""
    paths = sorted(path for path in PRODUCT.rglob("*.py") if path.parts[-3:-1] != ("migrations", "versions"))
    return tuple(Module(_dotted(path), path) for path in paths)


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
