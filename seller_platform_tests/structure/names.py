"""Checks the names of classes, modules, folders and tests, and the paths that files mention."""

import ast
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

from seller_platform_tests.structure.source import PRODUCT, ROOT, TESTS, docstrings, folders, modules

LONGEST_TEST_NAME = 70
_LONG_NAME = re.compile(rf"^ *(?:async )?def (test_\w{{{LONGEST_TEST_NAME - 4},}})", re.MULTILINE)
_OF_CONFTEST = re.compile(
    r"^ *(?:from \S*\bconftest import|import \S*\bconftest\b|from \S+ import .*\bconftest\b)", re.MULTILINE
)
_FILES_WITH_PATHS = (
    "dagster.yaml",
    "workspace.yaml",
    "pyproject.toml",
    "README.md",
    "seller_platform/docs/**/*.md",
    ".ci/run",
    ".github/*.md",
    ".github/workflows/*",
    "docker/*",
    "docker/helm/*",
)
_DOTTED = re.compile(r"(?<![\w./-])seller_platform(?:_tests)?(?!\.toml)(?:\.[A-Za-z_]\w*)+(?::\w+)?(?![\w/-])")
_IMPORTED = re.compile(r"^from (seller_platform[\w.]*) import (\w+(?:, \w+)*)", re.MULTILINE)
_NAMED_BY_DAGSTER = re.compile(r"^ *module: (seller_platform[\w.]*)\n *(?:class|attribute): (\w+)", re.MULTILINE)
# Tags of runs look like folders of the package. A path has two parts below the package, or ends like a file or folder.
_FILE = re.compile(r"(?<![\w./-])seller_platform(?:_tests)?(?:(?:/\w+)+\.py|(?:/\w+)+/|(?:/\w+){2,})")


def repeated_classes() -> dict[str, list[str]]:
    """Return the class names that the product defines more than once, with their modules."""
    definitions: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                definitions[node.name].append(f"{module.path_in_project}:{node.lineno}")
    return {name: where for name, where in sorted(definitions.items()) if len(where) > 1}


def repeated_prefixes() -> list[str]:
    """Return the modules that repeat their folder's name or a prefix of two siblings."""
    offenders = []
    for folder, inside in folders().items():
        names = {module.path.stem: module for module in inside}
        words = Counter(name.partition("_")[0] for name in names if "_" in name)
        for name, module in names.items():
            if re.match(rf"{folder.name}(_|$)|{folder.name.removesuffix('s')}(_|$)", name):
                offenders.append(f"{module.path_in_project} repeats the name of its folder")
            elif "_" in name and words[name.partition("_")[0]] > 2:
                others = words[name.partition("_")[0]] - 1
                offenders.append(f"{module.path_in_project} begins like {others} modules beside it")
    return offenders


def unlisted_modules() -> list[str]:
    """Return the folders whose docstring does not name exactly the modules and folders in them."""
    offenders = []
    packages = [module for module in modules() if module.is_package]
    inside = folders()
    for package in packages:
        folder = package.path.parent
        document = ast.get_docstring(package.tree) or ""
        names = [module.path.stem for module in inside[folder] if module.path.stem != "__main__"]
        names += [other.path.parent.name for other in packages if other.path.parent.parent == folder]
        listed = re.findall(r"^- `(\w+)`: ", document, re.MULTILINE)
        gone = {each for each in listed if not (folder / each).is_dir() and not (folder / f"{each}.py").exists()}
        wrong = sorted({*names} - {*listed} | gone)
        if not document or wrong:
            offenders.append(f"{package.path_in_project}, which should list what is there: {', '.join(wrong)}")
    return offenders


def long_test_names() -> list[str]:
    """Return the tests whose names are too long."""
    return [name for module in modules(TESTS) for name in _LONG_NAME.findall(module.text)]


def imported_conftests() -> list[str]:
    """Return the modules that import a conftest."""
    return [module.path_in_project for module in modules(TESTS) if _OF_CONFTEST.search(module.text)]


def broken_paths() -> list[str]:
    """Return the mentioned dotted paths and file names that do not exist."""
    return [f"{where} names {path}" for where, path in mentioned_paths() if not _is_there(path)]


def mentioned_paths() -> Iterator[tuple[str, str]]:
    """Yield the places and the dotted paths and file names that the project mentions."""
    for pattern in _FILES_WITH_PATHS:
        for path in sorted(path for path in ROOT.glob(pattern) if path.is_file()):
            yield from ((str(path.relative_to(ROOT)), mentioned) for mentioned in _paths_in(path))
    for module in modules():
        documents = {id(node) for _, node in docstrings(module.tree)}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
                for mentioned in _DOTTED.findall(node.value):
                    # Other texts with this beginning are keys of a request, such as "seller_platform.request_id".
                    if (PRODUCT / re.split(r"[.:]", mentioned)[1]).is_dir():
                        yield f"{module.path_in_project}:{node.lineno}", mentioned


def _paths_in(path: Path) -> Iterator[str]:
    text = path.read_text()
    yield from _DOTTED.findall(text)
    for module, names in _IMPORTED.findall(text):
        yield from (f"{module}:{name}" for name in names.split(", "))
    if path.suffix == ".md":
        yield from _FILE.findall(text)
    if path.suffix == ".toml":
        ignored = tomllib.loads(text)["tool"]["ruff"]["lint"]["per-file-ignores"]
        yield from (name.partition("*")[0] for name in ignored)
    yield from (f"{module}:{name}" for module, name in _NAMED_BY_DAGSTER.findall(text))


def _is_there(path: str) -> bool:
    if "/" in path:
        return (ROOT / path.rstrip(".")).exists()
    try:
        resolve_name(path)
    except (ImportError, AttributeError):
        return False
    return True


def largest_folder() -> tuple[Path, int]:
    """Return the folder of the product with the most modules, and how many those are."""
    return max(((folder, len(inside)) for folder, inside in folders().items()), key=lambda item: item[1])
